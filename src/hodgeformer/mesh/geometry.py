"""Areas, normals, lengths, opposite vertices, unit sphere, winding: pure functions of positions and connectivity."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hodgeformer.containers import ElementKind
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex

_FARTHEST_UNUSED = 4.0  # in sizes of the surface
_HOLLOW = 1e-3  # volume over area ** 1.5 below which a piece has no inside


def face_vectors(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Normal times twice the area of each face, (n_f, 3)."""
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    return cross(b - a, c - a)


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Row-wise cross product; several times faster than np.cross on (n, 3)."""
    out = np.empty_like(a)
    out[:, 0] = a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1]
    out[:, 1] = a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]
    out[:, 2] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return out


def norms(vectors: FloatArray) -> FloatArray:
    result: FloatArray = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return result


def unit(vectors: FloatArray) -> FloatArray:
    """Rows scaled to length one; a zero row stays zero."""
    lengths = norms(vectors)[:, None]
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def vertex_sums(face_values: FloatArray, faces: IntArray, n_vertices: int) -> FloatArray:
    """For each vertex the sum of the values (n_f, c) of its faces."""
    columns = [
        np.bincount(faces.ravel(), weights=np.repeat(column, 3), minlength=n_vertices) for column in face_values.T
    ]
    return np.stack(columns, axis=1)


def face_centers(vertices: FloatArray, faces: IntArray) -> FloatArray:
    corners = vertices[faces]
    return (corners[:, 0] + corners[:, 1] + corners[:, 2]) / 3


def edge_centers(vertices: FloatArray, edges: IntArray) -> FloatArray:
    return (vertices[edges[:, 0]] + vertices[edges[:, 1]]) / 2


def centers(kind: ElementKind, topology: MeshComplex, vertices: FloatArray) -> FloatArray:
    """Where the elements are: vertices, middles of edges, centers of faces."""
    if kind == "v":
        return vertices
    return edge_centers(vertices, topology.edges) if kind == "e" else face_centers(vertices, topology.faces)


def is_used(faces: IntArray, n_vertices: int) -> NDArray[np.bool_]:
    """Which vertices are a corner of some face."""
    used = np.zeros(n_vertices, dtype=bool)
    used[faces.ravel()] = True
    return used


def to_unit_sphere(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Move the centroid of the surface to the origin and the farthest used vertex to distance one.

    The centroid of the surface, unlike the mean of the vertices, does not move when a part is meshed more finely.
    Vertices that no face uses decide nothing; those far outside come near, so that no number is large.
    """
    shifted = vertices - vertices[faces[0, 0]]  # far from the origin, squares lose what matters
    used = is_used(faces, len(vertices))
    extent = float(np.abs(shifted[used]).max())
    if extent == 0:
        return np.zeros_like(vertices)
    # Neither overflow nor underflow below, whatever the unit.
    shifted = np.clip(shifted, -_FARTHEST_UNUSED * extent, _FARTHEST_UNUSED * extent) / extent
    areas = norms(face_vectors(shifted, faces))
    total = areas.sum()
    centers = face_centers(shifted, faces)
    centered = shifted - (areas @ centers / total if total > 0 else centers.mean(axis=0))
    scaled: FloatArray = centered / norms(centered[used]).max()
    return scaled


def to_disk_area(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Scale the surface to the area of the unit disk; one without area stays as it is.

    A body that stretches its arms leaves a sphere around it but keeps its area, so parts keep their size.
    """
    area = norms(face_vectors(vertices, faces)).sum() / 2
    return vertices * np.sqrt(np.pi / area) if area > 0 else vertices


def opposite_vertices(
    vertices: FloatArray, topology: MeshComplex, double_areas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Positions of the vertices left and right of each edge, (n_e, 3) each.

    Left is the corner opposite the edge in the face that walks it from tail to head. Of three or more faces the two
    largest count. A missing one is the mirror image of the present one in the edge.
    """
    left, right = _opposite_corners(
        topology.faces, topology.face_edges, topology.face_signs, double_areas, topology.n.e
    )
    tail, head = (vertices[topology.edges[:, i]] for i in range(2))
    left_at, right_at = vertices[left], vertices[right]
    no_left, no_right = left < 0, right < 0
    left_at[no_left] = _mirrored(right_at[no_left], tail[no_left], head[no_left])
    right_at[no_right] = _mirrored(left_at[no_right], tail[no_right], head[no_right])
    return left_at, right_at


def _mirrored(points: FloatArray, tail: FloatArray, head: FloatArray) -> FloatArray:
    along = unit(head - tail)
    offset = points - tail
    mirrored: FloatArray = tail + 2 * np.einsum("ij,ij->i", offset, along)[:, None] * along - offset
    return mirrored


@njit(cache=True, nogil=True)
def _opposite_corners(
    faces: IntArray,
    face_edges: IntArray,
    face_signs: NDArray[np.int8],
    double_areas: FloatArray,
    n_edges: int,
) -> tuple[IntArray, IntArray]:
    """Corner numbers left and right of each edge, -1 where there is none."""
    best = np.full((n_edges, 2), -1)  # the two largest faces at each edge, largest first
    for f in range(len(faces)):
        for side in range(3):
            e = face_edges[f, side]
            if best[e, 0] < 0 or double_areas[f] > double_areas[best[e, 0]]:
                best[e, 1] = best[e, 0]
                best[e, 0] = f
            elif best[e, 1] < 0 or double_areas[f] > double_areas[best[e, 1]]:
                best[e, 1] = f
    sides = np.full((n_edges, 2), -1)
    for e in range(n_edges):
        for rank in range(2):
            f = best[e, rank]
            if f < 0:
                continue
            for side in range(3):
                if face_edges[f, side] == e:
                    place = 0 if face_signs[f, side] > 0 else 1
                    if sides[e, place] >= 0:  # both faces walk the edge the same way: the larger keeps its side
                        place = 1 - place
                    sides[e, place] = faces[f, (side + 2) % 3]
    return sides[:, 0].copy(), sides[:, 1].copy()


def outward(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Faces turned so that neighbors agree and normals point outward, piece by piece, over edges with two faces.

    Outward is where the volume about the center of the piece is positive, also for one that is cut open. A piece that
    encloses nothing keeps the winding of most of its area; one that cannot be oriented keeps the file's.
    """
    topology = MeshComplex.from_faces(faces, len(vertices))
    piece, turned, orientable = _agreeing(topology.face_edges, topology.face_signs, topology.n.e)
    vectors = face_vectors(vertices, faces) * np.where(turned, -1.0, 1.0)[:, None]
    areas, centers, n = norms(vectors) / 2, face_centers(vertices, faces), len(orientable)

    def sums(values: FloatArray) -> FloatArray:
        return np.bincount(piece, weights=values, minlength=n).astype(np.float64)

    area = sums(areas)
    safe = np.where(area > 0, area, 1.0)
    middle = np.stack([sums(areas * centers[:, axis]) / safe for axis in range(3)], axis=1)
    volume = sums(np.einsum("fi,fi->f", centers - middle[piece], vectors) / 6)
    hollow = np.abs(volume) > _HOLLOW * area**1.5
    inside_out = np.where(hollow, volume < 0, sums(areas * turned) > area / 2)
    turned = (turned ^ inside_out[piece]) & orientable[piece]
    return np.where(turned[:, None], faces[:, [0, 2, 1]], faces)


@njit(cache=True, nogil=True)
def _agreeing(
    face_edges: IntArray, face_signs: NDArray[np.int8], n_edges: int
) -> tuple[IntArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """The piece of each face, whether it must turn to agree with the first face of it, and which pieces can agree."""
    n = len(face_edges)
    count, pair = np.zeros(n_edges, dtype=np.int64), np.zeros((n_edges, 2), dtype=np.int64)
    for f in range(n):
        for side in range(3):
            e = face_edges[f, side]
            if count[e] < 2:
                pair[e, count[e]] = 3 * f + side
            count[e] += 1
    piece, turned = np.full(n, -1), np.zeros(n, dtype=np.bool_)
    orientable, stack = np.ones(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    n_pieces = 0
    for start in range(n):
        if piece[start] >= 0:
            continue
        piece[start] = n_pieces
        stack[0], height = start, 1
        while height > 0:
            height -= 1
            f = stack[height]
            for side in range(3):
                e = face_edges[f, side]
                if count[e] != 2:
                    continue
                other = pair[e, 0] if pair[e, 1] == 3 * f + side else pair[e, 1]
                g = other // 3
                turn = turned[f] ^ (face_signs[f, side] == face_signs[g, other % 3])
                if piece[g] < 0:
                    piece[g], turned[g] = n_pieces, turn
                    stack[height] = g
                    height += 1
                elif turned[g] != turn:
                    orientable[n_pieces] = False
        n_pieces += 1
    return piece, turned, orientable[:n_pieces]
