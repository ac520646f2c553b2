"""Spreading inside a graph: the `Steps` of `kernels/sweeps.py` as loops, with stars that may depend on features.

Conductances are (entries, groups) with all groups of channels side by side. Values are (groups, slots, c), so that
those of the blocks of a step are matrices as they are. A block with the matrix T and the conductances B to others
becomes N = [T^-1; B T^-1], which is all that solving needs. A step removes from the arrays what it has eliminated.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import TensorProto

from hodgeformer.export.graph import Graph
from hodgeformer.kernels.sweeps import MOST
from hodgeformer.predict.exported import STEP_TABLES


class Elimination:
    """The tables of the steps, split once for all loops of a graph."""

    def __init__(self, g: Graph) -> None:
        self._shapes = g.input("step_shapes")
        self._count = g("Gather", g("Shape", self._shapes), g.constant(0))
        self._tables = {
            name: g("SplitToSequence", g.input(f"step_{name}"), g.input(f"step_{name}_lengths")) for name in STEP_TABLES
        }
        self._done: str | None = None
        units = np.eye(MOST, MOST + 1, dtype=np.int64)
        self._is_pivot = [g("Cast", g.constant(unit[:, None]), to=TensorProto.BOOL) for unit in units]

    def eliminated(self, g: Graph, conductances: str, *, once: bool) -> str:
        """The N of all steps, (groups, q, MOST + b, MOST) each, as a sequence; `once` for the same conductances."""
        if self._done is None or not once:
            _, self._done = g.loop(self._eliminate, self._count, conductances, g("SequenceEmpty"))
        return self._done

    def _eliminate(self, g: Graph, i: str, conductances: str, done: str) -> tuple[str, str]:
        most, b, q, removed = self._shape(g, i)
        outer = g("Gather", conductances, self._table(g, "outer", i, q, b, most))
        outward = g("Transpose", g.total(outer, 1), perm=[1, 2, 0])
        inner = g("Gather", conductances, self._table(g, "inner", i, most, most, q))
        inner = g("Transpose", inner, perm=[0, 1, 3, 2])  # (MOST, MOST, groups, q)
        inverse = g("Reshape", self._inverse(g, inner, outward), g("Shape", inner))
        inverse = g("Transpose", inverse, perm=[2, 3, 0, 1])
        outer = g("Transpose", outer, perm=[3, 0, 1, 2])
        below = g("MatMul", outer, inverse)
        sums = g("MatMul", outer, g("Transpose", below, perm=[0, 1, 3, 2]))
        sums = g("Transpose", sums, perm=[1, 2, 3, 0])
        sums = g("Reshape", sums, g("Concat", g.constant([-1]), g("Shape", conductances, start=1), axis=0))
        rows = self._table(g, "changed", i)
        change = g.total(g("Gather", sums, self._table(g, "sources", i, g.constant([-1]), g("Shape", rows))), 0)
        left = g("Slice", conductances, removed, g.constant([2**62]), g.constant([0]))
        left = g("ScatterND", left, g("Unsqueeze", rows, g.constant([1])), change, reduction="add")
        return left, g("SequenceInsert", done, g("Concat", inverse, below, axis=2))

    def _inverse(self, g: Graph, inner: str, outward: str) -> str:
        """T^-1 from the conductances inside of blocks and the sums of those outward, by positive sums only.

        Vertex after vertex is swept: its row, with one for itself, times the row over the pivot is added to all others.
        The diagonal of the input is not read. Columns: the vertices, then everything outside.
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
        """K^-1 x: blocks pass their values to the others, step by step, and back in reverse order."""
        x = g("Transpose", g("Gather", x, g.input("step_vertices")), perm=[1, 0, 2])
        none, own = g.loop(partial(self._down, done=done), self._count, x, g("SequenceEmpty"))
        none = g("Sub", none, none)
        (x,) = g.loop(partial(self._up, done=done, own=own), self._count, none)
        return g("Transpose", g("Gather", x, g.input("step_slots"), axis=1), perm=[1, 0, 2])

    def _down(self, g: Graph, i: str, x: str, own: str, *, done: str) -> tuple[str, str]:
        most, _, q, _ = self._shape(g, i)
        groups, c = g("Shape", x, start=0, end=1), g("Shape", x, start=2)
        end = g("Mul", most, q)
        mine = g("Slice", x, g.constant([0]), end, g.constant([1]))
        mine = g("Reshape", mine, g("Concat", groups, q, most, c, axis=0))
        left = g("Slice", x, end, g.constant([2**62]), g.constant([1]))
        sums = g("MatMul", g("SequenceAt", done, i), mine)
        sums = g("Reshape", sums, g("Concat", groups, g.constant([-1]), c, axis=0))
        rows = self._table(g, "reached", i)
        sources = self._table(g, "origins", i, g.constant([-1]), g("Shape", rows))
        change = g.total(g("Gather", sums, sources, axis=1), 1)
        n = g("Shape", left, start=1, end=2)
        firsts = g("Mul", g("Range", g.constant(0), g("Squeeze", groups), g.constant(1)), n)
        rows = g("Add", g("Unsqueeze", firsts, g.constant([1, 2])), g("Unsqueeze", rows, g.constant([1])))
        flat = g("Reshape", left, g("Concat", g.constant([-1]), c, axis=0))
        added = g("ScatterND", flat, rows, change, reduction="add")
        return g("Reshape", added, g("Shape", left)), g("SequenceInsert", own, mine)

    def _up(self, g: Graph, i: str, x: str, *, done: str, own: str) -> tuple[str]:
        i = g("Sub", g("Sub", self._count, i), g.constant(1))
        _, b, q, _ = self._shape(g, i)
        others = g("Gather", x, self._table(g, "outside", i, q, b), axis=1)
        back = g("Transpose", g("SequenceAt", done, i), perm=[0, 1, 3, 2])
        found = g("MatMul", back, g("Concat", g("SequenceAt", own, i), others, axis=2))
        shape = g("Concat", g("Shape", x, start=0, end=1), g.constant([-1]), g("Shape", x, start=2), axis=0)
        return (g("Concat", g("Reshape", found, shape), x, axis=1),)

    def _shape(self, g: Graph, i: str) -> tuple[str, ...]:
        """MOST, b, q and the entries that step i removes, each of shape (1,)."""
        shape = g("Gather", self._shapes, i)
        return tuple(g("Gather", shape, g.constant([k])) for k in range(4))

    def _table(self, g: Graph, name: str, i: str, *shape: str) -> str:
        table = g("SequenceAt", self._tables[name], i)
        return g("Reshape", table, g("Concat", *shape, axis=0)) if shape else table
