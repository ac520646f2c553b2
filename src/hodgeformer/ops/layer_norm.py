"""LayerNorm without scale and bias, as in the paper.

Its gradient needs only its output, which the next layer keeps anyway: dx = (g - mean(g) - y mean(g y)) / deviation.
So it costs no memory of its own, where the usual one keeps its input as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hodgeformer.threads import for_row_ranges

EPSILON = 1e-5


def normalized(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """(x - mean) / deviation over the last axis."""
    if not compiled_for(x):
        return functional.layer_norm(x, x.shape[-1:], eps=EPSILON)
    (out,) = _Normalized.apply(x.view(len(x), 1, 1, -1))  # type: ignore[no-untyped-call]
    return out.view(x.shape)  # type: ignore[no-any-return]


def normalized_parts(x: Float[Tensor, "n parts h d"]) -> tuple[Float[Tensor, "n h d"], ...]:
    """The parts of x one by one, normalized over the last axis; their gradients meet without another copy."""
    if not compiled_for(x):
        return functional.layer_norm(x, x.shape[-1:], eps=EPSILON).unbind(1)
    parts: tuple[Tensor, ...] = _Normalized.apply(x)  # type: ignore[no-untyped-call]
    return parts


def compiled_for(x: Tensor) -> bool:
    """Whether the compiled loops of this folder can run; PyTorch's own operations serve everything else."""
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not traced


def run_rows(kernel: Callable[..., None], n_rows: int, *arguments: Any) -> None:
    """kernel(first, last, *arguments) over all rows, in torch's number of threads."""
    arrays = [value.detach().numpy() if isinstance(value, Tensor) else value for value in arguments]
    for_row_ranges(lambda first, last: kernel(first, last, *arrays), n_rows, n_threads=torch.get_num_threads())


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        scale = torch.empty(x.shape[:-1], dtype=x.dtype)
        run_rows(_forward_kernel(8 * x.element_size()), len(x), x.contiguous(), out, scale)
        ctx.save_for_backward(out, scale)
        return out.unbind(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        out, scale = ctx.saved_tensors
        result = torch.empty_like(out)
        for part, grad in enumerate(grads):
            kernel = _backward_kernel(8 * out.element_size())
            run_rows(kernel, len(out), part, grad.contiguous(), out, scale, result)
        return result


@lru_cache
def _forward_kernel(bits: int) -> Callable[..., None]:
    from numba import njit, types

    real = types.float32 if bits == 32 else types.float64
    row = types.int64
    signature = types.void(row, row, *2 * (types.Array(real, 4, "C"),), types.Array(real, 3, "C"))
    compiled: Callable[..., None] = njit(signature, nogil=True, cache=True, fastmath=True)(_normalize)
    return compiled


@lru_cache
def _backward_kernel(bits: int) -> Callable[..., None]:
    from numba import njit, types

    real = types.float32 if bits == 32 else types.float64
    row, three, four = types.int64, types.Array(real, 3, "C"), types.Array(real, 4, "C")
    signature = types.void(row, row, types.int64, three, four, three, four)
    compiled: Callable[..., None] = njit(signature, nogil=True, cache=True, fastmath=True)(_differentiate)
    return compiled


def _normalize(first, last, x, out, scale):  # type: ignore[no-untyped-def]
    width = x.dtype.type(x.shape[3])
    for i in range(first, last):
        for part in range(x.shape[1]):
            for head in range(x.shape[2]):
                row, target = x[i, part, head], out[i, part, head]
                total = x.dtype.type(0)
                for c in range(row.size):
                    total += row[c]
                mean = total / width
                square = x.dtype.type(0)
                for c in range(row.size):
                    square += (row[c] - mean) * (row[c] - mean)
                factor = x.dtype.type(1) / np.sqrt(square / width + x.dtype.type(EPSILON))
                for c in range(row.size):
                    target[c] = (row[c] - mean) * factor
                scale[i, part, head] = factor


def _differentiate(first, last, part, grad, out, scale, result):  # type: ignore[no-untyped-def]
    width = grad.dtype.type(grad.shape[2])
    for i in range(first, last):
        for head in range(grad.shape[1]):
            g, y, target = grad[i, head], out[i, part, head], result[i, part, head]
            total = product = grad.dtype.type(0)
            for c in range(g.size):
                total += g[c]
                product += g[c] * y[c]
            total, product, factor = total / width, product / width, scale[i, part, head]
            for c in range(g.size):
                target[c] = factor * (g[c] - total - y[c] * product)
