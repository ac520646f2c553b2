# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Numbers at addresses: single ones, and the turn between (entry, head) in memory and (head, entry) at work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hodgeformer.ops._numba_ir import I64, load, loop, shuffle, splat, store
from hodgeformer.ops._numba_rows import GROUP


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
