"""Areas, normals, lengths, opposite vertices, unit sphere: pure functions of positions and connectivity."""

from __future__ import annotations

import math

import numpy as np

from hodgeformer.base.containers import ElementKind
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import MeshComplex, is_used, sorted_by

LEAST_SINE = 1e-6  # of the angle of a face at its first corner: below it has no normal
LEAST_AREA = 1e-12  # of a surface in the unit sphere: with less it is a line, and cannot be scaled by its area
_ORDINARY = 100  # coordinates are ordinary between 2 to the minus this and 2 to the this
_FARTHEST_UNUSED = 4.0  # in sizes of the surface
# A spike is farther than this from all its neighbors, in median sides of faces and in roots of the area.
_SPIKE_SIDES, _SPIKE_ROOTS = 5.0, 0.5


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


def vertex_sums(values: FloatArray, members: IntArray, n_vertices: int) -> FloatArray:
    """For each vertex the sum of the values (n, c) of the faces or edges of which it is a member."""
    k = members.shape[1]
    columns = [np.bincount(members.ravel(), np.repeat(column, k), n_vertices) for column in values.T]
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


def without_spikes(vertices: FloatArray, faces: IntArray) -> FloatArray:
    """Vertices far from all their neighbors, which scanners leave behind, moved to the mean of these neighbors.

    An ordinary mesh is returned unchanged.
    """
    sides = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    lengths, area = norms(vertices[sides[:, 0]] - vertices[sides[:, 1]]), norms(face_vectors(vertices, faces)).sum() / 2
    is_long = lengths > max(_SPIKE_SIDES * np.median(lengths), _SPIKE_ROOTS * np.sqrt(area))
    spikes = is_used(faces, len(vertices))
    spikes[sides[~is_long]] = False
    moved = vertices.copy() if spikes.any() else vertices
    for spike in np.flatnonzero(spikes):
        around = np.unique(sides[(sides == spike).any(axis=1)])
        around = around[~spikes[around]]
        if around.size:  # sorted, so that rounding does not depend on the numbering
            moved[spike] = np.sort(vertices[around], axis=0).mean(axis=0)
    return moved


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
    opposite = _opposite_corners(topology, double_areas)
    points = vertices.take(np.concatenate([topology.edges.T, np.maximum(opposite, 0)]), axis=0)
    for side in (0, 1):
        missing = np.flatnonzero(opposite[side] < 0)
        tail, head, *corners = points[:, missing]
        points[2 + side, missing] = _mirrored(corners[1 - side], tail, head)
    pairs = [norms(points[i] - points[j]) for i in range(4) for j in range(i + 1, 4)]
    return points.swapaxes(0, 1), np.stack(pairs, axis=1)


def _mirrored(points: FloatArray, tails: FloatArray, heads: FloatArray) -> FloatArray:
    """Points mirrored in the lines through tails and heads."""
    along = heads - tails
    squares, products = np.einsum("ij,ij->i", along, along), np.einsum("ij,ij->i", along, points - tails)
    shares = products / np.where(squares > 0, squares, 1.0)
    return np.asarray(2 * (tails + shares[:, None] * along) - points)


def _opposite_corners(topology: MeshComplex, double_areas: FloatArray) -> IntArray:
    """(2, n_e) corners left and right of each edge, -1 where there is none."""
    largest_first = np.argsort(-double_areas, kind="stable")
    sides = (3 * largest_first[:, None] + np.arange(3)).ravel()
    offsets, places = sorted_by(topology.face_edges.ravel()[sides], topology.n.e)
    first, second = (sides[places[np.minimum(offsets[:-1] + rank, len(places) - 1)]] for rank in (0, 1))
    corners = np.roll(topology.faces, 1, axis=1).ravel()
    # If both faces traverse the edge the same way, the larger keeps its side.
    is_left, other = topology.face_signs.ravel()[first] > 0, np.where(np.diff(offsets) > 1, corners[second], -1)
    return np.stack([np.where(is_left, corners[first], other), np.where(is_left, other, corners[first])])
