"""Elimination in few large steps, for programs that know whole arrays and no loops over rows.

Columns of the triangle whose rows are nested form a chain, as inside the separators of a mesh; all of a chain are
eliminated at once by N = [T^-1 - 1; -B T^-1], with T their triangle and B what lies below it, which has no entry that
they did not have. Chains that are equally high in the elimination tree do not touch each other and share a step, so the
steps are as many as the tree of chains is high: some thirty for a thousand vertices, and hardly more for ten thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.kernels.elimination import Elimination
from hodgeformer.mesh.mesh import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Sweep:
    """Steps x[rows] += sum over the columns c of a table of values[:, c] x[indices[:, c]], one after another.

    Step s has the rows row_offsets[s]:row_offsets[s + 1], no row twice. Its table is row after row
    entry_offsets[s]:entry_offsets[s + 1] of `indices` and of `values`, which has one column per time; shorter rows are
    filled up with values of zero.
    """

    rows: NDArray[np.int32]
    row_offsets: IntArray
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    entry_offsets: IntArray

    @classmethod
    def of(cls, step: IntArray, row: IntArray, index: IntArray, values: FloatArray) -> Sweep:
        """From entries (row, index, values) that each belong to a step."""
        order = np.lexsort((row, step))
        step, row, index = step[order], row[order], index[order]
        starts = np.flatnonzero(np.append(True, (np.diff(step) != 0) | (np.diff(row) != 0))[: len(step)])
        lengths = np.diff(np.append(starts, len(step)))
        n_steps = int(step[-1]) + 1 if len(step) else 0
        widths = np.zeros(n_steps, dtype=np.int64)
        np.maximum.at(widths, step[starts], lengths)
        row_offsets = np.append(0, np.cumsum(np.bincount(step[starts], minlength=n_steps)))
        entry_offsets = np.append(0, np.cumsum(np.diff(row_offsets) * widths))
        in_step = np.arange(len(starts)) - row_offsets[step[starts]]
        first = entry_offsets[step[starts]] + in_step * widths[step[starts]]
        place = np.repeat(first - starts, lengths) + np.arange(len(step))
        indices = np.zeros(entry_offsets[-1], dtype=np.int32)
        table = np.zeros((entry_offsets[-1], values.shape[1]), dtype=np.float32)
        indices[place], table[place] = index, values[order]
        return cls(row[starts].astype(np.int32), row_offsets, indices, table, entry_offsets)


def sweeps(elimination: Elimination, values: FloatArray) -> tuple[Sweep, Sweep]:
    """Down the triangle and up again, on values in the order of the vertices: A^-1 x = up(pivots down(x)).

    Pivots are in the order of elimination.
    """
    offsets, rows, order = elimination.offsets, elimination.rows, elimination.order
    last = _chains(offsets, rows)
    values = _joined(offsets, rows, last, values)
    step = np.repeat(_heights(offsets, rows, last)[last], np.diff(offsets))
    row, column = order[rows], np.repeat(order, np.diff(offsets))
    return Sweep.of(step, row, column, values), Sweep.of(step.max(initial=0) - step, column, row, values)


@njit(cache=True, nogil=True)
def _chains(offsets: IntArray, rows: NDArray[np.int32]) -> IntArray:
    """The last column of the chain that each column belongs to."""
    n = len(offsets) - 1
    last, taken = np.arange(n), np.zeros(n, dtype=np.bool_)
    for j in range(n - 1, -1, -1):
        length = offsets[j + 1] - offsets[j]
        if length > 0:
            above = rows[offsets[j]]  # its parent in the elimination tree
            if length == offsets[above + 1] - offsets[above] + 1 and not taken[above]:
                taken[above], last[j] = True, last[above]
    return last


@njit(cache=True, nogil=True)
def _heights(offsets: IntArray, rows: NDArray[np.int32], last: IntArray) -> IntArray:
    """How high each chain, by its last column, is in the tree of chains: one more than the highest below it."""
    heights = np.zeros(len(last), dtype=np.int64)
    for j in range(len(last)):
        if last[j] == j and offsets[j + 1] > offsets[j]:
            above = last[rows[offsets[j]]]
            heights[above] = max(heights[above], heights[j] + 1)
    return heights


@njit(cache=True, nogil=True)
def _joined(offsets: IntArray, rows: NDArray[np.int32], last: IntArray, values: FloatArray) -> FloatArray:
    """The entries of all N in place of those of the triangle.

    What column j adds to the rows below it, and what the columns b that follow it in its chain then add because of it:
    N_j = -L_j - sum over b of L_bj N_b. The rows of b are the last ones of those of j.
    """
    joined = -values
    for j in range(len(last) - 1, -1, -1):
        b, after = j, 1
        while b != last[j]:
            b = rows[offsets[b]]
            for p in range(offsets[b], offsets[b + 1]):
                for k in range(values.shape[1]):
                    joined[offsets[j] + after + p - offsets[b], k] -= values[offsets[j] + after - 1, k] * joined[p, k]
            after += 1
    return joined
