# mypy: disable-error-code="call-arg, no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""(M + t L)^-1 on surfaces that are too large to eliminate: conjugate gradients, with coarser levels to help.

Work and memory grow with the size and not faster. Steps are taken until the error, in the energy norm and by the
estimate of the coarser levels, is below a share of the solution; one more correction follows. Columns of several times
go through side by side: weights are the same for all of them, and t only multiplies their sums. Each has steps of its
own, so the answer depends neither on the other columns nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from llvmlite import ir
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.base.compiled import njit
from hodgeformer.base.threads import for_row_ranges
from hodgeformer.kernels._numba_ir import FUSE, I32, I64, RowShape, load, loop, splat, store, vector_code
from hodgeformer.kernels.rows import TensorFields

TOLERANCE = 2e-3
"""The share of the solution, in the energy norm, that the error may have before the last correction."""
MOST_STEPS = 40
WIDTH = 48  # columns of a group: three lines of the cache for each entry of the matrix
CHUNK = 128  # rows that stay in the cache while several loops go over them
BITS = 32
SWEEP, SWEEP_BACK, CARRY, APPLY = range(4)
_compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})


@dataclass(frozen=True, eq=False)
class Multilevel(TensorFields):
    """The levels of one surface as `mesh.coarsening.Levels` describes them, and the L D L^T of the coarsest one."""

    times: Float[Tensor, " times"]
    starts: Int[Tensor, " levels_and_one"]
    numbers: Int[Tensor, " n"]
    masses: Float[Tensor, " rows"]
    begins: Int[Tensor, " rows_and_one"]
    uppers: Int[Tensor, " rows"]
    turns: Int[Tensor, " rows"]
    columns: Int[Tensor, " entries"]
    weights: Float[Tensor, " entries"]
    down_offsets: Int[Tensor, " coarse_and_one"]
    down_columns: Int[Tensor, " down_entries"]
    down_weights: Float[Tensor, " down_entries"]
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
        given = right.detach().to("cpu", torch.float32).contiguous().flatten(1).numpy()
        out = np.empty_like(given)
        arrays = [_array(getattr(self, field.name)) for field in fields(self)]
        n_groups = -(-given.shape[1] // WIDTH)
        shares = min(torch.get_num_threads(), n_groups)  # one each: what a thread works with is fetched once

        def work(first: int, last: int) -> None:
            # By NumPy, which asks for large pages: fresh small ones would cost a twelfth of the time.
            n, n_unknowns = len(given), int(self.starts[-1])
            space = [np.empty((rows, WIDTH), np.float32) for rows in (2 * n_unknowns, n, n, n)]
            _solve(n_groups * first // shares, n_groups * last // shares, given, out, *space, *arrays)

        for_row_ranges(work, shares, n_threads=shares, min_rows=1)
        return torch.from_numpy(out.reshape(right.shape)).to(right)


def _array(tensor: Tensor) -> NDArray[Any]:
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().contiguous().numpy()


@vector_code
def _row(builder, kind, weights, indices, count, values, times, mass, total, right, own, out):
    """With s the sum of weights[k] and the rows indices[k] of values, and d = mass + t total, out is

    (right + t s) / d of a sweep, own + t s / d of a sweep back, t s of what is carried to a coarser level, and
    t s - mass own of -(M + t L) applied.
    """
    shape = RowShape(WIDTH, BITS)
    step = I64(WIDTH * BITS // 8)

    def add(k: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        weight = splat(builder, load(builder, weights, k, shape.real), shape.lanes)
        rows = shape.gather(builder, values, step, load(builder, indices, k, I32))
        terms = [builder.fmul(weight, part, flags=FUSE) for part in rows]
        return [builder.fadd(one, term, flags=FUSE) for one, term in zip(sums, terms, strict=True)]

    sums = loop(builder, (I64(0), count), 1, [ir.Constant(shape.vector, None)] * shape.parts, add)
    mass, total = (splat(builder, each, shape.lanes) for each in (mass, total))
    lists = (shape.load(builder, each) for each in (times, right, own))
    for part, (one, time, given, mine) in enumerate(zip(sums, *lists, strict=True)):
        result = builder.fmul(time, one, flags=FUSE)
        if kind in (SWEEP, SWEEP_BACK):
            result = builder.fadd(result, given, flags=FUSE) if kind == SWEEP else result
            diagonal = builder.fadd(builder.fmul(time, total, flags=FUSE), mass, flags=FUSE)
            result = builder.fdiv(result, diagonal)
        if kind == SWEEP_BACK:
            result = builder.fadd(mine, result)
        if kind == APPLY:
            result = builder.fsub(result, builder.fmul(mass, mine, flags=FUSE), flags=FUSE)
        store(builder, result, out, I64(part * shape.lanes))


@_compiled
def _sweep(first, last, matrix, times, values, all_unknowns):
    """(D - L) z = r for the rows first:last."""
    masses, begins, _, turns, columns, weights = matrix
    at, step, at_times = values.ctypes.data, values.strides[0], times.ctypes.data
    for i in range(first, last):
        p, here = turns[i] + 1, at + step * i
        _row(SWEEP, weights.ctypes.data + 4 * p, columns.ctypes.data + 4 * p, begins[i + 1] - p, at, at_times,
             masses[i], -weights[turns[i]], here + step * all_unknowns, here, here)  # fmt: skip


@_compiled
def _sweep_back(first, last, matrix, times, values):
    """(D - L^T) z = D z + L S c for the rows first:last, c being the values of the coarser level."""
    masses, begins, _, turns, columns, weights = matrix
    at, step, at_times = values.ctypes.data, values.strides[0], times.ctypes.data
    for i in range(last - 1, first - 1, -1):
        p, here = begins[i], at + step * i
        _row(SWEEP_BACK, weights.ctypes.data + 4 * p, columns.ctypes.data + 4 * p, turns[i] - p, at, at_times,
             masses[i], -weights[turns[i]], here, here, here)  # fmt: skip


@_compiled
def _carry_down(first, last, n, down, times, values, all_unknowns):
    """What a sweep left over, as the right side of the rows first:last of the next coarser level."""
    offsets, columns, weights = down
    at, step, at_times = values.ctypes.data, values.strides[0], times.ctypes.data
    for i in range(first, last):
        p, there = offsets[i - n], at + step * (i + all_unknowns)
        _row(CARRY, weights.ctypes.data + 4 * p, columns.ctypes.data + 4 * p, offsets[i - n + 1] - p, at, at_times,
             weights[0], weights[0], there, there, there)  # fmt: skip


@_compiled
def _apply(first, last, matrix, times, values, out):
    """-(M + t L) z for the rows first:last."""
    masses, begins, uppers, turns, columns, weights = matrix
    at, step, at_times, at_out = values.ctypes.data, values.strides[0], times.ctypes.data, out.ctypes.data
    for i in range(first, last):
        p, here = uppers[i], at + step * i
        _row(APPLY, weights.ctypes.data + 4 * p, columns.ctypes.data + 4 * p, begins[i + 1] - p, at, at_times,
             masses[i], -weights[turns[i]], here, here, at_out + step * (i - first))  # fmt: skip


@_compiled
def _eliminated(ks, order, offsets, rows, factor, pivots, values, start, all_unknowns):
    """The coarsest level, solved with its triangle; ks are the times of the columns."""
    n, right = len(order), values[all_unknowns + start : all_unknowns + start + len(order)]
    work = np.empty((n, WIDTH), np.float32)
    for i in range(n):
        work[i] = right[order[i]]
    for j in range(n):
        for p in range(offsets[j], offsets[j + 1]):
            for c in range(WIDTH):
                work[rows[p], c] -= factor[p, ks[c]] * work[j, c]
    for j in range(n - 1, -1, -1):
        for c in range(WIDTH):
            work[j, c] *= pivots[j, ks[c]]
        for p in range(offsets[j], offsets[j + 1]):
            for c in range(WIDTH):
                work[j, c] -= factor[p, ks[c]] * work[rows[p], c]
        values[start + order[j]] = work[j]


@_compiled
def _add_scaled(factors, a, b):
    """b += factors a, one factor for each column."""
    for i in range(len(a)):
        for c in range(WIDTH):
            b[i, c] += factors[c] * a[i, c]


@_compiled
def _add_products(a, b, products):
    """products += the sum of a b over rows, for each column."""
    part = np.zeros(WIDTH, np.float32)
    for i in range(len(a)):
        for c in range(WIDTH):
            part[c] += a[i, c] * b[i, c]
    for c in range(WIDTH):
        products[c] += part[c]


@_compiled
def _correct(alpha, starts, matrix, down, times, coarsest, values, x, p, q):
    """x and r take their step, then one correction z for r: sweep, correct on the coarser levels, sweep back; z . r."""
    n, last, total = starts[1], len(starts) - 2, starts[-1]
    for first in range(0, n, CHUNK):
        end = min(first + CHUNK, n)
        _add_scaled(alpha, p[first:end], x[first:end])
        _add_scaled(alpha, q[first:end], values[total + first : total + end])
        _sweep(first, end, matrix, times, values, total)
    for level in range(1, last + 1):
        _carry_down(starts[level], starts[level + 1], n, down, times, values, total)
        if level < last:
            _sweep(starts[level], starts[level + 1], matrix, times, values, total)
    _eliminated(*coarsest, values, starts[last], total)
    for level in range(last - 1, 0, -1):
        _sweep_back(starts[level], starts[level + 1], matrix, times, values)
    products = np.zeros(WIDTH)
    for end in range(n, 0, -CHUNK):
        first = max(0, end - CHUNK)
        _sweep_back(first, end, matrix, times, values)
        _add_products(values[first:end], values[total + first : total + end], products)
    return products


@_compiled
def _turn(beta, starts, matrix, times, values, p, q):
    """The next direction p = z + beta p with q = -(M + t L) p; p . q."""
    products, applied = np.zeros(WIDTH), np.empty((CHUNK, WIDTH), np.float32)
    for first in range(0, starts[1], CHUNK):
        end = min(first + CHUNK, starts[1])
        _apply(first, end, matrix, times, values, applied)
        for i in range(first, end):
            for c in range(WIDTH):
                p[i, c] = values[i, c] + beta[c] * p[i, c]
                q[i, c] = applied[i - first, c] + beta[c] * q[i, c]
        _add_products(p[first:end], q[first:end], products)
    return products


@_compiled
def _conjugate_gradients(starts, matrix, down, times, coarsest, values, x, p, q):
    """x from zero on, each column until its error is small enough."""
    alpha, beta, last = np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    energy, before, going = np.zeros(WIDTH), np.ones(WIDTH), np.ones(WIDTH, np.bool_)
    x[:], p[:], q[:] = 0, 0, 0
    for step in range(MOST_STEPS + 1):
        now = _correct(alpha, starts, matrix, down, times, coarsest, values, x, p, q)
        for c in range(WIDTH):
            goes_on = going[c] and step < MOST_STEPS and now[c] > TOLERANCE**2 * energy[c]
            last[c], going[c] = going[c] and not goes_on, goes_on
            beta[c] = now[c] / before[c] if step and goes_on else 0
        if last.any():
            _add_scaled(last, values[: len(x)], x)
        if not going.any():
            return
        curvature = _turn(beta, starts, matrix, times, values, p, q)
        for c in range(WIDTH):
            alpha[c] = -now[c] / curvature[c] if going[c] else 0
            energy[c] += alpha[c] * now[c]
            before[c] = now[c]


@_compiled
def _solve(
    first, last, right, out, values, x, p, q, times, starts, numbers, masses, begins, uppers, turns, columns, weights,
    down_offsets, down_columns, down_weights, order, offsets, rows, factor, pivots,
):  # fmt: skip
    n, total, width = starts[1], starts[-1], right.shape[1]
    matrix, down = (masses, begins, uppers, turns, columns, weights), (down_offsets, down_columns, down_weights)
    for begin in range(first * WIDTH, min(last * WIDTH, width), WIDTH):
        end = min(begin + WIDTH, width)
        ks = np.minimum(np.arange(begin, begin + WIDTH), width - 1) * len(times) // width
        coarsest = (ks, order, offsets, rows, factor, pivots)
        values[total : total + n] = 0
        for i in range(n):
            values[total + numbers[i], : end - begin] = right[i, begin:end]
        _conjugate_gradients(starts, matrix, down, times[ks], coarsest, values, x, p, q)
        for i in range(n):
            out[i, begin:end] = x[numbers[i], : end - begin]
