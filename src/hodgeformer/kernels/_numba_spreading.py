# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""D blocks on the CPU as vector code: the solve of spreading, and bounded products of derivatives with all gradients.

Addresses and byte steps are arguments, widths and precision constants, as in `_numba_ir`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from llvmlite import ir

from hodgeformer.base.compiled import njit
from hodgeformer.kernels._numba_ir import (
    FUSE,
    I32,
    I64,
    VECTOR_BYTES,
    constant,
    load,
    loop,
    pieces,
    real_of,
    splat,
    store,
    tanh,
    vector_code,
)

_compiled = njit(nogil=True, cache=True, error_model="numpy")


def _row(builder, rows, step, indices, t):
    """The address of the row that the t-th index names; step in bytes."""
    return builder.add(rows, builder.mul(builder.zext(load(builder, indices, t, I32), I64), I64(step)))


def _side(builder, sides, t):
    """The two indices of the t-th side."""
    places = (builder.add(builder.mul(t, I64(2)), I64(end)) for end in (0, 1))
    return [builder.zext(load(builder, sides, place, I32), I64) for place in places]


def _less(builder, a, b, c):
    """a - b c."""
    return builder.fsub(a, builder.fmul(b, c, flags=FUSE), flags=FUSE)


def _more(builder, a, b, c):
    """a + b c."""
    return builder.fadd(a, builder.fmul(b, c, flags=FUSE), flags=FUSE)


@vector_code
def _push_down(builder, source, values, stride, rows, first, last, work, step, width, bits):
    """work[rows[p]] -= values[p] source for first <= p < last."""
    real, parts = real_of(bits), pieces(width, bits)
    mine = [load(builder, source, I64(start), ir.VectorType(real, lanes)) for start, lanes in parts]

    def body(p, _):
        value, row = load(builder, values, builder.mul(p, I64(stride)), real), _row(builder, work, step, rows, p)
        for (start, lanes), part in zip(parts, mine, strict=True):
            before = load(builder, row, I64(start), ir.VectorType(real, lanes))
            store(builder, _less(builder, before, splat(builder, value, lanes), part), row, I64(start))
        return []

    loop(builder, (first, last), 1, [], body)


@vector_code
def _pull_up(builder, target, pivot, out, values, stride, rows, first, last, work, step, width, bits):
    """target <- pivot target - sum of values[p] work[rows[p]], and the same to out."""
    real, parts = real_of(bits), pieces(width, bits)
    pivot = load(builder, pivot, I64(0), real)
    start = [
        builder.fmul(load(builder, target, I64(at), ir.VectorType(real, lanes)), splat(builder, pivot, lanes))
        for at, lanes in parts
    ]

    def body(p, sums):
        value, row = load(builder, values, builder.mul(p, I64(stride)), real), _row(builder, work, step, rows, p)
        return [
            _less(builder, total, splat(builder, value, lanes), load(builder, row, I64(at), total.type))
            for (at, lanes), total in zip(parts, sums, strict=True)
        ]

    for (at, _), total in zip(parts, loop(builder, (first, last), 1, start, body), strict=True):
        for to in (target, out):
            store(builder, total, to, I64(at))


@lru_cache
def solve(n_times: int, width: int, bits: int) -> Callable[..., None]:
    """Down the triangle and up again, for the times first <= k < last; compiled, or read from numba's cache on disk."""
    size = bits // 8
    step, group = n_times * width * size, width * size

    @_compiled
    def solve(first, last, order, offsets, rows, values, pivots, x, work, out):
        at_rows, at_values, at_pivots = rows.ctypes.data, values.ctypes.data, pivots.ctypes.data
        at_work, at_out = work.ctypes.data, out.ctypes.data
        for i in range(len(order)):
            here, there = work[i], x[order[i]]
            for c in range(first * width, last * width):
                here[c] = there[c]
        for j in range(len(order)):
            begin, end = offsets[j], offsets[j + 1]
            for k in range(first, last):
                column = at_work + k * group
                _push_down(column + j * step, at_values + k * size, n_times, at_rows, begin, end,
                           column, step, width, bits)  # fmt: skip
        for j in range(len(order) - 1, -1, -1):
            begin, end, to = offsets[j], offsets[j + 1], at_out + order[j] * step
            for k in range(first, last):
                column, pivot = at_work + k * group, at_pivots + (j * n_times + k) * size
                _pull_up(column + j * step, pivot, to + k * group, at_values + k * size, n_times, at_rows,
                         begin, end, column, step, width, bits)  # fmt: skip

    return solve


@vector_code
def _multiply(builder, i, neighbors, weights, begin, end, sides, begin_f, end_f, half, scale, y, y_step, p, q, z_step,
              out, out_bounded, change, lanes, bits):  # fmt: skip
    """out = y_i and out_bounded = tanh(scale change), where change is half of

    sum of w (y_j - y_i) (p_j - p_i) + 1/3 sum of (y_a - y_i) (q_b - q_i) - (y_b - y_i) (q_a - q_i).
    """
    vector = ir.VectorType(real_of(bits), lanes)

    def at(base, step, row):
        return load(builder, builder.add(base, builder.mul(row, I64(step))), I64(0), vector)

    mine_y, mine_p, mine_q = at(y, y_step, i), at(p, z_step, i), at(q, z_step, i)

    def edge(t, sums):
        j = builder.zext(load(builder, neighbors, t, I32), I64)
        weight = splat(builder, load(builder, weights, t, vector.element), lanes)
        change = builder.fmul(weight, builder.fsub(at(y, y_step, j), mine_y))
        return [_more(builder, sums[0], change, builder.fsub(at(p, z_step, j), mine_p))]

    def face(t, sums):
        a, b = _side(builder, sides, t)
        (y_a, q_a), (y_b, q_b) = (
            (builder.fsub(at(y, y_step, j), mine_y), builder.fsub(at(q, z_step, j), mine_q)) for j in (a, b)
        )
        return [_more(builder, _less(builder, sums[0], y_b, q_a), y_a, q_b)]

    zero = ir.Constant(vector, None)
    (inner,) = loop(builder, (begin, end), 1, [zero], edge)
    (wedge,) = loop(builder, (begin_f, end_f), 1, [zero], face)
    total = _more(builder, inner, wedge, constant(vector, 1 / 3))
    total = builder.fmul(total, splat(builder, load(builder, half, I64(0), vector.element), lanes))
    bounded = tanh(builder, builder.fmul(total, load(builder, scale, I64(0), vector)))
    for value, to in ((mine_y, out), (bounded, out_bounded), (total, change)):
        store(builder, value, to, I64(0))


@vector_code
def _multiply_back(builder, i, neighbors, weights, begin, end, sides, begin_f, end_f, grad, y, y_step, p, q, z_step,
                   own, grad_y, grad_p, grad_q, lanes, bits):  # fmt: skip
    """Gradients of y, p and q at vertex i: `grad`, in rows like those of y, is that of the sums, `own` that of y_i."""
    vector = ir.VectorType(real_of(bits), lanes)

    def at(base, step, row):
        return load(builder, builder.add(base, builder.mul(row, I64(step))), I64(0), vector)

    mine_y, mine_p, mine = at(y, y_step, i), at(p, z_step, i), at(grad, y_step, i)

    def edge(t, sums):
        j = builder.zext(load(builder, neighbors, t, I32), I64)
        weight = splat(builder, load(builder, weights, t, vector.element), lanes)
        both = builder.fmul(weight, builder.fadd(mine, at(grad, y_step, j)))
        return [
            _more(builder, sums[0], both, builder.fsub(mine_p, at(p, z_step, j))),
            _more(builder, sums[1], both, builder.fsub(mine_y, at(y, y_step, j))),
        ]

    def face(t, sums):
        a, b = _side(builder, sides, t)
        all_three = builder.fadd(builder.fadd(mine, at(grad, y_step, a)), at(grad, y_step, b))
        return [
            _more(builder, sums[0], all_three, builder.fsub(at(q, z_step, a), at(q, z_step, b))),
            _more(builder, sums[1], all_three, builder.fsub(at(y, y_step, b), at(y, y_step, a))),
        ]

    zero, third = ir.Constant(vector, None), constant(vector, 1 / 3)
    along_p, along_y = loop(builder, (begin, end), 1, [zero, zero], edge)
    along_q, across_y = loop(builder, (begin_f, end_f), 1, [zero, zero], face)
    total = builder.fadd(_more(builder, along_p, along_q, third), load(builder, own, I64(0), vector))
    store(builder, total, grad_y, I64(0))
    store(builder, along_y, grad_p, I64(0))
    store(builder, builder.fmul(across_y, third), grad_q, I64(0))


@lru_cache
def multiply(width: int, bits: int) -> Callable[..., None]:
    """[y, tanh(scale change)] with change = <dy, dp> + dy ^ dq at the vertices first <= i < last.

    p and q are the two halves of a row of z. Where `change` has one row only, nobody will read it.
    """
    size, lanes = bits // 8, min(8 * VECTOR_BYTES // bits, width & -width)
    step, twice = width * size, 2 * width * size

    @_compiled
    def multiply(first, last, edge_offsets, neighbors, weights, face_offsets, sides, half, scale, y, z, out, change):
        near, at_weights, at_sides = neighbors.ctypes.data, weights.ctypes.data, sides.ctypes.data
        change_step = 0 if len(change) == 1 else step
        for i in range(first, last):
            begin, end, begin_f, end_f = edge_offsets[i], edge_offsets[i + 1], face_offsets[i], face_offsets[i + 1]
            for c in range(0, step, lanes * size):
                at_y, at_p, to = y.ctypes.data + c, z.ctypes.data + c, out.ctypes.data + i * twice + c
                _multiply(i, near, at_weights, begin, end, at_sides, begin_f, end_f, half.ctypes.data + i * size,
                          scale.ctypes.data + c, at_y, step, at_p, at_p + step, twice, to, to + step,
                          change.ctypes.data + i * change_step + c, lanes, bits)  # fmt: skip

    return multiply


@lru_cache
def multiply_back(width: int, bits: int) -> Callable[..., None]:
    """The gradients of y and z; that of the sums is `inner`, that of [y, ...] is `grad`."""
    size, lanes = bits // 8, min(8 * VECTOR_BYTES // bits, width & -width)
    step, twice = width * size, 2 * width * size

    @_compiled
    def multiply_back(
        first, last, edge_offsets, neighbors, weights, face_offsets, sides, inner, y, z, grad, grad_y, grad_z
    ):
        near, at_weights, at_sides = neighbors.ctypes.data, weights.ctypes.data, sides.ctypes.data
        for i in range(first, last):
            begin, end, begin_f, end_f = edge_offsets[i], edge_offsets[i + 1], face_offsets[i], face_offsets[i + 1]
            for c in range(0, step, lanes * size):
                at_inner, at_y, at_p = inner.ctypes.data + c, y.ctypes.data + c, z.ctypes.data + c
                own, to_y = grad.ctypes.data + i * twice + c, grad_y.ctypes.data + i * step + c
                to_p = grad_z.ctypes.data + i * twice + c
                _multiply_back(i, near, at_weights, begin, end, at_sides, begin_f, end_f, at_inner, at_y, step,
                               at_p, at_p + step, twice, own, to_y, to_p, to_p + step, lanes, bits)  # fmt: skip

    return multiply_back
