# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""What happens to the terms of one row between the loops over its neighbors, as vector code.

The terms of one head are contiguous and padded to whole groups; what lies in the padding is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hodgeformer.ops._numba_ir import GROUP, I32, I64, fold_lanes, load, loop, splat, store
from hodgeformer.ops.star_problem import HEAD_STEP, MIX_A, MIX_B

_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504, 0.693359375, -2.12194440e-4
_LOWEST = -87.0
_ROUND = 1.5 * 2**23
"""Adding it leaves the nearest integer in the low bits of a float32."""
_TAYLOR = (0.0013930436, 0.0083344241, 0.0416695364, 0.1666666716, 0.4999999940)


@intrinsic(prefer_literal=True)
def softmax_terms(typing, terms, count, padded, bits):
    """terms <- exp(terms - max); returns their sum. The padding comes in as repeats of a term."""
    real, vector = _types(bits)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        terms, count, padded = args[:3]
        groups, zero = (I64(0), padded), ir.Constant(vector, None)

        def larger(a: ir.Value, b: ir.Value) -> ir.Value:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        def find_top(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
            return [larger(load(builder, terms, t, vector), carried[0])]

        def exponentiate(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
            value = _exponential(builder, builder.fsub(load(builder, terms, t, vector), top))
            store(builder, value, terms, t)
            return [builder.fadd(carried[0], builder.select(_inside(builder, t, count), value, zero))]

        lowest = ir.Constant(vector, [float("-inf")] * GROUP)
        tops = loop(builder, groups, GROUP, [lowest], find_top)
        top = splat(builder, fold_lanes(builder, tops[0], larger), GROUP)
        return fold_lanes(builder, loop(builder, groups, GROUP, [zero], exponentiate)[0], builder.fadd)

    return real(types.int64, types.int64, types.int64, bits), generate


@intrinsic(prefer_literal=True)
def softmax_gradient(typing, terms, weights, count, padded, bits):
    """terms <- w terms - |weights| sum(w terms), where w is weights without the negative (dropped) ones."""
    _, vector = _types(bits)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        terms, weights, count, padded = args[:4]
        groups, zero = (I64(0), padded), ir.Constant(vector, None)

        def multiply(t: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
            weight = load(builder, weights, t, vector)
            kept = builder.select(builder.fcmp_ordered("<", weight, zero), zero, weight)
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
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, bits), generate


@intrinsic(prefer_literal=True)
def negate_dropped(typing, terms, near, padded, row, head, key, threshold, bits):
    """Flip the sign of what dropout removes, so that one number per entry serves the backward pass."""
    _, vector = _types(bits)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
        terms, near, padded, *numbers = args[:7]
        row, head, key, threshold = (splat(builder, builder.trunc(x, I32), GROUP) for x in numbers)
        row_key = _mix(builder, builder.xor(key, row))
        head_key = builder.mul(head, _integers(HEAD_STEP))

        def body(t: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            entry = _mix(builder, builder.xor(row_key, load(builder, near, t, ir.VectorType(I32, GROUP))))
            entry = _mix(builder, builder.xor(entry, head_key))
            value, dropped = load(builder, terms, t, vector), builder.icmp_unsigned("<", entry, threshold)
            store(builder, builder.select(dropped, builder.fneg(value), value), terms, t)
            return []

        loop(builder, (I64(0), padded), GROUP, [], body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7, bits), generate


def _types(bits: types.IntegerLiteral) -> tuple[types.Float, ir.VectorType]:
    if bits.literal_value == 32:
        return types.float32, ir.VectorType(ir.FloatType(), GROUP)
    return types.float64, ir.VectorType(ir.DoubleType(), GROUP)


def _inside(builder: ir.IRBuilder, t: ir.Value, count: ir.Value) -> ir.Value:
    """Which lanes of the group that starts at t are terms and not padding."""
    lanes = ir.Constant(ir.VectorType(I64, GROUP), list(range(GROUP)))
    return builder.icmp_signed("<", lanes, splat(builder, builder.sub(count, t), GROUP))


def _exponential(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """exp(x) for x <= 0: 2^n (1 + r + r^2 (c + ...)), r = x - n log 2. NaN stays NaN."""
    vector = x.type
    if isinstance(vector.element, ir.DoubleType):
        exp = builder.module.declare_intrinsic("llvm.exp", [vector.element])
        for lane in map(I32, range(GROUP)):
            x = builder.insert_element(x, builder.call(exp, [builder.extract_element(x, lane)]), lane)
        return x

    def constant(value: float) -> ir.Constant:
        return ir.Constant(vector, [value] * GROUP)

    def multiply_add(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

    lowest = constant(_LOWEST)
    x = builder.select(builder.fcmp_ordered("<", x, lowest), lowest, x)
    shifted = multiply_add(x, constant(_LOG2_E), constant(_ROUND))
    n = builder.fsub(shifted, constant(_ROUND))
    r = multiply_add(n, constant(-_LN2_LOW), multiply_add(n, constant(-_LN2_HIGH), x))
    tail = constant(_TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        tail = multiply_add(tail, r, constant(coefficient))
    fraction = builder.fadd(multiply_add(builder.fmul(r, r), tail, r), constant(1.0))
    exponent = builder.shl(builder.bitcast(shifted, ir.VectorType(I32, GROUP)), _integers(23))
    power = builder.bitcast(builder.add(exponent, _integers(127 << 23)), vector)
    return builder.fmul(fraction, power)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, GROUP), [value] * GROUP)


def _mix(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The hash of star_problem.py on a vector."""
    x = builder.xor(x, builder.lshr(x, _integers(16)))
    x = builder.mul(x, _integers(MIX_A))
    x = builder.xor(x, builder.lshr(x, _integers(15)))
    x = builder.mul(x, _integers(MIX_B))
    return builder.xor(x, builder.lshr(x, _integers(16)))
