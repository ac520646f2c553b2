# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""D blocks on the CPU as vector code: elimination and solve, bounded products of derivatives, and all gradients.

As in `_numba_ir`, addresses are arguments, widths and precision are constants. Channel c belongs to time
group c // (width // times), so a vector of channels may span several groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from llvmlite import ir

from hodgeformer.base.compiled import njit
from hodgeformer.kernels._numba_ir import (
    I32,
    I64,
    VECTOR_BYTES,
    add_product,
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
            store(builder, add_product(builder, before, splat(builder, value, lanes), part), row, I64(start))
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
            add_product(builder, total, splat(builder, value, lanes), load(builder, row, I64(at), total.type))
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
            for c in range(first * width, last * width):
                work[i, c] = x[order[i], c]
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
def _eliminate_column(builder, j, v, last_row, neighbors, edges, position, begin, end, masses, weights, times, columns,
                      places, begin_q, end_q, starts, rows, values, pivots, excess, work, n_times, bits):  # fmt: skip
    """Column j of the triangle and its pivot; `work` is zero before and after, but for its row `last_row`, a bin.

    A diagonal entry is stored as its excess over the sum of the sizes of the other entries of its row. Excesses and
    sizes only grow, so nothing is subtracted and nothing cancels, however different the stars are.
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
        """What column k, with an entry in row j, adds to this one; entries are stored without their minus."""
        k, p = _number(builder, columns, q), _number(builder, places, q)
        share = at(values, p)
        size = builder.fdiv(share, at(pivots, k))

        def below(other, _):
            to = _number(builder, rows, other)
            put(add_product(builder, at(work, to), at(values, other), size), work, to)
            return []

        loop(builder, (builder.add(p, I64(1)), load(builder, starts, builder.add(k, I64(1)), I64)), 1, [], below)
        return [add_product(builder, own[0], share, at(excess, k))]

    def size(p, total):
        return [builder.fadd(total[0], at(work, _number(builder, rows, p)))]

    def scale(p, _):
        to = _number(builder, rows, p)
        put(builder.fmul(at(work, to), pivot), values, p)
        put(ir.Constant(vector, None), work, to)
        return []

    loop(builder, (begin, end), 1, [], edge)
    (own,) = loop(builder, (begin_q, end_q), 1, [at(masses, v)], entry)
    column = load(builder, starts, j, I64), load(builder, starts, builder.add(j, I64(1)), I64)
    (total,) = loop(builder, column, 1, [own], size)
    pivot = builder.fdiv(constant(vector, 1.0), total)
    loop(builder, column, 1, [], scale)
    put(own, excess, j)
    put(pivot, pivots, j)


@lru_cache
def eliminate(n_times: int, bits: int) -> Callable[..., None]:
    """The triangle and the pivots of meshes first <= mesh < last, in the known places.

    Values are those of the triangle without their minus.
    """

    @_compiled
    def eliminate(first, last, bounds, order, position, starts, rows, row_starts, columns, places, ring_offsets,
                  neighbors, edges, times, masses, weights, excess, work, values, pivots):  # fmt: skip
        for j in range(bounds[first], bounds[last]):
            v = order[j]
            _eliminate_column(j, v, len(order), neighbors, edges, position, ring_offsets[v], ring_offsets[v + 1],
                              masses, weights, times, columns, places, row_starts[j], row_starts[j + 1], starts, rows,
                              values, pivots, excess, work, n_times, bits)  # fmt: skip

    return eliminate


@vector_code
def _across_edge(builder, e, edges, a, b, step_b, gain, out, width, n_times, bits, weighted):
    """out[e, k] = sum over the channels of group k of (a_head - a_tail) (b_head - b_tail), if weighted times the sum of
    gain at both ends."""
    real, group = real_of(bits), width // n_times
    tail, head = _side(builder, edges, e)

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
        """The terms of a group, added in as few lanes as its last vector has."""
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
        store(builder, part, out, builder.add(builder.mul(e, I64(n_times)), I64(start)))


@lru_cache
def across_edges(width: int, n_times: int, bits: int, weighted: int) -> Callable[..., None]:
    """For edges first <= e < last: out[e, k], the sum of products of differences over the channels of group k."""

    @_compiled
    def across_edges(first, last, edges, a, b, gain, out):
        for e in range(first, last):
            _across_edge(e, edges, a, b, b.strides[0], gain, out, width, n_times, bits, weighted)

    return across_edges


class _Columns:
    """Some of the channels, as vectors that are processed together: as many as there are registers for sums."""

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
        return [add_product(self.builder, *terms) for terms in zip(a, b, c, strict=True)]


def _number(builder, indices, t):
    return builder.zext(load(builder, indices, t, I32), I64)


def _halves(builder, rows, width, bits):
    """The addresses of both halves of a row, and the bytes from one row to the next."""
    return rows, builder.add(rows, I64(width * bits // 8)), 2 * width * bits // 8


@vector_code
def _multiply(builder, i, kept, neighbors, edges, stars, begin, end, sides, begin_f, end_f, half, scale, y, z, out,
              change, width, n_times, bits):  # fmt: skip
    """out_i = [y_i, tanh(scale change)] and change[kept] = change, where change is half_i times

    sum of w (y_j - y_i) (p_j - p_i) + 1/3 sum of (y_a - y_i) (q_b - q_i) - (y_b - y_i) (q_a - q_i).
    """
    p, q, z_step = _halves(builder, z, width, bits)
    to, bounded, _ = _halves(builder, builder.add(out, builder.mul(i, I64(z_step))), width, bits)
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
        share = splat(builder, load(builder, half, i, vector.element), vector.count)
        total = more(inner, wedge, [constant(vector, 1 / 3)] * len(inner))
        total = [builder.fmul(value, share) for value in total]
        columns.store(at(y, i), to)
        columns.store([tanh(builder, value) for value in columns.times(total, columns.load(scale))], bounded)
        columns.store(total, builder.add(change, builder.mul(kept, I64(z_step // 2))))


@vector_code
def _multiply_back(builder, i, neighbors, edges, stars, begin, end, sides, begin_f, end_f, inner, y, z, grad, grad_y,
                   grad_z, width, n_times, bits):  # fmt: skip
    """Gradients of y and z at vertex i: `inner` is that of the sums, the first half of a row of `grad` that of y_i."""
    p, q, z_step = _halves(builder, z, width, bits)
    to_p, to_q, _ = _halves(builder, builder.add(grad_z, builder.mul(i, I64(z_step))), width, bits)
    for columns in _Columns.all(builder, width, n_times, bits, 6):
        at, less, more, n = columns.at, columns.less, columns.more, len(columns.starts)

        def edge(t, sums, columns=columns, at=at, less=less, more=more, n=n):
            j = _number(builder, neighbors, t)
            weights = columns.weights(stars, _number(builder, edges, t))
            both = columns.times(weights, columns.sum(at(inner, i), at(inner, j)))
            along_p = more(sums[:n], both, less(at(p, i, z_step), at(p, j, z_step)))
            return along_p + more(sums[n:], both, less(at(y, i), at(y, j)))

        def face(t, sums, columns=columns, at=at, less=less, more=more, n=n):
            a, b = _side(builder, sides, t)
            all_three = columns.sum(at(inner, i), at(inner, a), at(inner, b))
            along_q = more(sums[:n], all_three, less(at(q, a, z_step), at(q, b, z_step)))
            return along_q + more(sums[n:], all_three, less(at(y, b), at(y, a)))

        along = loop(builder, (begin, end), 1, columns.zeros * 2, edge)
        across = loop(builder, (begin_f, end_f), 1, columns.zeros * 2, face)
        thirds = [constant(columns.vector, 1 / 3)] * n
        own = builder.add(grad_y, builder.mul(i, I64(z_step // 2)))
        columns.store(columns.sum(more(along[:n], across[:n], thirds), at(grad, i, z_step)), own)
        columns.store(along[n:], to_p)
        columns.store(columns.times(across[n:], thirds), to_q)


@lru_cache
def multiply(width: int, n_times: int, bits: int) -> Callable[..., None]:
    """[y, tanh(scale change)] with change = <dy, dp> + dy ^ dq at the vertices first <= i < last.

    p and q are the two halves of a row of z. If `change` has only one row, it is not needed.
    """

    @_compiled
    def multiply(
        first, last, edge_offsets, neighbors, edges, face_offsets, sides, stars, half, scale, y, z, out, change
    ):
        for i in range(first, last):
            _multiply(i, min(i, len(change) - 1), neighbors, edges, stars, edge_offsets[i], edge_offsets[i + 1], sides,
                      face_offsets[i], face_offsets[i + 1], half, scale, y, z, out, change, width, n_times,
                      bits)  # fmt: skip

    return multiply


@lru_cache
def multiply_back(width: int, n_times: int, bits: int) -> Callable[..., None]:
    """The gradients of y and z; that of the sums is `inner`, that of [y, ...] is `grad`."""

    @_compiled
    def multiply_back(
        first, last, edge_offsets, neighbors, edges, face_offsets, sides, stars, inner, y, z, grad, grad_y, grad_z
    ):
        for i in range(first, last):
            _multiply_back(i, neighbors, edges, stars, edge_offsets[i], edge_offsets[i + 1], sides, face_offsets[i],
                           face_offsets[i + 1], inner, y, z, grad, grad_y, grad_z, width, n_times, bits)  # fmt: skip

    return multiply_back
