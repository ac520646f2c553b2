"""Dropout without a stored mask, and where its randomness comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hodgeformer.ops._compiled import TensorFunction, compiled_for, run_rows


def drawn_seed() -> int:
    """A seed for dropout in a kernel, from torch's CPU generator: restoring its state repeats the run."""
    return int(torch.randint(2**62, ()))


def relu_dropout(x: Float[Tensor, "n d"], p: float) -> Float[Tensor, "n d"]:
    """dropout(relu(x)), written over x. Keeps its output alone, which the next layer keeps anyway."""
    if p == 0.0 or not compiled_for(x):
        return functional.dropout(functional.relu(x, inplace=True), p)
    return _ReluDropout.of(x, p, drawn_seed())


def dropout(x: Float[Tensor, "n d"], p: float) -> Float[Tensor, "n d"]:
    """x with each element set to zero with probability p, the others divided by 1 - p."""
    return x * relu_dropout(torch.ones_like(x), p) if p else x


class _ReluDropout(TensorFunction):
    """Where the output is zero, by sign or by chance, no gradient passes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.mark_dirty(x)
        ctx.scale = 1 / (1 - p)
        key, threshold = np.uint32(seed & 0xFFFFFFFF), np.uint32(round(p * 2**32))
        run_rows(_drop, len(x), x, key, threshold, ctx.scale)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        result = torch.empty_like(out)
        run_rows(_pass_back, len(out), grad.contiguous(), out, result, ctx.scale)
        return result, None, None


def _drop(first, last, x, key, threshold, scale):  # type: ignore[no-untyped-def]
    """Element (i, c) is dropped where a hash of (key, i, c) falls below the threshold, or it is not positive.

    In place: a loop over two arrays that may be one and the same is not vectorized. Written so that what is not a
    number stays so: a run that diverges must show it.
    """
    factor, zero = x.dtype.type(scale), x.dtype.type(0)
    for i in range(first, last):
        row = x[i]
        row_key = np.uint32(key ^ np.uint32(i) * np.uint32(0x9E3779B9))
        row_key = np.uint32((row_key ^ (row_key >> np.uint32(16))) * np.uint32(0x7FEB352D))
        for c in range(row.size):
            h = np.uint32(row_key ^ np.uint32(c) * np.uint32(0x85EBCA6B))
            h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
            h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
            h = np.uint32(h ^ (h >> np.uint32(16)))
            row[c] = zero if (h < threshold) | (row[c] <= zero) else row[c] * factor


def _pass_back(first, last, grad, out, result, scale):  # type: ignore[no-untyped-def]
    factor, zero = grad.dtype.type(scale), grad.dtype.type(0)
    for i in range(first, last):
        g, y, target = grad[i], out[i], result[i]
        for c in range(g.size):
            target[c] = zero if y[c] == zero else g[c] * factor
