"""Elimination in a few large steps, for runtimes with operations on whole arrays but no loops over rows.

A surface with positive diagonal stars is a network of conductances: t star1 over its edges, and star0 between each
vertex and the ground. Elimination removes vertices and adds conductances between those that remain. It adds positive
numbers only, so single precision is enough for any stars.

Vertices are removed in blocks of at most `MOST`, connected parts of the elimination tree: besides each other, those of
a block touch what the last of them touches, and the ground. Blocks at the same height of the tree do not touch
each other and share a step. Which entries meet in which step follows from the edges alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.kernels.elimination import Elimination, Laplacian
from hodgeformer.mesh.mesh import IntArray

_Numbers = NDArray[np.signedinteger[Any]]

MOST = 8  # vertices of a block; it is written into graphs


@dataclass(frozen=True, eq=False)
class Steps:
    """The tables of all steps, one step after another: table k of step s has lengths[s][k] numbers.

    Entries are conductances, and `entries` says where they come from at first: an edge, n_edges + a vertex for one to
    the ground, and behind these zero and one, which are the last two entries too. Vertices have slots, MOST for each
    block, the last slot is of none; `vertices` says which vertex is in each, any if none is, and `slots` is the way
    back. Entries and slots are sorted by steps, and a step removes those of its blocks: all numbers in its tables count
    from the first that is left. A step of q blocks with b others has

    - `inner` (MOST, MOST, q): the entries between the vertices of a block;
    - `outer` (q, b, MOST): those between them and the others; the last of the others is none, with entries of zero;
    - `changed`, and `sources` (., changed): the entries that it adds to, and which of its (q, b, b) sums to each;
    - `outside` (q, b): the slots of the others, the last where there is none;
    - `reached`, and `origins` (., reached): the others that it adds to, and which of its (q, MOST + b) sums to each.

    `inner` and `outer` count before the step removes, the others after it. Every step adds nothing to zero and to the
    last slot too, so no table is empty. `shapes` are (MOST, b, q, entries that it removes).
    """

    entries: IntArray
    vertices: IntArray
    slots: IntArray
    tables: dict[str, IntArray]
    lengths: dict[str, IntArray]
    shapes: IntArray

    @classmethod
    def of(cls, elimination: Elimination, laplacian: Laplacian) -> Steps:
        n, n_edges = len(elimination.order), len(laplacian.edge_weights)
        blocks = _Blocks.of(elimination)
        pattern = _Pattern(elimination, blocks)
        entries = np.full(pattern.zero + 2, n_edges + n)
        entries[pattern.zero + 1] = n_edges + n + 1
        owner = elimination.position[np.repeat(np.arange(n), np.diff(laplacian.offsets))]
        entries[pattern.entry(owner, elimination.position[laplacian.neighbors])] = laplacian.edges
        entries[pattern.entry(np.arange(n), np.array([n]))] = n_edges + elimination.order
        vertices = np.zeros(MOST * len(blocks.tops) + 1, dtype=np.int64)
        vertices[blocks.slots[:n]] = elimination.order
        steps = [_step(pattern, blocks, s, elimination) for s in range(len(blocks.firsts) - 1)]
        shapes = np.array([step.pop("shape") for step in steps])
        return cls(
            entries,
            vertices,
            blocks.slots[elimination.position],
            {name: np.concatenate([step[name].ravel() for step in steps]) for name in steps[0]},
            {name: np.array([step[name].size for step in steps]) for name in steps[0]},
            shapes,
        )


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The last position of each block, sorted by steps; step s has those from firsts[s] on, position p its slot.

    `inside` are the positions in each block, -1 where it has fewer; the slot of n is that of none.
    """

    tops: IntArray
    firsts: IntArray
    step: IntArray
    slots: IntArray
    inside: IntArray

    @classmethod
    def of(cls, elimination: Elimination) -> _Blocks:
        n = len(elimination.order)
        last, height = _blocks(elimination.offsets, elimination.rows, MOST)
        tops = np.flatnonzero(height >= 0)
        tops = tops[np.argsort(height[tops], kind="stable")]
        number = np.empty(n, dtype=np.int64)
        number[tops] = np.arange(len(tops))
        of_block = number[last]
        inside = np.full((len(tops), MOST), -1)
        inside[np.arange(MOST) < np.bincount(of_block)[:, None]] = np.argsort(of_block, kind="stable")
        slots = np.full(n + 1, inside.size)
        slots[inside[inside >= 0]] = np.flatnonzero(inside >= 0)
        firsts = np.append(0, np.cumsum(np.bincount(height[tops])))
        return cls(tops, firsts, height[last], slots, inside)


class _Pattern:
    """The entries of the triangle and the ground's, as vertex n, by pairs of positions, numbered by steps."""

    def __init__(self, elimination: Elimination, blocks: _Blocks) -> None:
        self.n = len(elimination.order)
        columns = np.repeat(np.arange(self.n), np.diff(elimination.offsets))
        keys = np.append(columns * (self.n + 1) + elimination.rows, np.arange(1, self.n + 1) * (self.n + 1) - 1)
        self._keys = np.sort(keys)
        self.zero = len(keys)
        step = blocks.step[self._keys // (self.n + 1)]
        self._numbers = np.empty(self.zero + 1, dtype=np.int64)
        self._numbers[np.append(np.argsort(step, kind="stable"), self.zero)] = np.arange(self.zero + 1)
        self.firsts = np.append(0, np.cumsum(np.bincount(step)))

    def entry(self, one: _Numbers, other: _Numbers) -> IntArray:
        """The number of the entry; that of zero where there is none."""
        keys = np.minimum(one, other).astype(np.int64) * (self.n + 1) + np.maximum(one, other)
        found = np.minimum(np.searchsorted(self._keys, keys), self.zero - 1)
        return self._numbers[np.where(self._keys[found] == keys, found, self.zero)]


def _step(pattern: _Pattern, blocks: _Blocks, s: int, elimination: Elimination) -> dict[str, IntArray]:
    """The tables of step s."""
    n, offsets = pattern.n, elimination.offsets
    here = slice(*blocks.firsts[s : s + 2])
    tops, inside = blocks.tops[here], blocks.inside[here]
    q = len(tops)
    first, after = pattern.firsts[s : s + 2]
    lengths = offsets[tops + 1] - offsets[tops]
    b = int(lengths.max()) + 2
    outside = np.full((q, b), -1)
    is_row = np.arange(b) < lengths[:, None]
    outside[is_row] = elimination.rows[(offsets[tops][:, None] + np.arange(b))[is_row]]
    outside[np.arange(q), lengths] = n
    outer = pattern.entry(inside[:, None], outside[:, :, None])
    outer[(inside[:, None] < 0) & (outside[:, :, None] == n)] = pattern.zero + 1
    i, j = np.triu_indices(b, 1)
    real = (outside[:, i] >= 0) & (outside[:, j] >= 0)
    sums = (np.arange(q)[:, None] * b + i) * b + j
    between = pattern.entry(outside[:, i], outside[:, j])[real]
    changed, sources = _grouped(np.append(between, pattern.zero), np.append(sums[real], b * b - 1), b * b - 1)
    slots = np.where(outside < 0, blocks.inside.size, blocks.slots[outside]) - MOST * blocks.firsts[s + 1]
    places = (np.arange(q)[:, None] * (MOST + b) + MOST + np.arange(b))[is_row]
    reached, origins = _grouped(np.append(slots[is_row], slots[0, -1]), np.append(places, MOST + b - 1), MOST + b - 1)
    return {
        "inner": np.moveaxis(pattern.entry(inside[:, :, None], inside[:, None, :]), 0, 2) - first,
        "outer": outer - first,
        "changed": changed - after,
        "sources": sources,
        "outside": slots,
        "reached": reached,
        "origins": origins,
        "shape": np.array([MOST, b, q, after - first]),
    }


def _grouped(targets: IntArray, sources: IntArray, none: int) -> tuple[IntArray, IntArray]:
    """Every target once, and a table with the sources of each in a column, filled up with `none`."""
    order = np.argsort(targets, kind="stable")
    found, counts = np.unique(targets, return_counts=True)
    table = np.full((len(found), int(counts.max())), none)
    table[np.arange(table.shape[1]) < counts[:, None]] = sources[order]
    return found, table.T


@njit(cache=True, nogil=True)
def _blocks(offsets: IntArray, rows: NDArray[np.int32], most: int) -> tuple[IntArray, IntArray]:
    """The last column of the block of each column; and how high the blocks are by their last columns, others -1.

    A column joins the blocks of its children while they fit, the highest first, which keeps the tree low.
    """
    n = len(offsets) - 1
    last, size, height = np.arange(n), np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    first, after = np.full(n, -1), np.full(n, -1)  # the children of each column, highest first
    for j in range(n):
        child = first[j]
        while child >= 0:
            if size[j] + size[child] <= most:
                size[j] += size[child]
                last[child] = j
                height[j] = max(height[j], height[child])
            else:
                height[j] = max(height[j], height[child] + 1)
            child = after[child]
        if offsets[j + 1] > offsets[j]:
            parent = rows[offsets[j]]
            before, child = -1, first[parent]
            while child >= 0 and height[child] > height[j]:
                before, child = child, after[child]
            after[j] = child
            if before < 0:
                first[parent] = j
            else:
                after[before] = j
    for j in range(n - 1, -1, -1):
        last[j] = last[last[j]]
    height[last != np.arange(n)] = -1
    return last, height
