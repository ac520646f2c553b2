"""The order of elimination: whoever has the fewest neighbors left goes first, so that few entries are added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.mesh import IntArray


def sparse_order(offsets: IntArray, neighbors: NDArray[np.int32]) -> IntArray:
    """Minimum degree: few entries appear in L that the mesh does not have. Hubs go last.

    The lists of hubs would be read once for each of their neighbors.
    """
    degree = np.diff(offsets)
    is_hub, order = degree > 16 + 10 * np.sqrt(len(degree)), np.empty(len(degree), np.int64)
    hubs = np.flatnonzero(is_hub)
    order[len(order) - len(hubs) :] = hubs
    n, n_entries = len(degree), 8 * len(neighbors) + 2 * len(degree)
    members, below = np.empty(n_entries, np.int32), np.empty(n_entries, np.int32)
    top, mark, counted = np.full(n + 1, -1), np.full(n, -1), np.empty(n, np.int32)
    begin, size, lists, length = np.zeros(n, np.int64), np.zeros(n, np.int64), neighbors.copy(), degree.copy()
    graph = (offsets, lists, length, is_hub.copy(), begin, size)
    _eliminate(*graph, members, mark, order, len(hubs), is_hub, degree, below, top, counted)
    return order


@njit(cache=True, nogil=True)
def _eliminate(
    offsets: IntArray,
    lists: NDArray[np.int32],
    length: IntArray,
    is_element: NDArray[np.bool_],
    begin: IntArray,
    size: IntArray,
    members: NDArray[np.int32],
    mark: IntArray,
    order: IntArray,
    n_hubs: int,
    replaced: NDArray[np.bool_],
    degree: IntArray,
    below: NDArray[np.int32],
    top: IntArray,
    counted: NDArray[np.int32],
) -> None:
    """Write to `order` all but the hubs.

    What was eliminated is an element, whose members are the vertices that it ties together; a new one replaces the
    elements that its pivot touched. The list of a vertex has vertices and elements.

    `members` are also the entries of one stack for each degree, linked by `below`. Entries whose vertex has another
    degree by now are passed over.
    """
    n = len(order)
    for v in range(n - 1, -1, -1):
        members[v], below[v], top[degree[v]] = v, top[degree[v]], v
    end, lowest, stamp = n, 0, 0
    for step in range(n - n_hubs):
        pivot = np.int64(-1)
        while pivot < 0 or is_element[pivot] or degree[pivot] != lowest:
            while top[lowest] < 0:
                lowest += 1
            pivot, top[lowest] = np.int64(members[top[lowest]]), below[top[lowest]]
        order[step] = pivot
        if end + n > len(members):
            n_entries = 2 * len(members) + n
            more_members, more_below = np.empty(n_entries, np.int32), np.empty(n_entries, np.int32)
            for place in range(end):
                more_members[place], more_below[place] = members[place], below[place]
            members, below = more_members, more_below
        stamp += 1
        begin[pivot] = end
        end = _reach(pivot, offsets, lists, length, is_element, begin, size, members, mark, stamp, members, end)
        size[pivot], is_element[pivot] = end - begin[pivot], True
        for t in range(offsets[pivot], offsets[pivot] + length[pivot]):
            replaced[lists[t]] = is_element[lists[t]]
        for place in range(begin[pivot], end):
            start, kept = offsets[members[place]], offsets[members[place]]
            for t in range(start, start + length[members[place]]):
                if mark[lists[t]] != stamp and not replaced[lists[t]]:
                    lists[kept] = lists[t]
                    kept += 1
            lists[kept] = pivot  # in place of itself or of an element that it replaced
            length[members[place]] = kept + 1 - start
        for place in range(end - 1, begin[pivot] - 1, -1):
            i = np.int64(members[place])
            stamp += 1
            found = _reach(i, offsets, lists, length, is_element, begin, size, members, mark, stamp, counted, 0)
            degree[i], below[place], top[found] = found, top[found], place
            lowest = min(lowest, found)


@njit(cache=True, nogil=True)
def _reach(
    i: np.int64,
    offsets: IntArray,
    lists: NDArray[np.int32],
    length: IntArray,
    is_element: NDArray[np.bool_],
    begin: IntArray,
    size: IntArray,
    members: NDArray[np.int32],
    mark: IntArray,
    stamp: int,
    out: NDArray[np.int32],
    end: int,
) -> int:
    """Write to `out` the vertices that i touches, directly or over elements. Where they end."""
    mark[i] = stamp
    for t in range(offsets[i], offsets[i] + length[i]):
        other = lists[t]
        if not is_element[other]:
            if mark[other] != stamp:
                mark[other] = stamp
                out[end] = other
                end += 1
        else:
            for place in range(begin[other], begin[other] + size[other]):
                if mark[members[place]] != stamp:
                    mark[members[place]] = stamp
                    out[end] = members[place]
                    end += 1
    return end
