# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""LayerNorm on the CPU as vector code: a row is read once and stays in registers while it is normalized."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from llvmlite import ir

from hodgeformer.base.compiled import njit
from hodgeformer.kernels._numba_ir import FUSE, I64, fold_lanes, load, pieces, real_of, splat, store, vector_code
from hodgeformer.kernels.rows import EPSILON

_compiled = njit(nogil=True, cache=True, error_model="numpy")


def _load(builder, address, width, bits):
    vectors = [(start, ir.VectorType(real_of(bits), lanes)) for start, lanes in pieces(width, bits)]
    return [load(builder, address, I64(start), vector) for start, vector in vectors]


def _store(builder, values, address):
    start = 0
    for value in values:
        store(builder, value, address, I64(start))
        start += value.type.count


def _mean(builder, values, width):
    """The mean of all lanes of the vectors of a row; vectors of one length are added first."""
    sums: dict[int, ir.Value] = {}
    for value in values:
        lanes = value.type.count
        sums[lanes] = builder.fadd(sums[lanes], value, flags=FUSE) if lanes in sums else value
    total, *others = (fold_lanes(builder, vector, builder.fadd) for vector in sums.values())
    for part in others:
        total = builder.fadd(total, part)
    return builder.fdiv(total, ir.Constant(total.type, float(width)))


def _splat(builder, number, like):
    return splat(builder, number, like.type.count)


@vector_code
def _normalize(builder, row, out, scale, width, bits):
    """out = (row - mean) factor, with factor = 1 / deviation to scale."""
    values = _load(builder, row, width, bits)
    mean = _mean(builder, values, width)
    centered = [builder.fsub(value, _splat(builder, mean, value)) for value in values]
    variance = _mean(builder, [builder.fmul(value, value) for value in centered], width)
    root = builder.module.declare_intrinsic("llvm.sqrt", [variance.type])
    deviation = builder.call(root, [builder.fadd(variance, ir.Constant(variance.type, EPSILON))])
    factor = builder.fdiv(ir.Constant(variance.type, 1.0), deviation)
    _store(builder, [builder.fmul(value, _splat(builder, factor, value)) for value in centered], out)
    store(builder, factor, scale, I64(0))


@vector_code
def _differentiate(builder, grad, normal, scale, out, width, bits):
    """out = factor (grad - mean(grad) - normal mean(grad normal))."""
    grads, normals = (_load(builder, address, width, bits) for address in (grad, normal))
    factor = load(builder, scale, I64(0), real_of(bits))
    shift = _mean(builder, grads, width)
    slope = _mean(builder, [builder.fmul(g, y, flags=FUSE) for g, y in zip(grads, normals, strict=True)], width)
    result = []
    for g, y in zip(grads, normals, strict=True):
        rest = builder.fsub(g, _splat(builder, shift, g))
        rest = builder.fsub(rest, builder.fmul(y, _splat(builder, slope, y), flags=FUSE), flags=FUSE)
        result.append(builder.fmul(rest, _splat(builder, factor, g)))
    _store(builder, result, out)


@lru_cache
def normalize(width: int, bits: int) -> Callable[..., None]:
    """x (n, rows, width) normalized to out, and the factors (n, rows); compiled, or read from numba's cache on disk."""
    size = bits // 8
    step = width * size

    @_compiled
    def normalize(first, last, x, out, scale):
        rows = scale.shape[1]
        for row in range(first * rows, last * rows):
            at, to = x.ctypes.data + row * step, out.ctypes.data + row * step
            _normalize(at, to, scale.ctypes.data + row * size, width, bits)

    return normalize


@lru_cache
def differentiate(width: int, bits: int) -> Callable[..., None]:
    """The gradient of the rows from number `begin` on of each (rows, width), as many as grad (n, h, width) has."""
    size = bits // 8
    step = width * size

    @_compiled
    def differentiate(first, last, begin, grad, normal, scale, out):
        rows, h = scale.shape[1], grad.shape[1]
        for i in range(first, last):
            for head in range(h):
                row = i * rows + begin + head
                _differentiate(grad.ctypes.data + (i * h + head) * step, normal.ctypes.data + row * step,
                               scale.ctypes.data + row * size, out.ctypes.data + row * step, width, bits)  # fmt: skip

    return differentiate
