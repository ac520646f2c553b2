"""The order of elimination: whoever has the fewest neighbors left goes first, so that few entries are added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.mesh import IntArray


@njit(cache=True, nogil=True)
def sparse_order(offsets: IntArray, neighbors: NDArray[np.int32]) -> IntArray:
    """Approximate minimum degree: few entries appear in L that the mesh does not have.

    What was eliminated is an element, whose members are the variables that it ties together; a variable touches
    elements (the first n_elements of its list) and other variables. Its degree is bounded from above by the members of
    its elements, those that it shares with the newest element counted once (Amestoy, Davis and Duff, 1996).
    """
    n = len(offsets) - 1
    lists, length, n_elements = neighbors.copy(), np.diff(offsets), np.zeros(n, dtype=np.int64)
    members, begin, size = np.empty(8 * len(lists) + n, dtype=np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
    free, lowest = 0, 0
    gone, mark, outside = np.zeros(n, dtype=np.bool_), np.full(n, -1), np.full((n, 2), -1)
    degree, first, after, before = length.copy(), np.full(n + 1, -1), np.full(n, -1), np.full(n, -1)
    for i in range(n - 1, -1, -1):
        _enqueue(i, degree[i], first, after, before)
    order = np.empty(n, dtype=np.int64)
    for step in range(n):
        while first[lowest] < 0:
            lowest += 1
        pivot = first[lowest]
        order[step] = pivot
        _dequeue(pivot, degree[pivot], first, after, before)
        if free + n > len(members):
            members = np.concatenate((members, np.empty(len(members) + n, dtype=np.int32)))
        begin[pivot] = free
        free = _gather(pivot, offsets, lists, length, n_elements, begin, size, gone, mark, members, free)
        size[pivot] = free - begin[pivot]
        _count_outside(members[begin[pivot] : free], pivot, offsets, lists, n_elements, size, gone, outside)
        for place in range(begin[pivot], free):
            i = members[place]
            _dequeue(i, degree[i], first, after, before)
            bound = _retie(i, pivot, offsets, lists, length, n_elements, gone, mark, outside)
            degree[i] = min(n - step - 2, degree[i] + size[pivot] - 1, bound + size[pivot] - 1)
            _enqueue(i, degree[i], first, after, before)
            lowest = min(lowest, degree[i])
    return order


@njit(cache=True, nogil=True)
def _enqueue(i: int, degree: int, first: IntArray, after: IntArray, before: IntArray) -> None:
    after[i], before[i] = first[degree], -1
    if first[degree] >= 0:
        before[first[degree]] = i
    first[degree] = i


@njit(cache=True, nogil=True)
def _dequeue(i: int, degree: int, first: IntArray, after: IntArray, before: IntArray) -> None:
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        first[degree] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]


@njit(cache=True, nogil=True)
def _gather(
    pivot: int,
    offsets: IntArray,
    lists: NDArray[np.int32],
    length: IntArray,
    n_elements: IntArray,
    begin: IntArray,
    size: IntArray,
    gone: NDArray[np.bool_],
    mark: IntArray,
    members: NDArray[np.int32],
    free: int,
) -> int:
    """The pivot becomes an element: its variables and those of its elements, which it replaces. Where they end."""
    mark[pivot] = pivot
    start = offsets[pivot]
    for t in range(start, start + length[pivot]):
        other = lists[t]
        if t >= start + n_elements[pivot]:
            if mark[other] != pivot:
                mark[other] = pivot
                members[free] = other
                free += 1
        elif not gone[other]:
            for place in range(begin[other], begin[other] + size[other]):
                if mark[members[place]] != pivot:
                    mark[members[place]] = pivot
                    members[free] = members[place]
                    free += 1
            gone[other] = True
    return free


@njit(cache=True, nogil=True)
def _count_outside(
    variables: NDArray[np.int32],
    pivot: int,
    offsets: IntArray,
    lists: NDArray[np.int32],
    n_elements: IntArray,
    size: IntArray,
    gone: NDArray[np.bool_],
    outside: IntArray,
) -> None:
    """outside[e] = (members of e that the new element does not have, pivot), for every element e of its variables."""
    for i in variables:
        for t in range(offsets[i], offsets[i] + n_elements[i]):
            element = lists[t]
            if not gone[element]:
                if outside[element, 1] != pivot:
                    outside[element, 0], outside[element, 1] = size[element], pivot
                outside[element, 0] -= 1


@njit(cache=True, nogil=True)
def _retie(
    i: int,
    pivot: int,
    offsets: IntArray,
    lists: NDArray[np.int32],
    length: IntArray,
    n_elements: IntArray,
    gone: NDArray[np.bool_],
    mark: IntArray,
    outside: IntArray,
) -> int:
    """Put the new element on the list of i in place of all that it covers; a bound of what i touches beside it."""
    start, end, elements_end, bound = offsets[i], offsets[i] + length[i], offsets[i] + n_elements[i], 0
    kept = start
    for t in range(start, elements_end):
        element = lists[t]
        if not gone[element]:
            if outside[element, 0] == 0:  # the new element has all its members
                gone[element] = True
            else:
                bound += outside[element, 0]
                lists[kept] = element
                kept += 1
    n_kept = kept - start
    for t in range(elements_end, end):
        if mark[lists[t]] != pivot:
            lists[kept] = lists[t]
            kept += 1
    bound += kept - start - n_kept
    # One entry at least is covered, so there is room. The first variable makes place for the element.
    lists[kept] = lists[start + n_kept]
    lists[start + n_kept] = pivot
    n_elements[i], length[i] = n_kept + 1, kept + 1 - start
    return int(bound)
