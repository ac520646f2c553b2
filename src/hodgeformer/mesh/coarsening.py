"""The Laplacian of a large surface on fewer and fewer unknowns, for solving without elimination.

Vertices that lean on each other form aggregates of about seven, in the canonical order. A value of an aggregate is
spread to its vertices and those around it by one step of smoothing, and the coarse Laplacian is the fine one applied
to what was spread so. Only weights are read: any soup has them, and nothing asks for positions or for a manifold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from hodgeformer.mesh.elimination import Laplacian
from hodgeformer.mesh.mesh import FloatArray, IntArray

EXACT = 50_000
"""Vertices up to which a surface is eliminated; elimination grows like their number to the power 1.6."""
_COARSEST = 2048  # unknowns: so few are eliminated at once
_STRONG = 0.25  # of the largest weight at a vertex
_DAMPING = 2 / 3


@dataclass(frozen=True, eq=False)
class Levels:
    """Rows of M + t L on all levels but the coarsest, and how values get from one level to the next.

    Unknowns of all levels are counted through, N of them: those of level l are starts[l]:starts[l + 1]. Places of x are
    0:N, of right sides N:2N, of residuals 2N:3N. Row i reads entries begins[i]:owns[i] + 1 of `columns` and `weights`:
    neighbors before it, its right side (the last one before middles[i]), neighbors after it, itself (at owns[i]).
    Row i takes values of the next coarser level by up_offsets[i]:up_offsets[i + 1], itself last; row i of level one and
    beyond takes residuals of the next finer one by down_offsets[i - n]:down_offsets[i - n + 1].
    """

    starts: IntArray
    masses: FloatArray
    begins: IntArray
    middles: IntArray
    owns: IntArray
    columns: NDArray[np.int32]
    weights: FloatArray
    up_offsets: IntArray
    up_columns: NDArray[np.int32]
    up_shares: FloatArray
    down_offsets: IntArray
    down_columns: NDArray[np.int32]
    down_shares: FloatArray


def coarsened(laplacian: Laplacian) -> tuple[Levels, Laplacian]:
    """All levels, and the coarsest Laplacian, which is small enough to be eliminated."""
    levels, spreads = [laplacian], []
    while len(levels[-1].masses) > _COARSEST:
        spreads.append(_spread(levels[-1]))
        levels.append(_galerkin(levels[-1], spreads[-1]))
    starts = np.array([0, *accumulate(len(level.masses) for level in levels)])
    fine, total = levels[:-1], int(starts[-1])
    rows = [_rows(a.offsets, a.neighbors, a.weights, start, total) for a, start in zip(fine, starts, strict=False)]
    firsts = [0, *accumulate(len(columns) for *_, columns, _ in rows)]
    begins, middles, owns = (
        np.concatenate([row[part] + first for row, first in zip(rows, firsts, strict=False)]) for part in range(3)
    )
    up = [_with_own(spread, starts[i], starts[i + 1]) for i, spread in enumerate(spreads)]
    transposed = [csr_array(spread.T) for spread in spreads]
    down = [(a.indptr, a.indices + 2 * total + starts[i], a.data) for i, a in enumerate(transposed)]
    return Levels(
        starts,
        np.concatenate([level.masses for level in fine]),
        begins,
        middles,
        owns,
        np.concatenate([row[3] for row in rows]),
        np.concatenate([row[4] for row in rows]),
        *_joined(up),
        *_joined(down),
    ), levels[-1]


def _spread(laplacian: Laplacian) -> csr_array:
    """(vertices, aggregates): rows sum to one, or are empty where no weight connects a vertex to others."""
    aggregate, n_aggregates = _aggregates(laplacian.offsets, laplacian.neighbors, laplacian.weights)
    members = np.flatnonzero(aggregate >= 0)
    places = (members, aggregate[members])
    plain = csr_array((np.ones(len(members)), places), shape=(len(aggregate), n_aggregates))
    weights = _matrix(laplacian)
    total = np.asarray(weights.sum(axis=1))
    means = diags_array(_DAMPING / np.where(total > 0, total, 1.0)) @ (weights @ plain)
    return csr_array((1 - _DAMPING) * plain + means)


def _galerkin(laplacian: Laplacian, spread: csr_array) -> Laplacian:
    """S^T L S, and the masses S^T m, so that integrals stay what they are."""
    weights = _matrix(laplacian)
    total = np.asarray(weights.sum(axis=1))
    coarse = csr_array(spread.T @ (diags_array(total) @ spread - weights @ spread))
    coarse.sort_indices()
    rows = np.repeat(np.arange(coarse.shape[0]), np.diff(coarse.indptr))
    apart = rows != coarse.indices
    rows, columns, values = rows[apart], coarse.indices[apart].astype(np.int32), -coarse.data[apart]
    offsets = np.append(0, np.cumsum(np.bincount(rows, minlength=coarse.shape[0])))
    return Laplacian(spread.T @ laplacian.masses, values[rows < columns], offsets, columns, values)


def _matrix(laplacian: Laplacian) -> csr_array:
    n = len(laplacian.masses)
    return csr_array((laplacian.weights, laplacian.neighbors, laplacian.offsets), shape=(n, n))


def _with_own(spread: csr_array, start: int, coarse_start: int) -> tuple[Any, Any, Any]:
    """Offsets, columns and shares of the rows, each with its own unknown at the end."""
    n, ends = spread.shape[0], spread.indptr[1:]
    columns = np.insert(spread.indices + coarse_start, ends, start + np.arange(n))
    return spread.indptr + np.arange(n + 1), columns, np.insert(spread.data, ends, 1.0)


def _joined(lists: list[tuple[Any, Any, Any]]) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    firsts = [0, *accumulate(len(columns) for _, columns, _ in lists)]
    offsets = [part[:-1] + first for (part, _, _), first in zip(lists, firsts, strict=False)]
    columns, shares = (np.concatenate([one[i] for one in lists]) for i in (1, 2))
    return np.append(np.concatenate(offsets), firsts[-1]).astype(np.int64), columns.astype(np.int32), shares


@njit(cache=True, nogil=True)
def _aggregates(offsets: IntArray, neighbors: NDArray[np.int32], weights: FloatArray) -> tuple[IntArray, int]:
    """The aggregate of each vertex, -1 where no weight is positive, and their number.

    A vertex whose strong neighbors are all free makes an aggregate with them; the others then join what they lean on
    most.
    """
    n = len(offsets) - 1
    aggregate, n_aggregates = np.full(n, -1), 0
    for i in range(n):
        strong = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            strong = max(strong, _STRONG * weights[p])
        free = aggregate[i] < 0 and strong > 0
        for p in range(offsets[i], offsets[i + 1]):
            if weights[p] >= strong and aggregate[neighbors[p]] >= 0:
                free = False
        if free:
            aggregate[i] = n_aggregates
            for p in range(offsets[i], offsets[i + 1]):
                if weights[p] >= strong:
                    aggregate[neighbors[p]] = n_aggregates
            n_aggregates += 1
    first = aggregate.copy()
    for i in range(n):
        most = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            if first[i] < 0 and first[neighbors[p]] >= 0 and weights[p] > most:
                most, aggregate[i] = weights[p], first[neighbors[p]]
    return aggregate, n_aggregates


@njit(cache=True, nogil=True)
def _rows(
    offsets: IntArray, neighbors: NDArray[np.int32], weights: FloatArray, start: int, total: int
) -> tuple[IntArray, IntArray, IntArray, NDArray[np.int32], FloatArray]:
    """begins, middles, owns, columns and weights of one level, see `Levels`."""
    n, place = len(offsets) - 1, 0
    begins, middles, owns = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    columns, values = np.empty(len(neighbors) + 2 * n, np.int32), np.ones(len(neighbors) + 2 * n)
    for i in range(n):
        begins[i] = place
        for after in range(2):
            for p in range(offsets[i], offsets[i + 1]):
                if (neighbors[p] > i) == (after == 1):
                    columns[place], values[place] = start + neighbors[p], weights[p]
                    place += 1
            columns[place] = start + i if after else start + i + total
            place += 1
            if after:
                owns[i] = place - 1
            else:
                middles[i] = place
    return begins, middles, owns, columns, values
