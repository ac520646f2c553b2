# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""LLVM vector code of star attention: loops over gathered rows, and what happens to the terms of a row between them.

numba's vectorizer keeps neither sums nor the reduction of dot products in registers, so they are written by hand.
Arguments are addresses and steps in bytes, so one compiled form serves strided and contiguous tensors; widths, `bits`
and other small numbers are constants. Vectors have 64 bytes; LLVM splits them for processors with shorter ones.
Products and sums that may be fused or reordered have the flags for that, and none that changes how NaN and infinity
propagate. The terms of one head are contiguous and padded to whole groups; the padding is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

VECTOR_BYTES = 64
I32, I64 = ir.IntType(32), ir.IntType(64)
FUSE = ("reassoc", "contract")
GROUP = 8
"""Neighbors whose dot products are reduced together; terms and indices of a row are padded to this."""
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504, 0.693359375, -2.12194440e-4
_LOWEST = -87.0
_ROUND = 1.5 * 2**23
"""Adding it leaves the nearest integer in the low bits of a float32."""
_TAYLOR = (0.0013930436, 0.0083344241, 0.0416695364, 0.1666666716, 0.4999999940)
_TANH, _TANH_UP_TO = (62 / 2835, -17 / 315, 2 / 15, -1 / 3, 1.0), 0.25


def vector_code(emit: Callable[..., None]) -> Any:
    """Turn a function that writes vector code into one that compiled loops can call.

    Constants arrive as numbers, arrays as the address of their first number.
    """

    @wraps(emit)  # numba reads names and number of the arguments from it
    def typed(typing: Any, *given: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Sequence[Any]) -> Any:
            def argument(kind: Any, value: Any) -> Any:
                if isinstance(kind, types.Array):
                    return builder.ptrtoint(context.make_array(kind)(context, builder, value).data, I64)
                return getattr(kind, "literal_value", value)

            emit(builder, *map(argument, given, values))
            return context.get_dummy_value()

        return types.void(*given), generate

    return intrinsic(prefer_literal=True)(typed)


@vector_code
def dot_rows(builder, x, factor, rows, step, indices, padded, out, width, bits):
    """out[t] = factor x . rows[index[t]] for t < padded, a multiple of GROUP; step in bytes."""
    shape = RowShape(width, bits)
    group = min(GROUP, shape.lanes)
    scale = shape.splat_float64(builder, factor)
    fixed = [builder.fmul(part, scale) for part in shape.load(builder, x)]

    def product(t: ir.Value, slot: int) -> ir.Value:
        index = load(builder, indices, builder.add(t, I64(slot)), I32)
        first, *others = zip(fixed, shape.gather(builder, rows, step, index), strict=True)
        total = builder.fmul(*first, flags=FUSE)
        for mine, part in others:
            total = add_product(builder, total, mine, part)
        return total

    def body(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
        store(builder, sum_lanes_of_group(builder, lambda slot: product(t, slot), group, shape.lanes), out, t)
        return []

    loop(builder, (I64(0), padded), group, [], body)


@vector_code
def sum_rows(builder, weights, places, stride, indices, count, rows, step, factor, out, width, bits, clip):
    """out = factor * sum over t < count of weight(t) rows[index[t]].

    weight(t) is weights[t] for stride 0, else weights[places[t] * stride]; with clip, negative ones count as zero.
    """
    shape = RowShape(width, bits)
    # A power of two, enough to hide the latency of an addition within the registers there are.
    n_sums = max(1, 4 // shape.parts) if shape.parts in (1, 2) else 1

    def weight(t: ir.Value) -> ir.Value:
        if stride:
            t = builder.mul(load(builder, places, t, I64), I64(stride))
        value = load(builder, weights, t, shape.real)
        return splat(builder, without_negative(builder, value) if clip else value, shape.lanes)

    def add(t: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        mine = weight(t)
        row = shape.gather(builder, rows, step, load(builder, indices, t, I32))
        return [add_product(builder, total, mine, part) for total, part in zip(sums, row, strict=True)]

    def several(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        return [
            total
            for i in range(n_sums)
            for total in add(builder.add(t, I64(i)), carried[i * shape.parts : (i + 1) * shape.parts])
        ]

    none = [ir.Constant(shape.vector, None)] * (n_sums * shape.parts)
    whole = builder.and_(count, I64(-n_sums))
    sums = loop(builder, (I64(0), whole), n_sums, none, several)
    rest = loop(builder, (whole, count), 1, sums[: shape.parts], add)
    scale = shape.splat_float64(builder, factor)
    for part, total in enumerate(rest):
        for other in sums[part + shape.parts :: shape.parts]:
            total = builder.fadd(total, other)  # noqa: PLW2901
        store(builder, builder.fmul(total, scale), out, I64(part * shape.lanes))


@vector_code
def softmax_terms(builder, terms, count, padded, factor, bits):
    """terms <- exp(terms - max), factor <- one over their sum. The padding contains repeats of a term."""
    vector = ir.VectorType(real_of(bits), GROUP)
    groups, zero = (I64(0), padded), ir.Constant(vector, None)

    def larger(a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    def find_top(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        return [larger(load(builder, terms, t, vector), carried[0])]

    def exponentiate(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        value = exponential(builder, builder.fsub(load(builder, terms, t, vector), top))
        store(builder, value, terms, t)
        return [builder.fadd(carried[0], builder.select(_inside(builder, t, count), value, zero))]

    lowest = ir.Constant(vector, [float("-inf")] * GROUP)
    tops = loop(builder, groups, GROUP, [lowest], find_top)
    top = splat(builder, fold_lanes(builder, tops[0], larger), GROUP)
    total = fold_lanes(builder, loop(builder, groups, GROUP, [zero], exponentiate)[0], builder.fadd)
    store(builder, builder.fdiv(ir.Constant(total.type, 1.0), total), factor, I64(0))


@vector_code
def softmax_gradient(builder, terms, weights, count, padded, bits):
    """terms <- w terms - |weights| sum(w terms), where w is weights without the negative (dropped) ones."""
    vector = ir.VectorType(real_of(bits), GROUP)
    groups, zero = (I64(0), padded), ir.Constant(vector, None)

    def multiply(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        kept = without_negative(builder, load(builder, weights, t, vector))
        value = builder.fmul(load(builder, terms, t, vector), kept)
        store(builder, value, terms, t)
        return [builder.fadd(carried[0], builder.select(_inside(builder, t, count), value, zero))]

    def center(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
        weight = load(builder, weights, t, vector)
        size = builder.select(builder.fcmp_ordered("<", weight, zero), builder.fneg(weight), weight)
        store(builder, builder.fsub(load(builder, terms, t, vector), builder.fmul(size, total)), terms, t)
        return []

    sums = loop(builder, groups, GROUP, [zero], multiply)
    total = splat(builder, fold_lanes(builder, sums[0], builder.fadd), GROUP)
    loop(builder, groups, GROUP, [], center)


class RowShape:
    """How one row of `width` numbers is cut into vectors: the longest power of two that divides it."""

    def __init__(self, width: int, bits: int) -> None:
        self.real = real_of(bits)
        self.size = bits // 8
        self.lanes = min(VECTOR_BYTES // self.size, width & -width)
        self.parts = width // self.lanes
        self.vector = ir.VectorType(self.real, self.lanes)

    def load(self, builder: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
        """The vectors of the row at an address."""
        starts = [I64(part * self.lanes) for part in range(self.parts)]
        return [load(builder, address, start, self.vector) for start in starts]

    def gather(self, builder: ir.IRBuilder, rows: ir.Value, step: ir.Value, index: ir.Value) -> list[ir.Value]:
        """The vectors of the index-th row, `step` bytes apart."""
        return self.load(builder, builder.add(rows, builder.mul(builder.zext(index, I64), step)))

    def splat_float64(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """A float64 argument in every lane, in the row's precision."""
        narrow = builder.fptrunc(value, self.real) if self.size == 4 else value
        return splat(builder, narrow, self.lanes)


def pieces(width: int, bits: int) -> list[tuple[int, int]]:
    """(start, lanes) of the vectors, each as long as fits, that a row of `width` numbers is cut into."""
    found, start, lanes = [], 0, 8 * VECTOR_BYTES // bits
    while start < width:
        while lanes > width - start:
            lanes //= 2
        found.append((start, lanes))
        start += lanes
    return found


def loop(
    builder: ir.IRBuilder,
    bounds: tuple[ir.Value, ir.Value],
    stride: int,
    start: Sequence[ir.Value],
    body: Callable[[ir.Value, Sequence[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """for t in range(*bounds, stride): carried = body(t, carried), with `carried` in registers."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    t = builder.phi(I64)
    carried = [builder.phi(value.type) for value in start]
    builder.cbranch(builder.icmp_signed("<", t, bounds[1]), inside, after)
    builder.position_at_end(inside)
    values = body(t, carried)
    following = builder.add(t, I64(stride))
    last = builder.block
    builder.branch(head)
    for phi, first, value in zip([t, *carried], [bounds[0], *start], [following, *values], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(value, last)
    builder.position_at_end(after)
    return carried


def sum_lanes_of_group(builder: ir.IRBuilder, leaf: Callable[[int], ir.Value], group: int, lanes: int) -> ir.Value:
    """The sums over the lanes of `group` vectors, one result per lane: a tree that folds two vectors into one."""

    def folded(slot: int, stride: int) -> ir.Value:
        if stride == group:
            return leaf(slot)
        first, second = folded(slot, 2 * stride), folded(slot + stride, 2 * stride)
        block = lanes * stride // group
        starts = range(0, lanes, 2 * block)
        low = [c + i + side * lanes for c in starts for side in (0, 1) for i in range(block)]
        return builder.fadd(*_two_halves(builder, first, second, low, block))

    total = folded(0, 1)
    while lanes > group:
        total = builder.fadd(*_two_halves(builder, total, total, range(0, lanes, 2), 1))
        lanes //= 2
    return total


def fold_lanes(builder: ir.IRBuilder, vector: ir.Value, combine: Callable[..., ir.Value]) -> ir.Value:
    """All lanes of a vector combined into one number, halves first."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        vector = combine(*_two_halves(builder, vector, vector, range(lanes), lanes))
    return builder.extract_element(vector, I32(0))


def _two_halves(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, low: Sequence[int], shift: int) -> list[ir.Value]:
    return [shuffle(builder, a, b, [lane + by for lane in low]) for by in (0, shift)]


def shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The chosen lanes of a followed by b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    return shuffle(builder, builder.insert_element(vector, value, I32(0)), vector, [0] * lanes)


def load(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, item: ir.Type) -> ir.Value:
    """The number, or the vector, that starts at the index-th number after an address."""
    return builder.load(_pointer(builder, base, index, item), align=_size(item))


def store(builder: ir.IRBuilder, value: ir.Value, base: ir.Value, index: ir.Value) -> None:
    builder.store(value, _pointer(builder, base, index, value.type), align=_size(value.type))


def _pointer(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, item: ir.Type) -> ir.Value:
    number = item.element if isinstance(item, ir.VectorType) else item
    at = builder.gep(builder.inttoptr(base, number.as_pointer()), [index])
    return builder.bitcast(at, item.as_pointer())


def _size(item: ir.Type) -> int:
    """Bytes of one number: rows of a tensor have no larger alignment."""
    number = item.element if isinstance(item, ir.VectorType) else item
    return 8 if isinstance(number, ir.DoubleType) or number == I64 else 4


def real_of(bits: int) -> ir.Type:
    return ir.FloatType() if bits == 32 else ir.DoubleType()


def without_negative(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """max(value, 0): negative weights are those that dropout removed."""
    zero = ir.Constant(value.type, None if isinstance(value.type, ir.VectorType) else 0.0)
    return builder.select(builder.fcmp_ordered("<", value, zero), zero, value)


def _inside(builder: ir.IRBuilder, t: ir.Value, count: ir.Value) -> ir.Value:
    """Which lanes of the group that starts at t are terms, not padding."""
    lanes = ir.Constant(ir.VectorType(I64, GROUP), list(range(GROUP)))
    return builder.icmp_signed("<", lanes, splat(builder, builder.sub(count, t), GROUP))


def exponential(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """exp(x) for x <= 0: 2^n (1 + r + r^2 (c + ...)), r = x - n log 2. NaN stays NaN."""
    vector, lanes = x.type, x.type.count
    if isinstance(vector.element, ir.DoubleType):
        exp = builder.module.declare_intrinsic("llvm.exp", [vector.element])
        for lane in map(I32, range(lanes)):
            x = builder.insert_element(x, builder.call(exp, [builder.extract_element(x, lane)]), lane)
        return x

    integers = ir.VectorType(I32, lanes)
    lowest = constant(vector, _LOWEST)
    x = builder.select(builder.fcmp_ordered("<", x, lowest), lowest, x)
    shifted = multiply_add(builder, x, constant(vector, _LOG2_E), constant(vector, _ROUND))
    n = builder.fsub(shifted, constant(vector, _ROUND))
    r = multiply_add(builder, n, constant(vector, -_LN2_HIGH), x)
    r = multiply_add(builder, n, constant(vector, -_LN2_LOW), r)
    tail = polynomial(builder, r, _TAYLOR)
    fraction = builder.fadd(multiply_add(builder, builder.fmul(r, r), tail, r), constant(vector, 1.0))
    exponent = builder.shl(builder.bitcast(shifted, integers), ir.Constant(integers, [23] * lanes))
    power = builder.bitcast(builder.add(exponent, ir.Constant(integers, [127 << 23] * lanes)), vector)
    return builder.fmul(fraction, power)


def tanh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """(1 - e) / (1 + e) with e = exp(-2 |x|); in float32 the first terms of its series where that would cancel."""
    vector = x.type
    negative = builder.fcmp_ordered("<", x, constant(vector, 0.0))
    size, one = builder.select(negative, builder.fneg(x), x), constant(vector, 1.0)
    e = exponential(builder, builder.fmul(size, constant(vector, -2.0)))
    result = builder.fdiv(builder.fsub(one, e), builder.fadd(one, e))
    if not isinstance(vector.element, ir.DoubleType):
        near = builder.fmul(size, polynomial(builder, builder.fmul(size, size), _TANH))
        result = builder.select(builder.fcmp_ordered("<", size, constant(vector, _TANH_UP_TO)), near, result)
    return builder.select(negative, builder.fneg(result), result)


def polynomial(builder: ir.IRBuilder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Coefficients from that of the highest power down."""
    total = constant(x.type, coefficients[0])
    for coefficient in coefficients[1:]:
        total = multiply_add(builder, total, x, constant(x.type, coefficient))
    return total


def add_product(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    """total + a b, where other such sums may be reordered."""
    return builder.fadd(total, builder.fmul(a, b, flags=FUSE), flags=FUSE)


def multiply_add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))


def constant(vector: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(vector, [value] * vector.count)
