# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""LLVM vector code: its pieces, the two loops over gathered rows that star attention spends its time in, and how it
reads and writes numbers.

dot_rows: out[t] = factor x . rows[index[t]];   sum_rows: out = factor sum over t of weight[t] rows[index[t]].

numba's own vectorizer keeps neither the sums nor the reduction of dot products in registers, so they are written as
vector code. All arguments are addresses and byte steps: one compiled form serves strided and contiguous tensors.
Vectors are 64 bytes; LLVM splits them on processors with shorter ones, so nothing here depends on the
processor. Products and sums that may be fused or reordered carry exactly the flags for it, and none that
would change how NaN and infinity travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

VECTOR_BYTES = 64
I32, I64 = ir.IntType(32), ir.IntType(64)
FUSE = ("reassoc", "contract")
GROUP = 8
"""Neighbors whose dot products are reduced together; terms and indices of a row are padded to this."""


class RowShape:
    """How one row of `width` numbers is cut into vectors: the longest power of two that divides it."""

    def __init__(self, width: int, bits: int) -> None:
        self.real = ir.FloatType() if bits == 32 else ir.DoubleType()
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


def loop(
    builder: ir.IRBuilder,
    bounds: tuple[ir.Value, ir.Value],
    stride: int,
    start: Sequence[ir.Value],
    body: Callable[[ir.Value, Sequence[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """for t in range(*bounds, stride): carried = body(t, carried); what is carried stays in registers."""
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
    """The lane sums of `group` vectors, one lane each and in order: a tree that folds two vectors into one."""

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
    """Bytes of one number, which is all the alignment that rows of a tensor have."""
    number = item.element if isinstance(item, ir.VectorType) else item
    return 8 if isinstance(number, ir.DoubleType) or number == I64 else 4


@intrinsic(prefer_literal=True)
def dot_rows(typing, x, factor, rows, step, indices, padded, out, width, bits):
    """out[t] = factor x . rows[index[t]] for t < padded, a multiple of GROUP; step in bytes."""
    shape = RowShape(width.literal_value, bits.literal_value)
    group = min(GROUP, shape.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        x, factor, rows, step, indices, padded, out = args[:7]
        scale = shape.splat_float64(builder, factor)
        fixed = [builder.fmul(part, scale) for part in shape.load(builder, x)]

        def product(t: ir.Value, slot: int) -> ir.Value:
            index = load(builder, indices, builder.add(t, I64(slot)), I32)
            total = None
            for mine, part in zip(fixed, shape.gather(builder, rows, step, index), strict=True):
                term = builder.fmul(mine, part, flags=FUSE)
                total = term if total is None else builder.fadd(total, term, flags=FUSE)
            return total

        def body(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            store(builder, sum_lanes_of_group(builder, lambda slot: product(t, slot), group, shape.lanes), out, t)
            return []

        loop(builder, (I64(0), padded), group, [], body)
        return context.get_dummy_value()

    return types.void(x, types.float64, rows, step, indices, padded, out, width, bits), generate


@intrinsic(prefer_literal=True)
def sum_rows(typing, weights, places, stride, indices, count, rows, step, factor, out, width, bits, clip):
    """out = factor * sum over t < count of weight(t) rows[index[t]].

    weight(t) is weights[t] for stride 0, else weights[places[t] * stride]; with clip, a negative one counts as
    zero. stride, width, bits and clip are constants.
    """
    shape = RowShape(width.literal_value, bits.literal_value)
    n_sums = _independent_sums(shape)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        weights, places, _, indices, count, rows, step, factor, out = args[:9]

        def weight(t: ir.Value) -> ir.Value:
            if stride.literal_value:
                t = builder.mul(load(builder, places, t, I64), I64(stride.literal_value))
            value = load(builder, weights, t, shape.real)
            if clip.literal_value:
                value = builder.select(builder.fcmp_ordered("<", value, zero), zero, value)
            return splat(builder, value, shape.lanes)

        def add(t: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
            mine = weight(t)
            row = shape.gather(builder, rows, step, load(builder, indices, t, I32))
            terms = [builder.fmul(mine, part, flags=FUSE) for part in row]
            return [builder.fadd(total, term, flags=FUSE) for total, term in zip(sums, terms, strict=True)]

        def several(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
            return [
                total
                for i in range(n_sums)
                for total in add(builder.add(t, I64(i)), carried[i * shape.parts : (i + 1) * shape.parts])
            ]

        zero = ir.Constant(shape.real, 0.0)
        none = [ir.Constant(shape.vector, None)] * (n_sums * shape.parts)
        whole = builder.and_(count, I64(-n_sums))
        sums = loop(builder, (I64(0), whole), n_sums, none, several)
        rest = loop(builder, (whole, count), 1, sums[: shape.parts], add)
        scale = shape.splat_float64(builder, factor)
        for part, total in enumerate(rest):
            for other in sums[part + shape.parts :: shape.parts]:
                total = builder.fadd(total, other)  # noqa: PLW2901
            store(builder, builder.fmul(total, scale), out, I64(part * shape.lanes))
        return context.get_dummy_value()

    signature = types.void(
        *[types.int64] * 2, stride, *[types.int64] * 4, types.float64, types.int64, width, bits, clip
    )
    return signature, generate


def _independent_sums(shape: RowShape) -> int:
    """A power of two, enough to hide the latency of an addition within the registers there are."""
    return max(1, 4 // shape.parts) if shape.parts in (1, 2) else 1


@intrinsic(prefer_literal=True)
def fetch_int(typing, base, index, bits):
    """The index-th signed integer of `bits` bits at an address, as int64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        value = load(builder, args[0], args[1], ir.IntType(bits.literal_value))
        return value if bits.literal_value == 64 else builder.sext(value, I64)

    return types.int64(types.int64, types.int64, bits), generate


@intrinsic
def put_real(typing, base, index, value):
    """Write the index-th real number at an address, in the precision of the value."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        store(builder, args[2], args[0], args[1])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), generate


@intrinsic(prefer_literal=True)
def heads_first(typing, source, padded, out, room, n_heads, bits):
    """out[head * room + t] = source[t * n_heads + head] for t < padded, a multiple of GROUP."""
    h = n_heads.literal_value
    real = ir.FloatType() if bits.literal_value == 32 else ir.DoubleType()

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        source, padded, out, room = args[:4]

        def body(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            together = load(builder, source, builder.mul(t, I64(h)), ir.VectorType(real, GROUP * h))
            for head in range(h):
                mine = shuffle(builder, together, together, range(head, GROUP * h, h))
                store(builder, mine, out, builder.add(t, builder.mul(room, I64(head))))
            return []

        loop(builder, (I64(0), padded), GROUP, [], body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, n_heads, bits), generate


@intrinsic(prefer_literal=True)
def heads_last(typing, source, room, factors, whole, out, n_heads, bits):
    """out[t * n_heads + head] = factors[head] source[head * room + t] for t < whole, a multiple of GROUP."""
    h = n_heads.literal_value
    real = ir.FloatType() if bits.literal_value == 32 else ir.DoubleType()
    vector = ir.VectorType(real, GROUP)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        source, room, factors, whole, out = args[:5]
        scales = [splat(builder, load(builder, factors, I64(head), real), GROUP) for head in range(h)]

        def body(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            parts = []
            for head in range(h):
                mine = load(builder, source, builder.add(t, builder.mul(room, I64(head))), vector)
                parts.append(builder.fmul(mine, scales[head]))
            joined = _concatenated(builder, parts)
            order = [head * GROUP + t for t in range(GROUP) for head in range(h)]
            store(builder, shuffle(builder, joined, joined, order), out, builder.mul(t, I64(h)))
            return []

        loop(builder, (I64(0), whole), GROUP, [], body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5, n_heads, bits), generate


def _concatenated(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """One vector of all parts in order; an odd part is joined with an undefined one."""
    while len(parts) > 1:
        lanes = parts[0].type.count
        nothing = ir.Constant(parts[0].type, ir.Undefined)
        pairs = zip(parts[::2], [*parts[1::2], nothing], strict=False)
        parts = [shuffle(builder, a, b, range(2 * lanes)) for a, b in pairs]
    return parts[0]
