# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""The two loops over gathered rows that star attention spends its time in, and how it reads and writes numbers.

dot_rows: out[t] = factor x . rows[index[t]];   sum_rows: out = factor sum over t of weight[t] rows[index[t]].

numba's own vectorizer keeps neither the sums nor the reduction of dot products in registers, so they are
written as vector code. All arguments are addresses and byte steps: one compiled form serves strided and
contiguous tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hodgeformer.ops._numba_ir import (
    FUSE,
    GROUP,
    I32,
    I64,
    RowShape,
    load,
    loop,
    shuffle,
    splat,
    store,
    sum_lanes_of_group,
)  # fmt: skip


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
