"""Fused star attention on the CPU: rows in compiled loops, no gathered keys or values, no atomics.

The softmax weights are kept for the backward pass when rows are short (SAVE_UP_TO), otherwise computed again
head by head, so that what a long row costs stays below what its pattern costs. Gradients of k and y are sums
over the columns of the pattern in a fixed order: the result is the same to the bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hodgeformer.containers import SparsityPattern
from hodgeformer.ops._dropout import Dropout
from hodgeformer.ops._layout import rows_in_order
from hodgeformer.ops._numba_kernels import Kernels, kernels
from hodgeformer.ops._numba_rows import GROUP
from hodgeformer.threads import for_row_ranges

SAVE_UP_TO = 3.0
"""Weights are saved while a row has at most this many times d_head neighbors: no more than q, k and y hold."""
MIN_ROWS = 64


def missing(x: Tensor) -> str | None:
    """What keeps this backend from running on x, and what to do; None if nothing does."""
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        return None
    return f"it runs float32 and float64 on the cpu, got {x.dtype} on {x.device}; use backend='auto', or move and cast"


def forward(
    *,
    q: Tensor,
    k: Tensor,
    y: Tensor,
    pattern: SparsityPattern[Tensor],
    dropout: Dropout,
    needs_backward: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """out, and the weights (nnz + GROUP, h) if they are to be kept; a dropped one is negative.

    The last GROUP rows are never used: whole groups are read, also at the end.
    """
    inputs = _Inputs(rows_in_order(q), rows_in_order(k), rows_in_order(y), pattern, dropout)
    n, h, d_head = q.shape
    keep = needs_backward and pattern.nnz <= SAVE_UP_TO * d_head * n
    weights = torch.empty(pattern.nnz + GROUP, h, dtype=q.dtype) if keep else None
    out = torch.empty(y.shape, dtype=y.dtype)
    inputs.run_forward(out=out, weights=weights, first_head=0, n_heads=h)
    return out, () if weights is None else (weights,)


def backward(
    *,
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    y: Tensor,
    pattern: SparsityPattern[Tensor],
    dropout: Dropout,
    saved: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows give ds and dq; columns sum ds into dk and the weights into dy."""
    inputs = _Inputs(rows_in_order(q), rows_in_order(k), rows_in_order(y), pattern, dropout)
    grad, h = rows_in_order(grad), q.shape[1]
    dq, dk, dy = (torch.empty(x.shape, dtype=x.dtype) for x in (q, k, y))
    if saved:
        inputs.run_backward(grad, weights=saved[0], gradients=(dq, dk, dy), first_head=0)
        return dq, dk, dy
    weights = torch.empty(pattern.nnz + GROUP, 1, dtype=q.dtype)
    for head in range(h):
        inputs.run_forward(out=None, weights=weights, first_head=head, n_heads=1)
        inputs.run_backward(grad, weights=weights, gradients=(dq, dk, dy), first_head=head)
    return dq, dk, dy


@dataclass(frozen=True, slots=True)
class _Inputs:
    q: Tensor
    k: Tensor
    y: Tensor
    pattern: SparsityPattern[Tensor]
    dropout: Dropout

    @property
    def scale(self) -> float:
        return float(self.q.shape[-1] ** -0.5)

    def compiled(self, n_heads: int) -> Kernels:
        return kernels(self.q.shape[-1], self.y.shape[-1], n_heads, 8 * self.q.element_size())

    def run_forward(self, *, out: Tensor | None, weights: Tensor | None, first_head: int, n_heads: int) -> None:
        """Fill out and weights for a range of heads; either may be left out."""
        drop = (self.dropout.key, self.dropout.threshold, self.dropout.keep_scale)
        self._run(
            self.compiled(n_heads).forward,
            *_addresses(self.pattern.offsets, self.pattern.indices),
            *_addresses_and_steps(self.q, self.k, self.y, out),
            *(*_addresses(weights), first_head, self.scale, *drop),
        )

    def run_backward(
        self, grad: Tensor, *, weights: Tensor, gradients: tuple[Tensor, Tensor, Tensor], first_head: int
    ) -> None:
        """Fill the gradients of the heads whose weights are given."""
        (dq, dk, dy), columns = gradients, self.pattern.transposed
        compiled = self.compiled(weights.shape[1])
        ds = torch.empty(weights.shape, dtype=weights.dtype)
        shared = (*_addresses(weights, ds), first_head, self.scale, self.dropout.keep_scale)
        self._run(
            compiled.by_row,
            *_addresses(self.pattern.offsets, self.pattern.indices),
            *_addresses_and_steps(grad, self.k, self.y, dq),
            *shared,
        )
        self._run(
            compiled.by_column,
            *_addresses(columns.offsets, columns.rows, columns.entries),
            *_addresses_and_steps(grad, self.q, dk, dy),
            *shared,
        )

    def _run(self, kernel: Callable[..., None], *arguments: float) -> None:
        for_row_ranges(
            lambda first, last: kernel(first, last, *arguments),
            len(self.pattern),
            n_threads=torch.get_num_threads(),
            min_rows=MIN_ROWS,
        )


def _addresses(*tensors: Tensor | None) -> list[int]:
    return [0 if x is None else x.data_ptr() for x in tensors]


def _addresses_and_steps(*tensors: Tensor | None) -> list[int]:
    """Address and bytes from one row to the next, for each."""
    steps = [0 if x is None else x.stride(0) * x.element_size() for x in tensors]
    return [value for pair in zip(_addresses(*tensors), steps, strict=True) for value in pair]
