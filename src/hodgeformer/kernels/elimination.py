"""L D L^T of M + t L for several times t at once, with a Laplacian L on edges; spreading over a surface solves with it.

Weights are cotangents without the negative ones, so every matrix is symmetric, positive definite, and an M-matrix: its
elimination subtracts nothing and cannot break down, whatever the soup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.geometry import around_vertices, face_vector
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import neighbor_lists, sparse_matrix

TIMES = np.geomspace(3e-4, 1.0, 8)
"""Times of the heat steps in units of the whole area: from the ring around a vertex to the whole body."""
N_TIMES = len(TIMES)
SMALLEST_MASS = 1e-4  # of the mean: a vertex without area keeps its values
STEEPEST = 100.0  # the largest cotangent, where a face has no area
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Laplacian:
    """Areas of vertices, and the neighbors of each with their weights, in the unit that makes the whole area one.

    (L x)_i = sum over neighbors j of w_ij (x_i - x_j), w_ij = edge_weights[e] with `edges` the e of each neighbor.
    """

    masses: FloatArray
    edge_weights: FloatArray
    offsets: IntArray
    neighbors: NDArray[np.int32]
    edges: NDArray[np.int32]

    @classmethod
    def from_surface(cls, vertices: FloatArray, faces: IntArray, edges: IntArray, face_edges: IntArray) -> Laplacian:
        double_areas, masses, _ = around_vertices(vertices, faces)
        area = double_areas.sum() / 2
        masses = np.maximum(masses / area if area > 0 else 0 * masses, SMALLEST_MASS / len(vertices))
        weights = np.zeros(len(edges))
        _add_cotangents(vertices, faces, face_edges, weights)
        return cls(masses, np.maximum(weights, 0.0), *neighbor_lists(edges, len(vertices)))


@dataclass(frozen=True, eq=False)
class Elimination:
    """Where the triangle L of M + t L has entries. It follows from the edges alone, so it serves any stars.

    `order[i]` is the vertex that is eliminated as number i, `position` its inverse. Column j, strictly below the
    diagonal: rows[offsets[j]:offsets[j + 1]]. Row i: the entries places[row_offsets[i]:row_offsets[i + 1]], in their
    `columns`, none before those that it depends on.
    """

    order: IntArray
    position: NDArray[np.int32]
    offsets: IntArray
    rows: NDArray[np.int32]
    row_offsets: IntArray
    columns: NDArray[np.int32]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, laplacian: Laplacian) -> Elimination:
        order = sparse_order(laplacian.offsets, laplacian.neighbors)
        position = np.empty(len(order), dtype=np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
        graph = (order, position, laplacian.offsets, laplacian.neighbors)
        parent, marks = np.full(len(order), -1), np.full((2, len(order)), -1)
        counts, row_counts = np.zeros((2, len(order) + 1), dtype=np.int64)  # each after a zero
        _tree(*graph, parent, marks[0], counts, row_counts)
        offsets, row_offsets = np.cumsum(counts), np.cumsum(row_counts)
        rows, columns, places = (np.empty(offsets[-1], dtype=np.int32) for _ in range(3))
        path, stack = np.empty((2, len(order)), dtype=np.int64)
        _fill(*graph, parent, offsets[:-1].copy(), row_offsets, rows, columns, places, marks[1], path, stack)
        return cls(order, position, offsets, rows, row_offsets, columns, places)


def sparse_order(offsets: IntArray, neighbors: NDArray[np.int32]) -> IntArray:
    """Minimum degree, by SuperLU: few entries appear in L that the mesh does not have. Hubs go last.

    SuperLU does not give the order alone, so it eliminates the graph, whose values do not matter, once more.
    """
    from scipy.sparse.linalg import splu

    degree = np.diff(offsets)
    is_hub = degree > 16 + 10 * np.sqrt(len(degree))  # among them the search takes a time that grows with the square
    rest, hubs = np.flatnonzero(~is_hub), np.flatnonzero(is_hub)
    if not rest.size:
        return hubs
    n = len(degree)
    links = sparse_matrix((np.ones(len(neighbors)), neighbors, offsets), shape=(n, n))
    diagonal = sparse_matrix((degree + 1.0, np.arange(n), np.arange(n + 1)), shape=(n, n))
    matrix = (diagonal - links)[rest][:, rest] if hubs.size else diagonal - links
    symmetric: dict[str, Any] = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    column = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", **symmetric).perm_c
    return np.concatenate([rest[np.argsort(column)], hubs])


@njit(cache=True, nogil=True)
def _add_cotangents(vertices: FloatArray, faces: IntArray, face_edges: IntArray, weights: FloatArray) -> None:
    """Half the sum of the cotangents of the angles that face each edge."""
    for f in range(len(faces)):
        x, y, z = face_vector(vertices, faces[f])
        sine = np.sqrt(x * x + y * y + z * z)
        for side in range(3):
            corner, cosine = faces[f, (side + 2) % 3], 0.0
            for axis in range(3):
                at = vertices[corner, axis]
                cosine += (vertices[faces[f, side], axis] - at) * (vertices[faces[f, (side + 1) % 3], axis] - at)
            weights[face_edges[f, side]] += 0.5 * cosine / max(sine, abs(cosine) / STEEPEST, TINY)


@njit(cache=True, nogil=True)
def _tree(
    order: IntArray,
    position: NDArray[np.int32],
    offsets: IntArray,
    neighbors: NDArray[np.int32],
    parent: IntArray,
    mark: IntArray,
    counts: IntArray,
    row_counts: IntArray,
) -> None:
    """The elimination tree (the first row below the diagonal of each column), and the lengths of columns and rows."""
    for i in range(len(order)):
        mark[i] = i
        for t in range(offsets[order[i]], offsets[order[i] + 1]):
            k = np.int64(position[neighbors[t]])
            while k < i and mark[k] != i:
                if parent[k] < 0:
                    parent[k] = i
                counts[k + 1] += 1
                row_counts[i + 1] += 1
                mark[k] = i
                k = parent[k]


@njit(cache=True, nogil=True)
def _fill(
    order: IntArray,
    position: NDArray[np.int32],
    offsets: IntArray,
    neighbors: NDArray[np.int32],
    parent: IntArray,
    filled: IntArray,
    row_starts: IntArray,
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    places: NDArray[np.int32],
    mark: IntArray,
    path: IntArray,
    stack: IntArray,
) -> None:
    """The entries row by row: those of row i lie on the paths of the tree that end at i."""
    n = len(order)
    for i in range(n):
        mark[i] = i
        top = n
        for t in range(offsets[order[i]], offsets[order[i] + 1]):
            k = np.int64(position[neighbors[t]])
            if k > i:
                continue
            length = 0
            while mark[k] != i:
                path[length] = k
                length += 1
                mark[k] = i
                k = parent[k]
            while length > 0:
                length -= 1
                top -= 1
                stack[top] = path[length]
        for place in range(top, n):
            k, q = stack[place], row_starts[i] + place - top
            rows[filled[k]], columns[q], places[q] = i, k, filled[k]
            filled[k] += 1
