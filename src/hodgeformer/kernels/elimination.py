"""L D L^T of M + t L for several times t at once, L the cotangent Laplacian: what spreading over a surface solves with.

Weights are cotangents without the negative ones, so every matrix is symmetric, positive definite, and an M-matrix: its
elimination subtracts nothing and cannot break down, whatever the soup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.kernels.sparse_order import sparse_order
from hodgeformer.mesh.geometry import around_vertices, face_vector
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import neighbor_lists

TIMES = np.geomspace(3e-4, 1.0, 8)
"""Times of the heat steps in units of the whole area: from the ring around a vertex to the whole body."""
N_TIMES = len(TIMES)
SMALLEST_MASS = 1e-4  # of the mean: a vertex without area keeps what it holds
STEEPEST = 100.0  # the largest cotangent, where a face has no area
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Laplacian:
    """Areas of vertices, and the neighbors of each with their weights, in the unit that makes the whole area one.

    (L x)_i = sum over neighbors j of w_ij (x_i - x_j). `edge_weights` are the same weights edge by edge.
    """

    masses: FloatArray
    edge_weights: FloatArray
    offsets: IntArray
    neighbors: NDArray[np.int32]
    weights: FloatArray

    @classmethod
    def from_surface(cls, vertices: FloatArray, faces: IntArray, edges: IntArray, face_edges: IntArray) -> Laplacian:
        double_areas, masses, _ = around_vertices(vertices, faces)
        area = double_areas.sum() / 2
        masses = np.maximum(masses / area if area > 0 else 0 * masses, SMALLEST_MASS / len(vertices))
        weights = _cotangents(vertices, faces, face_edges, len(edges))
        return cls(masses, weights, *neighbor_lists(edges, weights, len(vertices)))


@dataclass(frozen=True, eq=False)
class Elimination:
    """Column j of L, strictly below the diagonal: rows[offsets[j]:offsets[j + 1]], with one value per time.

    `order[i]` is the vertex that is eliminated as number i; `pivots` are one over D.
    """

    order: IntArray
    offsets: IntArray
    rows: NDArray[np.int32]
    values: NDArray[Any]
    pivots: FloatArray

    @classmethod
    def of(cls, laplacian: Laplacian, times: FloatArray, dtype: DTypeLike = np.float64) -> Elimination:
        """In float32 the factor takes half the memory; sums are taken in float64 all the same."""
        order = sparse_order(laplacian.offsets, laplacian.neighbors)
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        graph = (order, position, laplacian.offsets, laplacian.neighbors)
        parent, offsets = _tree(*graph)
        rows, values = np.empty(offsets[-1], dtype=np.int32), np.empty((offsets[-1], len(times)), dtype)
        pivots = _eliminate(*graph, laplacian.weights, laplacian.masses, times, parent, offsets, rows, values)
        return cls(order, offsets, rows, values, pivots)


@njit(cache=True, nogil=True)
def _cotangents(vertices: FloatArray, faces: IntArray, face_edges: IntArray, n_edges: int) -> FloatArray:
    """Half the sum of the cotangents of the angles that face each edge, not below zero."""
    weights = np.zeros(n_edges)
    for f in range(len(faces)):
        x, y, z = face_vector(vertices, faces[f])
        sine = np.sqrt(x * x + y * y + z * z)
        for side in range(3):
            corner, cosine = faces[f, (side + 2) % 3], 0.0
            for axis in range(3):
                at = vertices[corner, axis]
                cosine += (vertices[faces[f, side], axis] - at) * (vertices[faces[f, (side + 1) % 3], axis] - at)
            weights[face_edges[f, side]] += 0.5 * cosine / max(sine, abs(cosine) / STEEPEST, TINY)
    return np.maximum(weights, 0.0)


@njit(cache=True, nogil=True)
def _tree(
    order: IntArray, position: IntArray, offsets: IntArray, neighbors: NDArray[np.int32]
) -> tuple[IntArray, IntArray]:
    """The elimination tree (the first row below the diagonal of each column) and where the columns of L begin."""
    n = len(order)
    parent, mark, starts = np.full(n, -1), np.full(n, -1), np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        mark[i] = i
        for t in range(offsets[order[i]], offsets[order[i] + 1]):
            k = position[neighbors[t]]
            while k < i and mark[k] != i:
                if parent[k] < 0:
                    parent[k] = i
                starts[k + 1] += 1
                mark[k] = i
                k = parent[k]
    return parent, np.cumsum(starts)


@njit(cache=True, nogil=True)
def _eliminate(
    order: IntArray,
    position: IntArray,
    offsets: IntArray,
    neighbors: NDArray[np.int32],
    weights: FloatArray,
    masses: FloatArray,
    times: FloatArray,
    parent: IntArray,
    starts: IntArray,
    rows: NDArray[np.int32],
    values: NDArray[Any],
) -> FloatArray:
    """Fill L row by row, and give the pivots: row i solves with the rows above it.

    Its entries lie on the paths of the tree that end at i.
    """
    n, n_times = len(order), len(times)
    pivots = np.empty((n, n_times))
    filled = starts[:-1].copy()
    work, mark = np.zeros((n, n_times)), np.full(n, -1)
    path, stack = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    diagonal = np.empty(n_times)
    for i in range(n):
        mark[i] = i
        top = n
        total = 0.0
        for t in range(offsets[order[i]], offsets[order[i] + 1]):
            total += weights[t]
            k = position[neighbors[t]]
            if k > i:
                continue
            for s in range(n_times):
                work[k, s] -= times[s] * weights[t]
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
        for s in range(n_times):
            diagonal[s] = masses[order[i]] + times[s] * total
        for place in range(top, n):
            k = stack[place]
            for p in range(starts[k], filled[k]):
                row = rows[p]
                for s in range(n_times):
                    work[row, s] -= values[p, s] * work[k, s]
            p = filled[k]
            filled[k] += 1
            rows[p] = i
            for s in range(n_times):
                values[p, s] = work[k, s] * pivots[k, s]
                diagonal[s] -= work[k, s] * values[p, s]
                work[k, s] = 0.0
        for s in range(n_times):
            pivots[i, s] = 1.0 / diagonal[s]
    return pivots
