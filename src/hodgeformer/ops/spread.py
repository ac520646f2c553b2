"""y = (M + t L)^-1 M x: values spread over a surface by an implicit step of heat, each group of channels for its time.

The matrix is symmetric, so the gradient is the same solve: x = M (M + t L)^-1 g. Nothing is iterated and nothing is
dense: two passes over the entries of a sparse triangular factor, with channels side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from hodgeformer.errors import BatchError
from hodgeformer.ops._compiled import TensorFunction, run_rows


@dataclass(frozen=True, eq=False)
class Factor:
    """M and the L D L^T of M + t L for every time, in the order of elimination.

    `order[i]` is the row of x that is eliminated as number i. Column j of the triangle, below its diagonal of ones:
    rows[offsets[j]:offsets[j + 1]] with one value per time; `pivots` are one over D.
    """

    masses: Float[Tensor, " n"]
    order: Int[Tensor, " n"]
    offsets: Int[Tensor, " n_and_one"]
    rows: Int[Tensor, " nnz"]
    values: Float[Tensor, "nnz times"]
    pivots: Float[Tensor, "n times"]

    @property
    def n_times(self) -> int:
        return self.pivots.shape[1]

    def map(self, fn: Callable[[Tensor], Tensor]) -> Factor:
        return Factor(*(fn(getattr(self, field.name)) for field in fields(self)))


def spread(x: Float[Tensor, "n times d"], factor: Factor) -> Float[Tensor, "n times d"]:
    """(M + t L)^-1 M x, x[:, k] with time number k. Solved on the CPU wherever x lies."""
    if x.ndim != 3 or x.shape[:2] != factor.pivots.shape:
        raise BatchError(f"spreading needs (n, times, channels) = {tuple(factor.pivots.shape)} + (d,), got {x.shape}")
    return _Spread.of(x, factor)


class _Spread(TensorFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Factor) -> Tensor:
        ctx.factor = factor
        return _solved(x * factor.masses[:, None, None].to(x), factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _solved(grad, ctx.factor) * ctx.factor.masses[:, None, None].to(grad), None


def _solved(x: Tensor, factor: Factor) -> Tensor:
    """(M + t L)^-1 x, in float32 or float64."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    right, factor = x.detach().to("cpu", dtype).contiguous(), factor.map(lambda tensor: tensor.cpu())
    out, work = torch.empty_like(right), torch.empty_like(right)
    reals = [t.to(dtype).contiguous() for t in (factor.values, factor.pivots)]
    lists = (factor.order, factor.offsets, factor.rows)
    run_rows(_solve, factor.n_times, *lists, *reals, right, work, out, fastmath=("contract",), min_rows=1)
    return out.to(x)


def _solve(first, last, order, offsets, rows, values, pivots, x, work, out):  # type: ignore[no-untyped-def]
    """Down the triangle and up again, for the times first <= k < last."""
    n, width = len(order), x.shape[2]
    for i in range(n):
        for k in range(first, last):
            for c in range(width):
                work[i, k, c] = x[order[i], k, c]
    for j in range(n):
        for p in range(offsets[j], offsets[j + 1]):
            row = rows[p]
            for k in range(first, last):
                value = values[p, k]
                for c in range(width):
                    work[row, k, c] -= value * work[j, k, c]
    for j in range(n - 1, -1, -1):
        for k in range(first, last):
            pivot = pivots[j, k]
            for c in range(width):
                work[j, k, c] *= pivot
        for p in range(offsets[j], offsets[j + 1]):
            row = rows[p]
            for k in range(first, last):
                value = values[p, k]
                for c in range(width):
                    work[j, k, c] -= value * work[row, k, c]
        for k in range(first, last):
            for c in range(width):
                out[order[j], k, c] = work[j, k, c]
