"""Fused star attention on a GPU. The backward pass computes the weights again from one number per row and head."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from hodgeformer.kernels.star import StarProblem, rows_in_order

BLOCK = 32
"""Neighbors that one program loads at a time."""

READS_DIRECTIONS = False


def missing(x: Tensor) -> str | None:
    """Why this backend cannot run on x, and what to do; None if it can."""
    if find_spec("triton") is None:
        return "triton is not installed; install it with 'pip install triton', or use backend='auto'"
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if x.device.type != "cuda" and not interpreted:
        return f"it needs tensors on a cuda device, got {x.device}; move them there or use backend='auto'"
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"it runs float32, float16 and bfloat16, got {x.dtype}; use backend='reference'"
    return None


def forward(problem: StarProblem, *, needs_backward: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """out; saved are out itself and the log-sum-exp (n, h) of the scores."""
    from hodgeformer.kernels import _triton_kernels as kernels

    problem = problem.in_order()
    q, k, y, pattern = problem.q, problem.k, problem.y, problem.pattern
    n, h = q.shape[:2]
    out = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    lse = torch.empty(n, h, dtype=torch.float32, device=q.device)
    inputs = (q, q.stride(0), k, k.stride(0), y, y.stride(0))
    if n:
        kernels.forward[(n, h)](
            pattern.offsets, pattern.indices, *inputs, out, lse, *_numbers(problem), **_constants(problem)
        )
    return out, (out, lse) if needs_backward else ()


def backward(problem: StarProblem, grad: Tensor, saved: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows give dq and grad . out; columns give dk and dy."""
    from hodgeformer.kernels import _triton_kernels as kernels

    problem, grad = problem.in_order(), rows_in_order(grad)
    q, k, y, pattern = problem.q, problem.k, problem.y, problem.pattern
    (out, lse), columns = saved, pattern.transposed
    dq, dk, dy = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, y))
    if len(q) == 0:
        return dq, dk, dy
    delta = torch.empty_like(lse)
    inputs = [value for x in (grad, q, k, y) for value in (x, x.stride(0))]
    grid, numbers, constants = (len(q), q.shape[1]), _numbers(problem), _constants(problem)
    kernels.by_row[grid](pattern.offsets, pattern.indices, *inputs, out, lse, delta, dq, *numbers, **constants)
    kernels.by_column[grid](columns.offsets, columns.rows, *inputs, lse, delta, dk, dy, *numbers, **constants)
    return dq, dk, dy


def _numbers(problem: StarProblem) -> tuple[float, ...]:
    dropout = problem.dropout
    return problem.scale, dropout.key, dropout.threshold, dropout.keep_scale


def _constants(problem: StarProblem) -> dict[str, Any]:
    """The constants of each compiled form; columns are padded to a power of two."""
    (_, h, d), d_y = problem.q.shape, problem.y.shape[-1]
    widths = {"COLS": 1 << (d - 1).bit_length(), "COLS_Y": 1 << (d_y - 1).bit_length()}
    drop = problem.dropout.p > 0.0
    return {"H": h, "D": d, "DY": d_y, **widths, "BLOCK": BLOCK, "DROP": drop, "num_warps": 4}
