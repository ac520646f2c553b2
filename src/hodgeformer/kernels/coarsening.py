"""The Laplacian of a large surface on fewer and fewer unknowns, for solving without elimination.

Vertices that lean on each other form aggregates of about seven, in an order that grows ring by ring. A value of an
aggregate is spread to its vertices and those around it by one step of smoothing, and the coarse Laplacian is the fine
one applied to what was spread so. Only weights are read: any soup has them, and nothing asks for positions or for a
manifold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, tril
from scipy.sparse.csgraph import reverse_cuthill_mckee

from hodgeformer.base.compiled import njit
from hodgeformer.kernels.elimination import Laplacian
from hodgeformer.mesh.mesh import FloatArray, IntArray

_COARSEST = 128  # unknowns: so few are eliminated at once
_STRONG = 0.25  # of the largest weight at a vertex
_DAMPING = 2 / 3


@dataclass(frozen=True, eq=False)
class Levels:
    """Rows of M + t L on all levels but the coarsest, and how they hang together.

    Unknowns of all levels are counted through, N of them: those of level l are starts[l]:starts[l + 1]; vertex i is
    unknown numbers[i]. Places of values are 0:N, of right sides N:2N.

    A sweep over a level, then back, with a correction from the next coarser one between them, needs of the smoothing S
    only L S, L being the weights to neighbors before a row: what the sweep leaves over is t L^T times its result. So
    row i reads these entries of `columns` and `weights`: from begins[i] on L S, to values of the coarser level, from
    uppers[i] neighbors after it, at turns[i] itself, with the sum of its weights taken away, and then neighbors before
    it. Row i of level one and beyond takes its right side from the next finer one by down_offsets[i - n] and following.
    """

    starts: IntArray
    numbers: IntArray
    masses: FloatArray
    begins: IntArray
    uppers: IntArray
    turns: IntArray
    columns: NDArray[np.int32]
    weights: FloatArray
    down_offsets: IntArray
    down_columns: NDArray[np.int32]
    down_weights: FloatArray


def coarsened(laplacian: Laplacian) -> tuple[Levels, Laplacian]:
    """All levels, and the coarsest Laplacian, which is small enough to be eliminated."""
    numbers, first = _ring_by_ring(laplacian)
    levels, lower_spreads = [first], []
    while len(levels[-1].masses) > _COARSEST:
        spread = _spread(levels[-1])
        lower_spreads.append(csr_array(tril(_matrix(levels[-1])) @ spread))
        levels.append(_galerkin(levels[-1], spread, lower_spreads[-1]))
    starts = np.array([0, *accumulate(len(level.masses) for level in levels)])
    rows = [
        _rows(a.offsets, a.neighbors, a.weights, q.indptr, q.indices, q.data, start)
        for a, q, start in zip(levels, lower_spreads, starts, strict=False)
    ]
    parts = [list(part) for part in zip(*rows, strict=True)]
    begins, uppers, turns = _joined(*parts[:3])
    down = [csr_array(q.T) for q in lower_spreads]
    (down_offsets,) = _joined([a.indptr for a in down])
    return Levels(
        starts,
        numbers,
        np.concatenate([level.masses for level in levels[:-1]]),
        begins,
        uppers,
        turns,
        np.concatenate(parts[3]),
        np.concatenate(parts[4]),
        down_offsets,
        np.concatenate([a.indices + start for a, start in zip(down, starts, strict=False)], dtype=np.int32),
        np.concatenate([a.data for a in down]),
    ), levels[-1]


def _ring_by_ring(laplacian: Laplacian) -> tuple[IntArray, Laplacian]:
    """The number of each vertex in an order whose neighbors are at most a ring apart, and the Laplacian in that order.

    Sweeps through memory then find what they read in the cache, and along the rings they carry values further.
    """
    places = reverse_cuthill_mckee(_matrix(laplacian), symmetric_mode=True)
    numbers = np.empty(len(places), np.int64)
    numbers[places] = np.arange(len(places))
    lists = _renumbered(places, numbers, laplacian.offsets, laplacian.neighbors, laplacian.weights)
    return numbers, Laplacian(laplacian.masses[places], laplacian.edge_weights, *lists)


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


def _galerkin(laplacian: Laplacian, spread: csr_array, lower_spread: csr_array) -> Laplacian:
    """S^T L S, and the masses S^T m, so that integrals stay what they are."""
    total = np.asarray(_matrix(laplacian).sum(axis=1))
    half = csr_array(spread.T) @ (lower_spread - diags_array(total / 2) @ spread)
    coarse = csr_array(half + half.T)
    coarse.sort_indices()
    rows = np.repeat(np.arange(coarse.shape[0]), np.diff(coarse.indptr))
    apart = rows != coarse.indices
    rows, columns, values = rows[apart], coarse.indices[apart].astype(np.int32), coarse.data[apart]
    offsets = np.append(0, np.cumsum(np.bincount(rows, minlength=coarse.shape[0])))
    return Laplacian(spread.T @ laplacian.masses, values[rows < columns], offsets, columns, values)


def _matrix(laplacian: Laplacian) -> csr_array:
    n = len(laplacian.masses)
    return csr_array((laplacian.weights, laplacian.neighbors, laplacian.offsets), shape=(n, n))


def _joined(offsets: list[IntArray], *others: list[IntArray]) -> list[IntArray]:
    """Offsets of lists that follow each other, and what else counts their entries."""
    firsts = [0, *accumulate(int(part[-1]) for part in offsets)]
    joined = np.concatenate([part[:-1] + first for part, first in zip(offsets, firsts, strict=False)])
    return [
        np.append(joined, firsts[-1]),
        *(np.concatenate([part + first for part, first in zip(other, firsts, strict=False)]) for other in others),
    ]


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
def _renumbered(
    places: NDArray[np.int32],
    numbers: IntArray,
    offsets: IntArray,
    neighbors: NDArray[np.int32],
    weights: FloatArray,
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    n, place = len(places), 0
    starts = np.zeros(n + 1, np.int64)
    columns, values = np.empty_like(neighbors), np.empty_like(weights)
    for i in range(n):
        for p in range(offsets[places[i]], offsets[places[i] + 1]):
            columns[place], values[place] = numbers[neighbors[p]], weights[p]
            place += 1
        starts[i + 1] = place
    return starts, columns, values


@njit(cache=True, nogil=True)
def _rows(
    offsets: IntArray,
    neighbors: NDArray[np.int32],
    weights: FloatArray,
    coarse_offsets: NDArray[np.int32],
    coarse_columns: NDArray[np.int32],
    coarse_weights: FloatArray,
    start: int,
) -> tuple[IntArray, IntArray, IntArray, NDArray[np.int32], FloatArray]:
    """begins, uppers, turns, columns and weights of one level, see `Levels`."""
    n, place = len(offsets) - 1, 0
    begins, uppers, turns = np.zeros(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n_entries = len(neighbors) + len(coarse_columns) + n
    columns, values = np.empty(n_entries, np.int32), np.empty(n_entries)
    for i in range(n):
        for p in range(coarse_offsets[i], coarse_offsets[i + 1]):
            columns[place], values[place] = start + n + coarse_columns[p], coarse_weights[p]
            place += 1
        uppers[i], total = place, 0.0
        for p in range(offsets[i], offsets[i + 1]):
            total += float(np.float32(weights[p]))
            if neighbors[p] > i:
                columns[place], values[place] = start + neighbors[p], weights[p]
                place += 1
        columns[place], values[place], turns[i] = start + i, -total, place
        place += 1
        for p in range(offsets[i], offsets[i + 1]):
            if neighbors[p] < i:
                columns[place], values[place] = start + neighbors[p], weights[p]
                place += 1
        begins[i + 1] = place
    return begins, uppers, turns, columns, values
