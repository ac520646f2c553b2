"""How a learned star spreads its weight: around one element, over all rows, and against the textbook's star."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from hodgeformer.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.geometry import centers
from hodgeformer.mesh.order import inverse
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.study.operators import HeadOperators

FloatArray = NDArray[np.float64]
_MOST_ROWS_WITH_HOPS = 256  # a search over the whole mesh for each row
_ROWS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Reach:
    """Per row of a star: its sum, exp of its entropy (how many neighbors it really reads), weighted mean distances.

    `distance` is in radii of the mesh. `hops` counts steps between adjacent elements for the rows `hop_rows`, evenly
    chosen; weight on other components is left out of it and counted in `unreachable`.
    """

    row_sums: FloatArray
    neighbors: FloatArray
    own_weight: FloatArray
    distance: FloatArray
    hop_rows: NDArray[np.int64]
    hops: FloatArray
    unreachable: FloatArray

    def summary(self) -> dict[str, float]:
        return {
            "largest_row_sum_error": float(np.abs(self.row_sums - 1).max()),
            "effective_neighbors_mean": float(self.neighbors.mean()),
            "effective_neighbors_min": float(self.neighbors.min()),
            "effective_neighbors_max": float(self.neighbors.max()),
            "own_weight_mean": float(self.own_weight.mean()),
            "distance_mean": float(self.distance.mean()),
            "hops_mean": float(self.hops.mean()),
            "unreachable_weight_mean": float(self.unreachable.mean()),
        }


def reach_of(star: csr_array, prepared: PreparedMesh, kind: ElementKind) -> Reach:
    """The reach of a star that acts on elements of a kind."""
    n = star.shape[0]
    row = np.repeat(np.arange(n), np.diff(star.indptr))
    weights, columns = star.data, star.indices

    def row_sums(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(row, weights=values, minlength=n), np.float64)

    entropy = -row_sums(weights * np.log(np.maximum(weights, 1e-300)))
    at = centers(kind, prepared.topology, prepared.positions)
    apart = np.linalg.norm(at[row] - at[columns], axis=1)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS_WITH_HOPS)).round().astype(np.int64))
    hops, unreachable = _weighted_hops(star, _adjacency(prepared.topology, kind), chosen)
    return Reach(
        row_sums=row_sums(weights),
        neighbors=np.exp(entropy),
        own_weight=star.diagonal(),
        distance=row_sums(weights * apart),
        hop_rows=chosen,
        hops=hops,
        unreachable=unreachable,
    )


def attention_around(operators: HeadOperators, star: csr_array, kind: ElementKind, picked: int) -> FloatArray:
    """The row of a star for element `picked` of the file, as one weight per element of the file; NaN outside S_i.

    A face of the file that repeats a vertex has no place in the complex and shows the weight of the nearest one.
    """
    prepared = operators.prepared
    n_file = len(prepared.face_source) if kind == "f" else prepared.n[kind]
    if not 0 <= picked < n_file:
        raise ConfigError(f"{prepared.name} has {ELEMENT_NAMES[kind]} elements 0 to {n_file - 1}, got {picked}")
    here = int(prepared.face_source[picked] if kind == "f" else inverse(prepared.order[kind])[picked])
    entries = slice(star.indptr[here], star.indptr[here + 1])
    weights = np.full(prepared.n[kind], np.nan)
    weights[star.indices[entries]] = star.data[entries]
    return prepared.to_file_order(weights, kind)


def compare_stars(learned: csr_array, classical: csr_array) -> dict[str, float | None]:
    """Pearson correlations of a learned star with the textbook's, on the entries of the learned one.

    `entries` takes classical zeros for zeros, `absolute_entries` ignores the signs, which belong to the arbitrary
    directions of edges, `diagonal` compares diagonals only. None where one side does not vary.
    """
    row = np.repeat(np.arange(learned.shape[0]), np.diff(learned.indptr))
    there = np.asarray(classical[row, learned.indices]).ravel()
    return {
        "entries": correlation(learned.data, there),
        "absolute_entries": correlation(learned.data, np.abs(there)),
        "diagonal": correlation(learned.diagonal(), classical.diagonal()),
    }


def correlation(a: NDArray[Any], b: NDArray[Any]) -> float | None:
    """Pearson's, None where one side does not vary."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / scale if scale > 1e-12 * len(a) else None


def _adjacency(topology: MeshComplex, kind: ElementKind) -> csr_array:
    """Vertices adjacent over an edge, edges at a vertex, faces over an edge."""
    incidence = abs(topology.d1_matrix() if kind == "f" else topology.d0_matrix()).astype(np.float64)
    return csr_array(incidence.T @ incidence if kind == "v" else incidence @ incidence.T)


def _weighted_hops(star: csr_array, adjacency: csr_array, rows: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    hops, unreachable = np.zeros(len(rows)), np.zeros(len(rows))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[first : first + _ROWS_AT_ONCE]
        distances = dijkstra(adjacency, indices=part, unweighted=True)
        for i, (row, apart) in enumerate(zip(part, distances, strict=True), first):
            entries = slice(star.indptr[row], star.indptr[row + 1])
            weights, steps = star.data[entries], apart[star.indices[entries]]
            reached = np.isfinite(steps)
            hops[i] = weights[reached] @ steps[reached]
            unreachable[i] = weights[~reached].sum()
    return hops, unreachable
