# mypy: disable-error-code="call-arg, no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""(M + t L)^-1 on surfaces that are too large to eliminate: conjugate gradients, with coarser levels to help.

Work and memory grow with the size and not faster. Steps are taken until the error, in the energy norm and by the
estimate of the coarser levels, is below a share of the solution; one more correction follows. Columns go through in
groups of sixteen of one time, so the answer does not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.ops._numba_ir import sum_rows
from hodgeformer.ops.rows import TensorFields
from hodgeformer.threads import for_row_ranges

TOLERANCE = 1e-3
"""The share of the solution, in the energy norm, that the error may have before the last correction."""
MOST_STEPS = 40
WIDTH = 16  # columns of a group: a row of them fills a line of the cache
BITS = 32
_compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})


@dataclass(frozen=True, eq=False)
class Multilevel(TensorFields):
    """The levels of one surface as `mesh.coarsening.Levels` describes them, and the L D L^T of the coarsest one."""

    times: Float[Tensor, " times"]
    starts: Int[Tensor, " levels_and_one"]
    masses: Float[Tensor, " n"]
    begins: Int[Tensor, " n"]
    middles: Int[Tensor, " n"]
    owns: Int[Tensor, " n"]
    columns: Int[Tensor, " entries"]
    weights: Float[Tensor, " entries"]
    up_offsets: Int[Tensor, " n_and_one"]
    up_columns: Int[Tensor, " shares"]
    up_shares: Float[Tensor, " shares"]
    down_offsets: Int[Tensor, " coarse_and_one"]
    down_columns: Int[Tensor, " down_shares"]
    down_shares: Float[Tensor, " down_shares"]
    order: Int[Tensor, " last"]
    offsets: Int[Tensor, " last_and_one"]
    rows: Int[Tensor, " nnz"]
    values: Float[Tensor, "nnz times"]
    pivots: Float[Tensor, "last times"]

    @property
    def n_times(self) -> int:
        return len(self.times)

    def solved(self, right: Float[Tensor, "n times d"]) -> Float[Tensor, "n times d"]:
        """(M + t L)^-1 right, in float32 on the CPU."""
        given = right.detach().to("cpu", torch.float32).contiguous().numpy()
        out = np.empty_like(given)
        arrays = [_array(getattr(self, field.name)) for field in fields(self)]
        n_groups = given.shape[1] * -(-given.shape[2] // WIDTH)
        shares = min(torch.get_num_threads(), n_groups)  # one each: what a thread works with is fetched once

        def work(first: int, last: int) -> None:
            _solve(n_groups * first // shares, n_groups * last // shares, given, out, *arrays)

        for_row_ranges(work, shares, n_threads=shares, min_rows=1)
        return torch.from_numpy(out).to(right)


def _array(tensor: Tensor) -> NDArray[Any]:
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().contiguous().numpy()


@_compiled
def _sums(first, last, ahead, shift, begins, ends, columns, weights, factors, values, target):
    """values[target + i] = factors[i] times the sum of weights and values over the entries begins[i]:ends[i].

    Row i of the lists is row i - shift of `begins`, `ends` and `factors`.
    """
    at, step = values.ctypes.data, values.strides[0]
    at_columns, at_weights = columns.ctypes.data, weights.ctypes.data
    for number in range(last - first):
        i = first + number if ahead else last - 1 - number
        p = begins[i - shift]
        count, factor = ends[i - shift] - p, np.float64(factors[i - shift])
        sum_rows(at_weights + 4 * p, 0, 0, at_columns + 4 * p, count, at, step, factor,
                 at + step * (target + i), WIDTH, BITS, 0)  # fmt: skip


@_compiled
def _eliminated(k, order, offsets, rows, factor, pivots, values, start, total):
    """The coarsest level, solved with its triangle."""
    n, right = len(order), values[total + start : total + start + len(order)]
    work = np.empty((n, WIDTH), np.float32)
    for i in range(n):
        work[i] = right[order[i]]
    for j in range(n):
        for p in range(offsets[j], offsets[j + 1]):
            for c in range(WIDTH):
                work[rows[p], c] -= factor[p, k] * work[j, c]
    for j in range(n - 1, -1, -1):
        for c in range(WIDTH):
            work[j, c] *= pivots[j, k]
        for p in range(offsets[j], offsets[j + 1]):
            for c in range(WIDTH):
                work[j, c] -= factor[p, k] * work[rows[p], c]
        values[start + order[j]] = work[j]


@_compiled
def _cycle(finest, from_zero, starts, lists, up, down, ones, inverse, coarsest, values):
    """One correction of x on a level for its right side: smooth, solve what is left on the coarser levels, smooth."""
    begins, middles, owns, ends, columns, weights = lists
    n, last, total = starts[1], len(starts) - 2, starts[-1]
    for level in range(finest, last):
        first, end = starts[level], starts[level + 1]
        if from_zero or level > finest:
            _sums(first, end, True, 0, begins, middles, columns, weights, inverse, values, 0)
            _sums(first, end, True, 0, middles, owns, columns, weights, ones, values, 2 * total)
        else:
            _sums(first, end, True, 0, begins, owns, columns, weights, inverse, values, 0)
            _sums(first, end, True, 0, begins, ends, columns, weights, ones, values, 2 * total)
        _sums(end, starts[level + 2], True, n, down[0], down[1], down[2], down[3], ones, values, total)
    _eliminated(*coarsest, values, starts[last], total)
    for level in range(last - 1, finest - 1, -1):
        _sums(starts[level], starts[level + 1], True, 0, up[0], up[1], up[2], up[3], ones, values, 0)
        _sums(starts[level], starts[level + 1], False, 0, begins, owns, columns, weights, inverse, values, 0)


@_compiled
def _first_guess(starts, lists, up, down, ones, inverse, coarsest, values):
    """From the coarsest level up, with one correction on each."""
    last, total = len(starts) - 2, starts[-1]
    for level in range(last):
        first, end = starts[level], starts[level + 1]
        values[2 * total + first : 2 * total + end] = values[total + first : total + end]
        _sums(end, starts[level + 2], True, starts[1], down[0], down[1], down[2], down[3], ones, values, total)
    _eliminated(*coarsest, values, starts[last], total)
    for level in range(last - 1, -1, -1):
        _sums(starts[level], starts[level + 1], True, 0, up[0], up[1] - 1, up[2], up[3], ones, values, 0)
        _cycle(level, False, starts, lists, up, down, ones, inverse, coarsest, values)


@_compiled
def _product(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@_compiled
def _improve(starts, lists, up, down, ones, inverse, coarsest, values, x, p, q):
    """Conjugate gradients from x on; the right side is what x leaves over."""
    begins, _, _, ends, columns, weights = lists
    n, total = starts[1], starts[-1]
    z, r = values[:n].reshape(-1), values[total : total + n].reshape(-1)
    rest = values[2 * total : 2 * total + n].reshape(-1)
    p[:] = 0
    q[:] = 0
    energy, before = _product(x, r), 1.0
    _sums(0, n, True, 0, begins, ends, columns, weights, ones, values, 2 * total)
    r[:] = rest
    for step in range(MOST_STEPS + 1):
        _cycle(0, True, starts, lists, up, down, ones, inverse, coarsest, values)
        now = _product(z, r)
        if step == MOST_STEPS or not now > TOLERANCE**2 * energy:
            for i in range(len(x)):
                x[i] += z[i]
            return
        _sums(0, n, True, 0, begins, ends, columns, weights, ones, values, 2 * total)
        beta, curvature = np.float32(now / before if step else 0.0), 0.0
        for i in range(len(x)):
            p[i] = z[i] + beta * p[i]
            q[i] = r[i] - rest[i] + beta * q[i]
            curvature += p[i] * q[i]
        alpha, before = np.float32(now / curvature), now
        for i in range(len(x)):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]


@_compiled
def _solve(
    first, last, right, out, times, starts, masses, begins, middles, owns, columns, weights, up_offsets, up_columns,
    up_shares, down_offsets, down_columns, down_shares, order, offsets, rows, factor, pivots,
):  # fmt: skip
    n, total, width = starts[1], starts[-1], right.shape[2]
    n_parts = (width + WIDTH - 1) // WIDTH
    values = np.zeros((3 * total, WIDTH), np.float32)
    x, p, q = np.empty((n, WIDTH), np.float32), np.empty(n * WIDTH, np.float32), np.empty(n * WIDTH, np.float32)
    scaled, inverse, ones = np.empty_like(weights), np.empty(len(begins), np.float32), np.ones(total, np.float32)
    up = (up_offsets[:-1], up_offsets[1:], up_columns, up_shares)
    down = (down_offsets[:-1], down_offsets[1:], down_columns, down_shares)
    lists = (begins, middles, owns, owns + 1, columns, scaled)
    for group in range(first, last):
        k, begin = group // n_parts, group % n_parts * WIDTH
        n_columns, coarsest = min(WIDTH, width - begin), (k, order, offsets, rows, factor, pivots)
        for i in range(len(begins)):
            diagonal = np.float64(masses[i])  # small beside the weights of a long time: summed with more digits
            for entry in range(begins[i], owns[i]):
                scaled[entry] = times[k] * weights[entry]
                if entry != middles[i] - 1:
                    diagonal += scaled[entry]
            scaled[middles[i] - 1] = 1
            scaled[owns[i]], inverse[i] = -diagonal, 1 / diagonal
        for i in range(n):
            for c in range(n_columns):
                values[total + i, c] = right[i, k, begin + c]
            for c in range(n_columns, WIDTH):
                values[total + i, c] = 0
        _first_guess(starts, lists, up, down, ones, inverse, coarsest, values)
        x[:] = values[:n]
        _improve(starts, lists, up, down, ones, inverse, coarsest, values, x.reshape(-1), p, q)
        for i in range(n):
            for c in range(n_columns):
                out[i, k, begin + c] = x[i, c]
