"""The sparsity patterns S_i: the elements that each element attends to.

A row is the element itself, its nearest neighbors by breadth-first search, and a few random connections.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import ElementKind, PerElement, SparsityPattern
from hodgeformer.base.machine import for_row_ranges
from hodgeformer.mesh.geometry import centers
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex, incidence_lists

Int32Array = NDArray[np.int32]
Pattern = SparsityPattern[NDArray[Any]]
Patterns = PerElement[Pattern]

# A hub with more members than this is searched only around the place of the element that asks, so that one vertex
# with a hundred thousand neighbors does not make the search quadratic. Members are in canonical order, so what is
# around is also near.
_MAX_FAN = 1024


def sparsity_pattern(
    kind: ElementKind,
    topology: MeshComplex,
    vertices: FloatArray,
    *,
    size: tuple[int, int],
    seed: int,
    n_threads: int = 1,
) -> Pattern:
    """Rows of one element kind: itself, rings outward, random ones; a pure function of topology, positions and seed."""
    n, (n_local, n_random) = topology.n[kind], size
    connectors, offsets, members = _connections(kind, topology)
    at = centers(kind, topology, vertices)
    rows = np.empty((n, n_local + n_random), dtype=np.int32)
    lengths = np.empty(n, dtype=np.int64)
    row_seed = np.uint64((seed * 4 + "vef".index(kind)) & 0xFFFFFFFFFFFFFFFF)

    def fill(first: int, last: int) -> None:
        _fill_rows(first, last, connectors, offsets, members, at, n_local, n_random, row_seed, rows, lengths)

    for_row_ranges(fill, n, n_threads=n_threads)
    row_offsets = np.concatenate([[0], np.cumsum(lengths)])
    full = row_offsets[-1] == rows.size
    indices = rows.reshape(-1) if full else rows[np.arange(rows.shape[1]) < lengths[:, None]]
    return SparsityPattern(row_offsets, indices)


def _connections(kind: ElementKind, topology: MeshComplex) -> tuple[IntArray, IntArray, Int32Array]:
    """How elements meet: element i touches `connectors[i]`, and connector c joins `members[offsets[c]:offsets[c + 1]]`.

    Vertices meet over edges, edges in a vertex, faces in an edge. For vertices each vertex is its own connector,
    which joins its neighbors.
    """
    if kind == "e":
        return topology.edges, *incidence_lists(topology.edges, topology.n.v)
    if kind == "f":
        return topology.face_edges, *incidence_lists(topology.face_edges, topology.n.e)
    offsets, edges = incidence_lists(topology.edges, topology.n.v)
    owner = np.repeat(np.arange(topology.n.v), np.diff(offsets))
    neighbors = topology.edges[edges].sum(axis=1) - owner
    return np.arange(topology.n.v)[:, None], offsets, neighbors.astype(np.int32)


@njit(cache=True, nogil=True)
def _fill_rows(
    first: int,
    last: int,
    connectors: IntArray,
    offsets: IntArray,
    members: Int32Array,
    centers: FloatArray,
    n_local: int,
    n_random: int,
    seed: np.uint64,
    rows: Int32Array,
    lengths: IntArray,
) -> None:
    n = len(connectors)
    seen = np.full(n, -1, dtype=np.int32)  # seen[j] == i: j is already in the row of i
    searched = np.full(len(offsets) - 1, -1, dtype=np.int32)
    queue = np.empty(n + 1, dtype=np.int32)
    distance = np.empty(n, dtype=np.float64)
    for i in range(first, last):
        found = _search(i, connectors, offsets, members, centers, n_local, seen, searched, queue, distance)
        for at in range(found):
            rows[i, at] = queue[at]
        for at in range(found, min(found + n_random, n)):
            j = _draw(i, at, n, seed, seen)
            seen[j] = i
            rows[i, at] = j
        lengths[i] = min(found + n_random, n)


@njit(cache=True, nogil=True)
def _search(
    i: int,
    connectors: IntArray,
    offsets: IntArray,
    members: Int32Array,
    centers: FloatArray,
    n_local: int,
    seen: Int32Array,
    searched: Int32Array,
    queue: Int32Array,
    distance: FloatArray,
) -> int:
    """Breadth-first search from i; the first `n_local` of `queue`, or fewer, are its neighborhood."""
    queue[0] = i
    seen[i] = i
    ring = 0
    end: Any = np.int64(1)  # for a plain number the selection would be compiled once more
    while end < n_local and ring < end:
        start, ring = ring, end
        for at in range(start, ring):
            for side in range(connectors.shape[1]):
                c = np.uint64(connectors[np.uint64(queue[at]), side])  # unsigned: no wrap-around branch
                if searched[c] == i:
                    continue
                searched[c] = i
                low, high = offsets[c], offsets[c + np.uint64(1)]
                if high - low > _MAX_FAN:
                    place = low + np.searchsorted(members[low:high], i)
                    low = min(max(low, place - _MAX_FAN // 2), high - _MAX_FAN)
                    high = low + _MAX_FAN
                for m in range(low, high):
                    j = np.uint64(members[np.uint64(m)])
                    queue[end] = j  # overwritten by the next one unless j is new: cheaper than a branch
                    end += seen[j] != i
                    seen[j] = i
    if end > n_local:  # the last ring overflows: the nearer center wins, then the smaller number
        for at in range(ring, end):
            j = np.uint64(queue[at])
            x, y, z = centers[j, 0] - centers[i, 0], centers[j, 1] - centers[i, 1], centers[j, 2] - centers[i, 2]
            distance[at] = x * x + y * y + z * z
        _select_nearest(queue, distance, ring, end, n_local)
        for at in range(n_local, end):
            seen[queue[at]] = -1  # may come back as a random connection
        end = n_local
    return int(end)


@njit(cache=True, nogil=True)
def _select_nearest(queue: Int32Array, distance: FloatArray, first: int, end: int, n_keep: int) -> None:
    """Quickselect: reorder queue[first:end] so that its first n_keep - first entries are the nearest ones.

    Entries are swapped whether they must or not: no processor can predict which.
    """
    one, low, high, kept = np.uint64(1), np.uint64(first), np.uint64(end), np.uint64(n_keep)  # as above
    while low < high:
        middle, last, left = (low + high) >> one, high - one, low
        pivot_distance, pivot = distance[middle], queue[middle]
        distance[middle], queue[middle] = distance[last], queue[last]
        for at in range(low, last):
            d, j = distance[at], queue[at]
            distance[at], queue[at] = distance[left], queue[left]
            distance[left], queue[left] = d, j
            left += np.uint64((d < pivot_distance) | ((d == pivot_distance) & (j < pivot)))
        distance[last], queue[last] = distance[left], queue[left]
        distance[left], queue[left] = pivot_distance, pivot
        if left > kept:
            high = left
        elif left + one < kept:
            low = left + one
        else:
            return


@njit(cache=True, nogil=True)
def _draw(i: int, at: int, n: int, seed: np.uint64, seen: Int32Array) -> int:
    """A random element that is not in the row of i yet: a hash of (seed, i, place, attempt)."""
    state = seed * np.uint64(0x9E3779B97F4A7C15) ^ (np.uint64(i) << np.uint64(20)) ^ np.uint64(at)
    while True:
        state += np.uint64(0x9E3779B97F4A7C15)
        mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
        j = int(((mixed >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
        if seen[j] != i:
            return j
