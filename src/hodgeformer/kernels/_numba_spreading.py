# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""D blocks on the CPU as vector code: elimination and the solve of spreading, bounded products of derivatives, and all
gradients, those of the stars among them.

Addresses and byte steps are arguments, widths and precision constants, as in `_numba_ir`. Channel c belongs to time
group c // (width // times), so a vector of channels may reach over several groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
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
    shuffle,
    splat,
    store,
    sum_lanes_of_group,
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


@vector_code
def _push_down(builder, source, values, stride, rows, first, last, work, step, width, bits):
    """work[rows[p]] += values[p] source for first <= p < last."""
    real, parts = real_of(bits), pieces(width, bits)
    mine = [load(builder, source, I64(start), ir.VectorType(real, lanes)) for start, lanes in parts]

    def body(p, _):
        value, row = load(builder, values, builder.mul(p, I64(stride)), real), _row(builder, work, step, rows, p)
        for (start, lanes), part in zip(parts, mine, strict=True):
            before = load(builder, row, I64(start), ir.VectorType(real, lanes))
            store(builder, _more(builder, before, splat(builder, value, lanes), part), row, I64(start))
        return []

    loop(builder, (first, last), 1, [], body)


@vector_code
def _pull_up(builder, target, pivot, out, values, stride, rows, first, last, work, step, width, bits):
    """target <- pivot target + sum of values[p] work[rows[p]], and the same to out."""
    real, parts = real_of(bits), pieces(width, bits)
    pivot = load(builder, pivot, I64(0), real)
    start = [
        builder.fmul(load(builder, target, I64(at), ir.VectorType(real, lanes)), splat(builder, pivot, lanes))
        for at, lanes in parts
    ]

    def body(p, sums):
        value, row = load(builder, values, builder.mul(p, I64(stride)), real), _row(builder, work, step, rows, p)
        return [
            _more(builder, total, splat(builder, value, lanes), load(builder, row, I64(at), total.type))
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
def _eliminate_column(builder, j, last_row, neighbors, edges, position, begin, end, mass, weights, times, columns,
                      places, begin_q, end_q, starts, rows, values, pivots, excess, work, n_times, bits):  # fmt: skip
    """Column j of the triangle and its pivot; `work` is zero before and after, but for its row `last_row`, a bin.

    A diagonal entry is what the row exceeds the others by, its excess, plus their sizes. Excesses only grow, as do the
    sizes of entries, so nothing is subtracted and nothing cancels, however different the stars are.
    """
    vector = ir.VectorType(real_of(bits), n_times)

    def row(array, i):
        return builder.add(array, builder.mul(i, I64(n_times * bits // 8)))

    def at(array, i):
        return load(builder, row(array, i), I64(0), vector)

    def put(value, array, i):
        store(builder, value, row(array, i), I64(0))

    def edge(t, _):
        weight = builder.fmul(load(builder, times, I64(0), vector), at(weights, _number(builder, edges, t)))
        i = _number(builder, position, _number(builder, neighbors, t))
        i = builder.select(builder.icmp_signed(">", i, j), i, last_row)
        put(builder.fadd(at(work, i), weight), work, i)
        return []

    def entry(q, own):
        """What column k, with an entry in row j, adds to this one; entries are kept without their minus."""
        k, p = _number(builder, columns, q), _number(builder, places, q)
        share = at(values, p)
        size = builder.fdiv(share, at(pivots, k))

        def below(other, _):
            to = _number(builder, rows, other)
            put(_more(builder, at(work, to), at(values, other), size), work, to)
            return []

        loop(builder, (builder.add(p, I64(1)), load(builder, starts, builder.add(k, I64(1)), I64)), 1, [], below)
        return [_more(builder, own[0], share, at(excess, k))]

    def size(p, total):
        return [builder.fadd(total[0], at(work, _number(builder, rows, p)))]

    def scale(p, _):
        to = _number(builder, rows, p)
        put(builder.fmul(at(work, to), pivot), values, p)
        put(ir.Constant(vector, None), work, to)
        return []

    loop(builder, (begin, end), 1, [], edge)
    (own,) = loop(builder, (begin_q, end_q), 1, [load(builder, mass, I64(0), vector)], entry)
    column = load(builder, starts, j, I64), load(builder, starts, builder.add(j, I64(1)), I64)
    (total,) = loop(builder, column, 1, [own], size)
    pivot = builder.fdiv(constant(vector, 1.0), total)
    loop(builder, column, 1, [], scale)
    put(own, excess, j)
    put(pivot, pivots, j)


@lru_cache
def eliminate(n_times: int, bits: int) -> Callable[..., None]:
    """The triangle and the pivots of meshes first <= mesh < last, on the places that are known.

    Values are those of the triangle without their minus.
    """
    step = n_times * bits // 8

    @_compiled
    def eliminate(first, last, bounds, order, position, starts, rows, row_starts, columns, places, ring_offsets,
                  neighbors, edges, times, masses, weights, excess, work, values, pivots):  # fmt: skip
        for j in range(bounds[first], bounds[last]):
            v = order[j]
            _eliminate_column(j, len(order), neighbors.ctypes.data, edges.ctypes.data, position.ctypes.data,
                              ring_offsets[v], ring_offsets[v + 1], masses.ctypes.data + v * step,
                              weights.ctypes.data, times.ctypes.data, columns.ctypes.data, places.ctypes.data,
                              row_starts[j], row_starts[j + 1], starts.ctypes.data, rows.ctypes.data,
                              values.ctypes.data, pivots.ctypes.data, excess.ctypes.data, work.ctypes.data,
                              n_times, bits)  # fmt: skip

    return eliminate


@vector_code
def _across_edge(builder, tail, head, a, b, step_b, gain, out, width, n_times, bits, weighted):
    """out[k] = sum over the channels of group k of (a_head - a_tail) (b_head - b_tail), if weighted times the sum of
    gain at both ends."""
    real, group = real_of(bits), width // n_times

    def vectors(k):
        return ((k * group + start, ir.VectorType(real, lanes)) for start, lanes in pieces(group, bits))

    def at(rows, step, row, channel, vector):
        return load(builder, builder.add(rows, builder.mul(row, step)), I64(channel), vector)

    step = I64(width * bits // 8)

    def term(channel, vector):
        change_a, change_b = (
            builder.fsub(at(rows, by, head, channel, vector), at(rows, by, tail, channel, vector))
            for rows, by in ((a, step), (b, step_b))
        )
        value = builder.fmul(change_a, change_b)
        if weighted:
            both = builder.fadd(at(gain, step, head, channel, vector), at(gain, step, tail, channel, vector))
            value = builder.fmul(value, both)
        return value

    def of_group(k):
        """The terms of a group, folded into as few lanes as its last vector has."""
        terms = [term(*place) for place in vectors(k)]
        total = terms[0]
        for value in terms[1:]:
            while total.type.count > value.type.count:
                half = total.type.count // 2
                total = builder.fadd(*(shuffle(builder, total, total, range(s, s + half)) for s in (0, half)))
            total = builder.fadd(total, value)
        return total

    sums = [of_group(k) for k in range(n_times)]
    lanes = sums[0].type.count
    together = min(lanes, n_times)
    for start in range(0, n_times, together):
        part = sum_lanes_of_group(builder, sums[start : start + together].__getitem__, together, lanes)
        store(builder, part, out, I64(start))


@lru_cache
def across_edges(width: int, n_times: int, bits: int, weighted: int) -> Callable[..., None]:
    """For edges first <= e < last: out[e, k], the sum of products of differences over the channels of group k."""
    step = n_times * bits // 8

    @_compiled
    def across_edges(first, last, edges, a, b, gain, out):
        for e in range(first, last):
            tail, head = np.int64(edges[e, 0]), np.int64(edges[e, 1])
            _across_edge(tail, head, a.ctypes.data, b.ctypes.data, b.strides[0], gain.ctypes.data,
                         out.ctypes.data + e * step, width, n_times, bits, weighted)  # fmt: skip

    return across_edges


class _Columns:
    """Some of the channels, as vectors that are worked on side by side: as many as registers hold sums of."""

    def __init__(self, builder, starts, lanes, width, n_times, bits):
        self.builder, self.starts, self.width, self.n_times, self.bits = builder, starts, width, n_times, bits
        self.vector = ir.VectorType(real_of(bits), lanes)
        self.zeros = [ir.Constant(self.vector, None)] * len(starts)

    @classmethod
    def all(cls, builder, width, n_times, bits, most):
        lanes = min(8 * VECTOR_BYTES // bits, width & -width)
        starts = range(0, width, lanes)
        for first in range(0, len(starts), most):
            yield cls(builder, starts[first : first + most], lanes, width, n_times, bits)

    def at(self, rows, row, step=None):
        """The vectors of a row, `step` bytes apart from the next."""
        step = I64(self.width * self.bits // 8 if step is None else step)
        return self.load(self.builder.add(rows, self.builder.mul(row, step)))

    def load(self, address):
        return [load(self.builder, address, I64(start), self.vector) for start in self.starts]

    def store(self, values, address):
        for start, value in zip(self.starts, values, strict=True):
            store(self.builder, value, address, I64(start))

    def weights(self, stars, edge):
        """The star of an edge, each channel with that of its time group."""
        each = ir.VectorType(self.vector.element, self.n_times)
        star = load(self.builder, stars, self.builder.mul(edge, I64(self.n_times)), each)
        lanes = range(self.vector.count)
        groups = ([(start + lane) * self.n_times // self.width for lane in lanes] for start in self.starts)
        return [shuffle(self.builder, star, star, group) for group in groups]

    def less(self, a, b):
        return [self.builder.fsub(x, y) for x, y in zip(a, b, strict=True)]

    def sum(self, *rows):
        total = rows[0]
        for row in rows[1:]:
            total = [self.builder.fadd(x, y) for x, y in zip(total, row, strict=True)]
        return total

    def times(self, a, b):
        return [self.builder.fmul(x, y) for x, y in zip(a, b, strict=True)]

    def more(self, a, b, c):
        """a + b c."""
        return [_more(self.builder, *terms) for terms in zip(a, b, c, strict=True)]


def _more(builder, a, b, c):
    return builder.fadd(a, builder.fmul(b, c, flags=FUSE), flags=FUSE)


def _number(builder, indices, t):
    return builder.zext(load(builder, indices, t, I32), I64)


@vector_code
def _multiply(builder, i, neighbors, edges, stars, begin, end, sides, begin_f, end_f, half, scale, y, p, q, z_step,
              out, bounded, change, width, n_times, bits):  # fmt: skip
    """out = y_i and bounded = tanh(scale change), where change is half of

    sum of w (y_j - y_i) (p_j - p_i) + 1/3 sum of (y_a - y_i) (q_b - q_i) - (y_b - y_i) (q_a - q_i).
    """
    for columns in _Columns.all(builder, width, n_times, bits, 6):
        at, less, more = columns.at, columns.less, columns.more

        def edge(t, sums, columns=columns, at=at, less=less, more=more):
            j = _number(builder, neighbors, t)
            weights = columns.weights(stars, _number(builder, edges, t))
            changed = columns.times(weights, less(at(y, j), at(y, i)))
            return more(sums, changed, less(at(p, j, z_step), at(p, i, z_step)))

        def face(t, sums, at=at, less=less, more=more):
            a, b = _side(builder, sides, t)
            (y_a, q_a), (y_b, q_b) = (
                (less(at(y, j), at(y, i)), less(at(q, j, z_step), at(q, i, z_step))) for j in (a, b)
            )
            return more(more(sums, y_a, q_b), y_b, [builder.fneg(value) for value in q_a])

        inner = loop(builder, (begin, end), 1, columns.zeros, edge)
        wedge = loop(builder, (begin_f, end_f), 1, columns.zeros, face)
        vector = columns.vector
        share = splat(builder, load(builder, half, I64(0), vector.element), vector.count)
        total = more(inner, wedge, [constant(vector, 1 / 3)] * len(inner))
        total = [builder.fmul(value, share) for value in total]
        columns.store(at(y, i), out)
        columns.store([tanh(builder, value) for value in columns.times(total, columns.load(scale))], bounded)
        columns.store(total, change)


@vector_code
def _multiply_back(builder, i, neighbors, edges, stars, begin, end, sides, begin_f, end_f, grad, y, p, q, z_step,
                   own, grad_y, grad_p, grad_q, width, n_times, bits):  # fmt: skip
    """Gradients of y, p and q at vertex i: `grad`, in rows like those of y, is that of the sums, `own` that of y_i."""
    for columns in _Columns.all(builder, width, n_times, bits, 6):
        at, less, more, n = columns.at, columns.less, columns.more, len(columns.starts)

        def edge(t, sums, columns=columns, at=at, less=less, more=more, n=n):
            j = _number(builder, neighbors, t)
            weights = columns.weights(stars, _number(builder, edges, t))
            both = columns.times(weights, columns.sum(at(grad, i), at(grad, j)))
            along_p = more(sums[:n], both, less(at(p, i, z_step), at(p, j, z_step)))
            return along_p + more(sums[n:], both, less(at(y, i), at(y, j)))

        def face(t, sums, columns=columns, at=at, less=less, more=more, n=n):
            a, b = _side(builder, sides, t)
            all_three = columns.sum(at(grad, i), at(grad, a), at(grad, b))
            along_q = more(sums[:n], all_three, less(at(q, a, z_step), at(q, b, z_step)))
            return along_q + more(sums[n:], all_three, less(at(y, b), at(y, a)))

        along = loop(builder, (begin, end), 1, columns.zeros * 2, edge)
        across = loop(builder, (begin_f, end_f), 1, columns.zeros * 2, face)
        thirds = [constant(columns.vector, 1 / 3)] * n
        columns.store(columns.sum(more(along[:n], across[:n], thirds), columns.load(own)), grad_y)
        columns.store(along[n:], grad_p)
        columns.store(columns.times(across[n:], thirds), grad_q)


@lru_cache
def multiply(width: int, n_times: int, bits: int) -> Callable[..., None]:
    """[y, tanh(scale change)] with change = <dy, dp> + dy ^ dq at the vertices first <= i < last.

    p and q are the two halves of a row of z. Where `change` has one row only, nobody will read it.
    """
    size = bits // 8
    step, twice = width * size, 2 * width * size

    @_compiled
    def multiply(
        first, last, edge_offsets, neighbors, edges, face_offsets, sides, stars, half, scale, y, z, out, change
    ):
        at_p, change_step = z.ctypes.data, 0 if len(change) == 1 else step
        for i in range(first, last):
            to = out.ctypes.data + i * twice
            _multiply(i, neighbors.ctypes.data, edges.ctypes.data, stars.ctypes.data, edge_offsets[i],
                      edge_offsets[i + 1], sides.ctypes.data, face_offsets[i], face_offsets[i + 1],
                      half.ctypes.data + i * size, scale.ctypes.data, y.ctypes.data, at_p, at_p + step, twice,
                      to, to + step, change.ctypes.data + i * change_step, width, n_times, bits)  # fmt: skip

    return multiply


@lru_cache
def multiply_back(width: int, n_times: int, bits: int) -> Callable[..., None]:
    """The gradients of y and z; that of the sums is `inner`, that of [y, ...] is `grad`."""
    size = bits // 8
    step, twice = width * size, 2 * width * size

    @_compiled
    def multiply_back(
        first, last, edge_offsets, neighbors, edges, face_offsets, sides, stars, inner, y, z, grad, grad_y, grad_z
    ):
        at_p = z.ctypes.data
        for i in range(first, last):
            to_p = grad_z.ctypes.data + i * twice
            _multiply_back(i, neighbors.ctypes.data, edges.ctypes.data, stars.ctypes.data, edge_offsets[i],
                           edge_offsets[i + 1], sides.ctypes.data, face_offsets[i], face_offsets[i + 1],
                           inner.ctypes.data, y.ctypes.data, at_p, at_p + step, twice,
                           grad.ctypes.data + i * twice, grad_y.ctypes.data + i * step, to_p, to_p + step,
                           width, n_times, bits)  # fmt: skip

    return multiply_back
