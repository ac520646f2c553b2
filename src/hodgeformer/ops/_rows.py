# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, misc"
"""Two loops over gathered rows, written as LLVM vector code that numba compiles for any processor.

dot_rows: out[t] = factor x . rows[index[t]];   sum_rows: out = sum over t of weight[t] rows[index[t]].

numba's own vectorizer keeps neither the sums nor the reduction of dot products in registers, and that is
most of the time of star attention. Vectors are 64 bytes; LLVM splits them on processors with shorter ones.
Products and sums carry the flag that lets LLVM fuse them, where the processor can, and nothing that would
change how NaN and infinity travel. All arguments are addresses and byte steps, so one compiled form serves
strided and contiguous tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

VECTOR_BYTES = 64
GROUP = 8
"""Neighbors whose dot products are reduced together: counts given to dot_rows are padded to this."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_FUSE = ("reassoc", "contract")


@intrinsic(prefer_literal=True)
def dot_rows(typing, x, factor, rows, step, indices, count, out, width, bits):
    """out[t] = factor * x . rows[index[t]] for t < count, a multiple of GROUP; step in bytes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        x, factor, rows, step, indices, count, out = args[:7]
        shape = _Shape(width.literal_value, bits.literal_value)
        scale = builder.fptrunc(factor, shape.real) if bits.literal_value == 32 else factor
        scales = _splat(builder, scale, shape.lanes)
        fixed = [builder.fmul(part, scales) for part in shape.load_row(builder, x)]
        group = min(GROUP, shape.lanes)

        def product(t: ir.Value, slot: int) -> ir.Value:
            index = _load(builder, indices, builder.add(t, _I64(slot)), _I32)
            row = builder.add(rows, builder.mul(builder.zext(index, _I64), step))
            total = None
            for mine, part in zip(fixed, shape.load_row(builder, row), strict=True):
                term = builder.fmul(mine, part, flags=_FUSE)
                total = term if total is None else builder.fadd(total, term, flags=_FUSE)
            return total

        def body(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            sums = _reduce_group(builder, lambda slot: product(t, slot), group, shape.lanes)
            _store(builder, sums, out, t, shape.real)
            return []

        _loop(builder, count, group, [], body)
        return context.get_dummy_value()

    return types.void(x, types.float64, rows, step, indices, count, out, width, bits), generate


@intrinsic(prefer_literal=True)
def sum_rows(typing, weights, indices, count, rows, step, factor, out, width, bits):
    """out = factor * sum over t < count of weight[t] rows[index[t]]; count is a multiple of GROUP."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        weights, indices, count, rows, step, factor, out = args[:7]
        shape = _Shape(width.literal_value, bits.literal_value)
        unroll = shape.independent_sums
        zero = ir.Constant(shape.vector, None)

        def body(t: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
            new = []
            for slot in range(unroll):
                at = builder.add(t, _I64(slot))
                index = _load(builder, indices, at, _I32)
                row = builder.add(rows, builder.mul(builder.zext(index, _I64), step))
                weight = _splat(builder, _load(builder, weights, at, shape.real), shape.lanes)
                mine = sums[slot * shape.parts : (slot + 1) * shape.parts]
                for total, part in zip(mine, shape.load_row(builder, row), strict=True):
                    new.append(builder.fadd(total, builder.fmul(weight, part, flags=_FUSE), flags=_FUSE))
            return new

        sums = _loop(builder, count, unroll, [zero] * (unroll * shape.parts), body)
        scale = builder.fptrunc(factor, shape.real) if bits.literal_value == 32 else factor
        scales = _splat(builder, scale, shape.lanes)
        for part in range(shape.parts):
            total = sums[part]
            for other in sums[part + shape.parts :: shape.parts]:
                total = builder.fadd(total, other)
            _store(builder, builder.fmul(total, scales), out, _I64(part * shape.lanes), shape.real)
        return context.get_dummy_value()

    return types.void(weights, indices, count, rows, step, types.float64, out, width, bits), generate


class _Shape:
    """How one row of `width` numbers is cut into vectors: the longest power of two that divides it."""

    def __init__(self, width: int, bits: int) -> None:
        self.real = ir.FloatType() if bits == 32 else ir.DoubleType()
        self.lanes = min(VECTOR_BYTES * 8 // bits, width & -width)
        self.parts = width // self.lanes
        self.vector = ir.VectorType(self.real, self.lanes)

    @property
    def independent_sums(self) -> int:
        """Enough sums in flight to hide the latency of an addition, within the registers there are."""
        return max(1, min(4, 4 // self.parts))

    def load_row(self, builder: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
        size = 4 if isinstance(self.real, ir.FloatType) else 8
        loads = []
        for part in range(self.parts):
            at = builder.add(address, _I64(part * self.lanes * size))
            loads.append(builder.load(builder.inttoptr(at, self.vector.as_pointer()), align=size))
        return loads


def _loop(
    builder: ir.IRBuilder,
    count: ir.Value,
    stride: int,
    start: Sequence[ir.Value],
    body: Callable[[ir.Value, Sequence[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """for t in range(0, count, stride): carried = body(t, carried); carried values stay in registers."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("rows.head", "rows.body", "rows.end"))
    builder.branch(head)
    builder.position_at_end(head)
    t = builder.phi(_I64)
    carried = [builder.phi(value.type) for value in start]
    builder.cbranch(builder.icmp_signed("<", t, count), inside, after)
    builder.position_at_end(inside)
    values = body(t, carried)
    following = builder.add(t, _I64(stride))
    last = builder.block
    builder.branch(head)
    t.add_incoming(_I64(0), before)
    t.add_incoming(following, last)
    for phi, first, value in zip(carried, start, values, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(value, last)
    builder.position_at_end(after)
    return list(carried)


def _reduce_group(builder: ir.IRBuilder, leaf: Callable[[int], ir.Value], group: int, lanes: int) -> ir.Value:
    """The lane sums of `group` vectors, one lane each and in order: a tree that folds two vectors into one."""

    def reduced(slot: int, stride: int) -> ir.Value:
        if stride == group:
            return leaf(slot)
        first, second = reduced(slot, 2 * stride), reduced(slot + stride, 2 * stride)
        block = lanes * stride // group
        starts = range(0, lanes, 2 * block)
        low = [c + i + side * lanes for c in starts for side in (0, 1) for i in range(block)]
        return _add_shuffled(builder, first, second, low, [lane + block for lane in low])

    total = reduced(0, 1)
    while lanes > group:
        even = list(range(0, lanes, 2))
        total = _add_shuffled(builder, total, total, even, [lane + 1 for lane in even])
        lanes //= 2
    return total


def _add_shuffled(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    mask = ir.VectorType(_I32, len(low))
    return builder.fadd(
        builder.shuffle_vector(a, b, ir.Constant(mask, list(low))),
        builder.shuffle_vector(a, b, ir.Constant(mask, list(high))),
    )


def _splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(vector, value, _I32(0))
    return builder.shuffle_vector(first, vector, ir.Constant(ir.VectorType(_I32, lanes), None))


def _load(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, item: ir.Type) -> ir.Value:
    return builder.load(builder.gep(builder.inttoptr(base, item.as_pointer()), [index]))


def _store(builder: ir.IRBuilder, vector: ir.Value, base: ir.Value, index: ir.Value, item: ir.Type) -> None:
    at = builder.gep(builder.inttoptr(base, item.as_pointer()), [index])
    size = 4 if isinstance(item, ir.FloatType) else 8
    builder.store(vector, builder.bitcast(at, vector.type.as_pointer()), align=size)


@intrinsic(prefer_literal=True)
def fetch_int(typing, base, index, bits):
    """The index-th signed integer of `bits` bits at an address, as int64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        value = _load(builder, args[0], args[1], ir.IntType(bits.literal_value))
        return value if bits.literal_value == 64 else builder.sext(value, _I64)

    return types.int64(types.int64, types.int64, bits), generate


@intrinsic(prefer_literal=True)
def fetch_real(typing, base, index, bits):
    """The index-th real number of `bits` bits at an address."""
    real = types.float32 if bits.literal_value == 32 else types.float64

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        return _load(builder, args[0], args[1], context.get_value_type(real))

    return real(types.int64, types.int64, bits), generate


@intrinsic
def put_real(typing, base, index, value):
    """Write the index-th real number at an address, in the precision of the value."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        base, index, value = args
        builder.store(value, builder.gep(builder.inttoptr(base, value.type.as_pointer()), [index]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), generate
