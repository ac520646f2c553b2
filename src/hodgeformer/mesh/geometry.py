"""Areas, normals, lengths, opposite vertices, unit sphere: pure functions of positions and connectivity."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import ElementKind
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import MeshComplex, is_used

LEAST_SINE = 1e-6  # of the angle of a face at its first corner: below it has no normal
LEAST_AREA = 1e-12  # of a surface in the unit sphere: with less it is a line, and cannot be scaled by its area
_ORDINARY = 100  # coordinates are ordinary between 2 to the minus this and 2 to the this
_FARTHEST_UNUSED = 4.0  # in sizes of the surface


def face_vectors(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Normal times twice the area of each face, (n_f, 3)."""
    a, b, c = vertices.take(faces.T, axis=0)  # half the time of indexing
    return cross(b - a, c - a)


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Row-wise cross product; several times faster than np.cross on (n, 3)."""
    out = np.empty_like(a)
    out[:, 0] = a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1]
    out[:, 1] = a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]
    out[:, 2] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return out


def norms(vectors: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)))


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


def around_vertices(vertices: FloatArray, faces: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Twice the area of each face; for each vertex a third of the area of its faces, and its unit normal."""
    vectors = face_vectors(vertices, faces)
    double_areas = norms(vectors)
    sums = vertex_sums(np.column_stack([double_areas / 6, vectors]), faces, len(vertices))
    return double_areas, sums[:, 0], unit(sums[:, 1:])


def area_shares(vertices: FloatArray, faces: IntArray) -> tuple[float, FloatArray, FloatArray]:
    """The area of a surface, the share of each face in it, and its center; without area, all faces count equally.

    Sums are einsum's: those of BLAS depend on the number of threads.
    """
    double_areas = norms(face_vectors(vertices, faces))
    total = float(double_areas.sum())
    shares = double_areas / total if total > 0 else np.full(len(faces), 1 / len(faces))
    return total / 2, shares, np.einsum("f,fi->i", shares, face_centers(vertices, faces))


def face_centers(vertices: FloatArray, faces: IntArray) -> FloatArray:
    return np.asarray(vertices.take(faces.T, axis=0).sum(axis=0) / 3)


def edge_centers(vertices: FloatArray, edges: IntArray) -> FloatArray:
    return (vertices[edges[:, 0]] + vertices[edges[:, 1]]) / 2


def centers(kind: ElementKind, topology: MeshComplex, vertices: FloatArray) -> FloatArray:
    """The positions of elements: vertices, midpoints of edges, centers of faces."""
    if kind == "v":
        return vertices
    return edge_centers(vertices, topology.edges) if kind == "e" else face_centers(vertices, topology.faces)


def nearest_rows(points: FloatArray, among: FloatArray) -> IntArray:
    """For each point the row of `among` that is nearest to it."""
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(among).query(points)[1], np.int64)


def size_exponent(mesh: Mesh) -> int:
    """0 if the size is ordinary, otherwise the smallest power of two above the coordinates of the surface."""
    largest = float(np.abs(mesh.vertices[is_used(mesh.faces, mesh.n_vertices)]).max())
    exponent = math.frexp(largest)[1]
    return exponent if abs(exponent) > _ORDINARY else 0


def in_range(mesh: Mesh) -> Mesh:
    """The mesh, scaled by a power of two if squares of its coordinates would overflow or vanish.

    Vertices that no face uses are moved near if they are as far out. An ordinary mesh is returned unchanged.
    """
    exponent, limit = size_exponent(mesh), 2.0**_ORDINARY
    if exponent == 0 and np.abs(mesh.vertices).max() <= limit:
        return mesh
    with np.errstate(over="ignore"):
        return mesh.with_vertices(np.clip(np.ldexp(mesh.vertices, -exponent), -limit, limit))


def to_unit_sphere(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Move the centroid of the surface to the origin and the farthest used vertex to distance one.

    The centroid of the surface, unlike the mean of the vertices, does not move when a part is meshed more finely.
    Vertices that no face uses have no influence; those far outside are moved near, so that no number is large.
    """
    shifted: FloatArray = vertices - vertices[faces[0, 0]]  # far from the origin, squares lose precision
    used = is_used(faces, len(vertices))
    extent = np.abs(shifted[used]).max()
    if extent == 0:
        return np.zeros_like(shifted)
    # Prevents overflow and underflow below.
    shifted /= extent
    np.clip(shifted, -_FARTHEST_UNUSED, _FARTHEST_UNUSED, out=shifted)
    shifted -= area_shares(shifted, faces)[2]
    x, y, z = shifted[used].T
    shifted /= np.sqrt((x * x + y * y + z * z).max())
    return shifted


def to_disk_area(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Scale the surface to the area of the unit disk; a surface without area is not changed.

    When a body stretches its arms, its enclosing sphere grows but its area does not, so parts keep their size.
    """
    area = norms(face_vectors(vertices, faces)).sum() / 2
    return np.asarray(vertices * np.sqrt(np.pi / area) if area > LEAST_AREA else vertices)


def edge_quads(vertices: FloatArray, topology: MeshComplex, double_areas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tail, head, left and right opposite vertex of each edge, (n_e, 4, 3), and the six distances between these four.

    Left is the corner opposite the edge in the face that traverses it from tail to head. Of three or more faces the two
    largest count. A missing vertex is the other one mirrored in the edge.
    """
    return _quads(vertices, topology.edges, topology.faces, topology.face_edges, topology.face_signs, double_areas)


@njit(cache=True, nogil=True)
def _quads(
    vertices: FloatArray,
    edges: IntArray,
    faces: IntArray,
    face_edges: IntArray,
    face_signs: NDArray[np.int8],
    double_areas: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    opposite = _opposite_corners(faces, face_edges, face_signs, double_areas, len(edges))
    points, distances = np.empty((len(edges), 4, 3)), np.empty((len(edges), 6))
    for e in range(len(edges)):
        quad = points[e]
        for side in range(2):
            for axis in range(3):
                quad[side, axis] = vertices[edges[e, side], axis]
                quad[2 + side, axis] = vertices[opposite[e, side], axis]
        for side in range(2):
            if opposite[e, side] < 0:
                _mirror(quad[3 - side], quad[0], quad[1], quad[2 + side])
        pair = 0
        for i in range(4):
            for j in range(i + 1, 4):
                x, y, z = quad[i, 0] - quad[j, 0], quad[i, 1] - quad[j, 1], quad[i, 2] - quad[j, 2]
                distances[e, pair] = np.sqrt(x * x + y * y + z * z)
                pair += 1
    return points, distances


@njit(cache=True, nogil=True)
def _mirror(point: FloatArray, tail: FloatArray, head: FloatArray, out: FloatArray) -> None:
    """The point mirrored in the line through tail and head."""
    length, along = 0.0, 0.0
    for axis in range(3):
        length += (head[axis] - tail[axis]) ** 2
        along += (head[axis] - tail[axis]) * (point[axis] - tail[axis])
    share = along / length if length > 0 else 0.0
    for axis in range(3):
        out[axis] = 2 * (tail[axis] + share * (head[axis] - tail[axis])) - point[axis]


@njit(cache=True, nogil=True)
def _opposite_corners(
    faces: IntArray, face_edges: IntArray, face_signs: NDArray[np.int8], double_areas: FloatArray, n_edges: int
) -> IntArray:
    """Corner numbers left and right of each edge, (n_e, 2), -1 where there is none."""
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
                    if sides[e, place] >= 0:  # both faces traverse the edge the same way: the larger keeps its side
                        place = 1 - place
                    sides[e, place] = faces[f, (side + 2) % 3]
    return sides
