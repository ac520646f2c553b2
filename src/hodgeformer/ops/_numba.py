"""Fused star attention on the CPU: rows in compiled loops, no gathered keys or values, no atomics.

The softmax weights are kept for the backward pass when rows are short, otherwise computed again head by head, so
that what a long row costs stays below what its pattern costs. Gradients of k and y are sums over the columns of the
pattern in a fixed order: the result is the same to the bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hodgeformer.ops._numba_ir import GROUP
from hodgeformer.ops._numba_kernels import Kernels, kernels
from hodgeformer.ops.star_problem import StarProblem, rows_in_order, weights_are_kept
from hodgeformer.threads import for_row_ranges

MIN_ROWS = 64


def missing(x: Tensor) -> str | None:
    """What keeps this backend from running on x, and what to do; None if nothing does."""
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        return None
    return f"it runs float32 and float64 on the cpu, got {x.dtype} on {x.device}; use backend='auto', or move and cast"


def forward(problem: StarProblem, *, needs_backward: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """out, and the weights (nnz + GROUP, h) if they are to be kept; a dropped one is negative.

    The last GROUP rows are never used: whole groups are read, also at the end.
    """
    (n, h, d_head), y, nnz = problem.q.shape, problem.y, problem.pattern.nnz
    keep = needs_backward and weights_are_kept(nnz=nnz, n=n, d_head=d_head)
    weights = torch.empty(nnz + GROUP, h, dtype=y.dtype) if keep else None
    out = torch.empty(y.shape, dtype=y.dtype)
    _run_forward(problem.in_order(), out=out, weights=weights, first_head=0, n_heads=h)
    return out, () if weights is None else (weights,)


def backward(problem: StarProblem, grad: Tensor, saved: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows give ds and dq; columns sum ds into dk and the weights into dy."""
    problem, grad = problem.in_order(), rows_in_order(grad)
    dq, dk, dy = (torch.empty(x.shape, dtype=x.dtype) for x in (problem.q, problem.k, problem.y))
    if saved:
        _run_backward(problem, grad, weights=saved[0], gradients=(dq, dk, dy), first_head=0)
        return dq, dk, dy
    weights = torch.empty(problem.pattern.nnz + GROUP, 1, dtype=dq.dtype)
    for head in range(dq.shape[1]):
        _run_forward(problem, out=None, weights=weights, first_head=head, n_heads=1)
        _run_backward(problem, grad, weights=weights, gradients=(dq, dk, dy), first_head=head)
    return dq, dk, dy


def _run_forward(
    problem: StarProblem, *, out: Tensor | None, weights: Tensor | None, first_head: int, n_heads: int
) -> None:
    """Fill out and weights for a range of heads; either may be left out."""
    pattern, dropout = problem.pattern, problem.dropout
    _run(
        _compiled(problem, n_heads).forward,
        len(pattern),
        *_addresses(pattern.offsets, pattern.indices),
        *_addresses_and_steps(problem.q, problem.k, problem.y, out),
        *(*_addresses(weights), first_head, problem.scale, dropout.key, dropout.threshold, dropout.keep_scale),
    )


def _run_backward(
    problem: StarProblem, grad: Tensor, *, weights: Tensor, gradients: tuple[Tensor, Tensor, Tensor], first_head: int
) -> None:
    """Fill the gradients of the heads whose weights are given."""
    (dq, dk, dy), pattern, columns = gradients, problem.pattern, problem.pattern.transposed
    compiled = _compiled(problem, weights.shape[1])
    ds = torch.empty(weights.shape, dtype=weights.dtype)
    shared = (*_addresses(weights, ds), first_head, problem.scale, problem.dropout.keep_scale)
    _run(
        compiled.by_row,
        len(pattern),
        *_addresses(pattern.offsets, pattern.indices),
        *_addresses_and_steps(grad, problem.k, problem.y, dq),
        *shared,
    )
    _run(
        compiled.by_column,
        len(pattern),
        *_addresses(columns.offsets, columns.rows, columns.entries),
        *_addresses_and_steps(grad, problem.q, dk, dy),
        *shared,
    )


def _compiled(problem: StarProblem, n_heads: int) -> Kernels:
    return kernels(problem.q.shape[-1], problem.y.shape[-1], n_heads, 8 * problem.q.element_size())


def _run(kernel: Callable[..., None], n_rows: int, *arguments: float) -> None:
    for_row_ranges(
        lambda first, last: kernel(first, last, *arguments),
        n_rows,
        n_threads=torch.get_num_threads(),
        min_rows=MIN_ROWS,
    )


def _addresses(*tensors: Tensor | None) -> list[int]:
    return [0 if x is None else x.data_ptr() for x in tensors]


def _addresses_and_steps(*tensors: Tensor | None) -> list[int]:
    """Address and bytes from one row to the next, for each."""
    steps = [0 if x is None else x.stride(0) * x.element_size() for x in tensors]
    return [value for pair in zip(_addresses(*tensors), steps, strict=True) for value in pair]
