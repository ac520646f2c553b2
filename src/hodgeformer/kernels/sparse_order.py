"""The order of elimination: whoever has the fewest neighbors left goes first, so that few entries are added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.mesh import IntArray


@njit(cache=True, nogil=True)
def sparse_order(offsets: IntArray, neighbors: NDArray[np.int32]) -> IntArray:
    """Minimum degree: few entries appear in L that the mesh does not have.

    What was eliminated is an element, whose members are the vertices that it ties together; a new one replaces the
    elements that its pivot touched. The list of a vertex has vertices and elements. Hubs go last: their lists would be
    read once for each of their neighbors.

    `members` are also the entries of one stack for each degree, linked by `below`. Entries whose vertex has another
    degree by now are passed over.
    """
    n = len(offsets) - 1
    lists, length, begin, size = neighbors.copy(), np.diff(offsets), np.zeros(n, np.int64), np.zeros(n, np.int64)
    members, below = np.empty(8 * len(lists) + 2 * n, np.int32), np.empty(8 * len(lists) + 2 * n, np.int32)
    mark, degree, top, counted = np.full(n, -1), length.copy(), np.full(n + 1, -1), np.empty(n, np.int32)
    replaced = degree > 16 + 10 * np.sqrt(n)
    hubs, is_element = np.flatnonzero(replaced), replaced.copy()
    for i in range(n - 1, -1, -1):
        members[i], below[i], top[degree[i]] = i, top[degree[i]], i
    order, end, lowest, stamp = np.empty(n, np.int64), n, 0, 0
    for step in range(n - len(hubs)):
        pivot = -1
        while pivot < 0 or is_element[pivot] or degree[pivot] != lowest:
            while top[lowest] < 0:
                lowest += 1
            pivot, top[lowest] = members[top[lowest]], below[top[lowest]]
        order[step] = pivot
        if end + n > len(members):
            members = np.concatenate((members, np.empty(len(members) + n, np.int32)))
            below = np.concatenate((below, np.empty(len(below) + n, np.int32)))
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
            i = members[place]
            stamp += 1
            found = _reach(i, offsets, lists, length, is_element, begin, size, members, mark, stamp, counted, 0)
            degree[i], below[place], top[found] = found, top[found], place
            lowest = min(lowest, found)
    order[n - len(hubs) :] = hubs
    return order


@njit(cache=True, nogil=True)
def _reach(
    i: int,
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
