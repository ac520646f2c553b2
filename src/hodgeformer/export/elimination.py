"""Spreading inside a graph: the `Steps` of `kernels/sweeps.py` as loops, with stars that may depend on features.

Numbers of all groups of channels are side by side: conductances are (entries, groups), values (n + 1, groups, c) with a
last row of zeros. A block with the matrix T and the conductances B to others becomes N = [T^-1; B T^-1], which is all
that solving needs.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import TensorProto

from hodgeformer.export.graph import Graph
from hodgeformer.kernels.sweeps import MOST
from hodgeformer.predict.exported import STEP_TABLES


class Elimination:
    """Tables of the steps, cut once for all loops of a graph."""

    def __init__(self, g: Graph) -> None:
        self._shapes = g.input("step_shapes")
        self._count = g("Gather", g("Shape", self._shapes), g.constant(0))
        self._tables = {
            name: g("SplitToSequence", g.input(f"step_{name}"), g.input(f"step_{name}_lengths")) for name in STEP_TABLES
        }
        b, q = (g("Gather", self._shapes, g.constant([k]), axis=1) for k in (1, 2))
        self._member_shapes = g("Concat", q, g("Add", b, g.constant(MOST)), axis=1)
        units = np.eye(MOST, MOST + 1, dtype=np.int64)
        self._done: str | None = None
        self._is_pivot = [g("Cast", g.constant(unit[:, None]), to=TensorProto.BOOL) for unit in units]

    def eliminated(self, g: Graph, conductances: str, *, once: bool) -> str:
        """The N of all steps, (q, groups, MOST + b, MOST) each, as a sequence; `once` for the same conductances."""
        if self._done is None or not once:
            _, self._done = g.loop(self._eliminate, self._count, conductances, g("SequenceEmpty"))
        return self._done

    def _eliminate(self, g: Graph, i: str, conductances: str, done: str) -> tuple[str, str]:
        outer = g("Gather", conductances, g("Reshape", self._table(g, "outer", i), g("Gather", self._shapes, i)))
        inner = g("Gather", conductances, g.reshape(self._table(g, "inner", i), MOST, MOST, -1))  # (MOST, MOST, q, k)
        inverse = self._inverse(g, inner, g.total(outer, 1))
        inverse = g("Transpose", g("Reshape", inverse, g("Shape", inner)), perm=[2, 3, 0, 1])
        outer = g("Transpose", outer, perm=[2, 3, 1, 0])
        below = g("MatMul", outer, inverse)
        sums = g("MatMul", below, g("Transpose", outer, perm=[0, 1, 3, 2]))
        sums = _flat(g, g("Transpose", sums, perm=[0, 2, 3, 1]), conductances)
        conductances = self._added(g, conductances, sums, "changed", "sources", i)
        return conductances, g("SequenceInsert", done, g("Concat", inverse, below, axis=2))

    def _inverse(self, g: Graph, inner: str, outward: str) -> str:
        """T^-1 from the conductances inside of blocks and the sums of those outward, by positive sums only.

        Vertex after vertex is swept: its row, with one for itself, times the row over the pivot is added to all others.
        What rows hold on the diagonal before is not read. Columns: the vertices, then all outside.
        """
        z = g("Concat", g.reshape(inner, MOST, MOST, -1), g.reshape(outward, MOST, 1, -1), axis=1)
        for j in range(MOST):
            row = g("Gather", z, g.constant(j))
            pivot = g("MatMul", g.constant((np.arange(MOST + 1) > j)[None].astype(np.float32)), row)
            row = g("Where", self._is_pivot[j], g.constant(1.0), row)
            column = g("Unsqueeze", g("Slice", row, g.constant([0]), g.constant([MOST])), g.constant([1]))
            change = g("Mul", column, g("Div", row, pivot))
            kept = np.ones((MOST, MOST + 1, 1), dtype=np.float32)
            kept[j], kept[:, j] = 0, 0
            z = g("Add", g("Mul", z, g.constant(kept)), change)
        return g("Slice", z, g.constant([0]), g.constant([MOST]), g.constant([1]))

    def solved(self, g: Graph, done: str, x: str) -> str:
        """K^-1 x: what blocks hold goes to the others, step by step, and back in the opposite order."""
        first, n = g("Gather", x, g.constant([0])), g("Shape", x, start=0, end=1)
        x = g("Concat", x, g("Sub", first, first), axis=0)
        (x,) = g.loop(partial(self._down, done=done), self._count, x)
        (x,) = g.loop(partial(self._up, done=done), self._count, x)
        return g("Slice", x, g.constant([0]), n)

    def _down(self, g: Graph, i: str, x: str, *, done: str) -> tuple[str]:
        mine, _ = self._members(g, i)
        sums = g("MatMul", g("SequenceAt", done, i), _by_group(g, g("Gather", x, mine)))
        return (self._added(g, x, _flat(g, _by_group(g, sums), x), "reached", "origins", i),)

    def _up(self, g: Graph, i: str, x: str, *, done: str) -> tuple[str]:
        i = g("Sub", g("Sub", self._count, i), g.constant(1))
        mine, all_members = self._members(g, i)
        back = g("Transpose", g("SequenceAt", done, i), perm=[0, 1, 3, 2])
        found = _by_group(g, g("MatMul", back, _by_group(g, g("Gather", x, all_members))))
        return (g("ScatterND", x, g("Unsqueeze", mine, g.constant([2])), found),)

    def _members(self, g: Graph, i: str) -> tuple[str, str]:
        """(q, MOST) and (q, MOST + b): the vertices of blocks, and with the others."""
        members = g("Reshape", self._table(g, "members", i), g("Gather", self._member_shapes, i))
        return g("Slice", members, g.constant([0]), g.constant([MOST]), g.constant([1])), members

    def _table(self, g: Graph, name: str, i: str) -> str:
        return g("SequenceAt", self._tables[name], i)

    def _added(self, g: Graph, x: str, sums: str, targets: str, sources: str, i: str) -> str:
        """x[targets] += the sum over the columns of sums[sources]. No target twice."""
        rows = self._table(g, targets, i)
        shape = g("Concat", g("Shape", rows), g.constant([-1]), axis=0)
        table = g("Reshape", self._table(g, sources, i), shape)
        added = g("Add", g("Gather", x, rows), g.total(g("Gather", sums, table), 1))
        return g("ScatterND", x, g("Unsqueeze", rows, g.constant([1])), added)


def _by_group(g: Graph, x: str) -> str:
    """(q, rows, groups, c) as (q, groups, rows, c), and back."""
    return g("Transpose", x, perm=[0, 2, 1, 3])


def _flat(g: Graph, x: str, like: str) -> str:
    """x with the axes of `like`: all before the others are one."""
    return g("Reshape", x, g("Concat", g.constant([-1]), g("Shape", like, start=1), axis=0))
