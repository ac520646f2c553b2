"""LayerNorm without scale and bias, as in the paper.

Its gradient needs only its output, which the next layer keeps anyway: dx = (g - mean(g) - y mean(g y)) / deviation.
So it costs no memory of its own, where the usual one keeps its input as well.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hodgeformer.ops._compiled import compiled_for, run_rows

EPSILON = 1e-5


def normalized(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """(x - mean) / deviation over the last axis."""
    (out,) = normalized_parts(x[:, None, None])
    return out.view(x.shape)


def normalized_parts(x: Float[Tensor, "n parts h d"]) -> tuple[Float[Tensor, "n h d"], ...]:
    """The parts of x one by one, normalized over the last axis; their gradients meet without another copy."""
    if not compiled_for(x):
        return functional.layer_norm(x, x.shape[-1:], eps=EPSILON).unbind(1)
    return cast(tuple[Tensor, ...], _Normalized.apply(x))  # type: ignore[no-untyped-call]


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        scale = torch.empty(x.shape[:-1], dtype=x.dtype)
        run_rows(_normalize, len(x), x.contiguous(), out, scale, fastmath=("fast",))
        ctx.save_for_backward(out, scale)
        return out.unbind(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        out, scale = ctx.saved_tensors
        result = torch.empty_like(out)
        for part, grad in enumerate(grads):
            run_rows(_differentiate, len(out), part, grad.contiguous(), out, scale, result, fastmath=("fast",))
        return result


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
