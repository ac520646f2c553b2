"""L D L^T of M + t L for several times t at once, with a Laplacian L on edges, which D blocks solve with.

Weights are cotangents without the negative ones, so every matrix is symmetric, positive definite, and an M-matrix: its
elimination subtracts nothing and cannot break down, whatever the soup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.geometry import around_vertices
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import inverse_permutation, neighbor_lists, sorted_by, sparse_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TIMES = np.geomspace(3e-4, 1.0, 8)
"""Times of the heat steps in units of the whole area: from the ring around a vertex to the whole body."""
N_TIMES = len(TIMES)
SMALLEST_MASS = 1e-4  # of the mean: a vertex without area keeps its values
STEEPEST = 100.0  # the largest cotangent, where a face has no area
TINY = 1e-300
_GROUND = 1e-6


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
        weights = np.bincount(face_edges.T.ravel(), _cotangents(vertices, faces, double_areas).ravel(), len(edges))
        return cls(masses, np.maximum(weights, 0.0), *neighbor_lists(edges, len(vertices)))


@dataclass(frozen=True, eq=False)
class Elimination:
    """Where the triangle L of M + t L has entries. It follows from the edges alone, so it is the same for any stars.

    `order[i]` is the i-th vertex to be eliminated, `position` its inverse. Column j, strictly below the
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
        order, offsets, rows = _eliminated(laplacian.offsets, laplacian.neighbors)
        n = len(order)
        position = inverse_permutation(order).astype(np.int32)
        row_offsets, places = sorted_by(rows, n)
        columns = np.repeat(np.arange(n, dtype=np.int32), np.diff(offsets))[places]
        return cls(order, position, offsets, rows, row_offsets, columns, places.astype(np.int32))


def _eliminated(offsets: IntArray, neighbors: NDArray[np.int32]) -> tuple[IntArray, IntArray, NDArray[np.int32]]:
    """An order, and the offsets and rows of the columns of L in it, by SuperLU.

    Minimum degree: few entries appear in L that the mesh does not have. Hubs go last, because with them the search
    takes a time that grows with the square of their degree.
    """
    degree = np.diff(offsets)
    n = len(degree)
    links = sparse_matrix((np.ones(len(neighbors)), neighbors, offsets), shape=(n, n))
    # Nearly singular, so that no entry decays to zero along a chain of vertices, however long.
    diagonal = sparse_matrix((degree + _GROUND, np.arange(n), np.arange(n + 1)), shape=(n, n))
    matrix = diagonal - links
    is_hub = degree > 16 + 10 * np.sqrt(n)
    if not is_hub.any():
        return _factored(matrix, "MMD_AT_PLUS_A")
    rest, hubs = np.flatnonzero(~is_hub), np.flatnonzero(is_hub)
    if rest.size:
        rest = rest[_factored(matrix[rest][:, rest], "MMD_AT_PLUS_A")[0]]
    order = np.concatenate([rest, hubs])
    return order, *_factored(matrix[order][:, order], "NATURAL")[1:]


def _factored(matrix: csr_array, method: str) -> tuple[IntArray, IntArray, NDArray[np.int32]]:
    from scipy.sparse.linalg import splu

    symmetric: dict[str, Any] = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factor = splu(matrix.tocsc(), permc_spec=method, **symmetric)
    lower = factor.L
    lower.sort_indices()
    offsets = lower.indptr.astype(np.int64) - np.arange(len(lower.indptr))  # without the diagonal, which comes first
    below = np.ones(lower.nnz, np.bool_)
    below[lower.indptr[:-1]] = False
    return np.argsort(factor.perm_c), offsets, lower.indices[below].astype(np.int32, copy=False)


def _cotangents(vertices: FloatArray, faces: IntArray, sines: FloatArray) -> FloatArray:
    """(3, n_f) half the cotangents of the angles that face the sides (0, 1), (1, 2), (2, 0)."""
    corners = vertices.take(faces.T, axis=0)
    sides = corners.take([1, 2, 0], axis=0) - corners
    cosines = -np.einsum("sfi,sfi->sf", sides.take([1, 2, 0], axis=0), sides.take([2, 0, 1], axis=0))
    return np.asarray(0.5 * cosines / np.maximum(np.maximum(sines, np.abs(cosines) / STEEPEST), TINY))
