# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, untyped-decorator"
"""Fused star attention on the CPU: compiled loops over rows, without gathered keys or values and without atomics.

If rows are short, the softmax weights are kept for the backward pass. Otherwise they are recomputed head by head, so
they never need more memory than the pattern. Gradients of k and y are sums over the columns of the pattern in a fixed
order, so the result is bit-identical for any number of threads. Weights and ds are stored as (entry, head), so a column
finds all heads of an entry in one place; a dropped weight is negative. The signs of a signed star are recomputed in
every pass, because three numbers of a neighbor are less to read than one weight per head.

Loops index whole arrays: a slice inside a loop would count references, which waits for all pending stores (a tenth of
the time).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hodgeformer.base.compiled import njit
from hodgeformer.kernels._numba_ir import GROUP, dot_rows, softmax_gradient, softmax_terms, sum_rows
from hodgeformer.kernels.rows import run_compiled
from hodgeformer.kernels.star import HEAD_STEP, MIX_A, MIX_B, StarProblem, rows_in_order, weights_are_kept

_compiled = njit(nogil=True, cache=True, error_model="numpy")

READS_DIRECTIONS = True


def missing(x: Tensor) -> str | None:
    """Why this backend cannot run on x, and what to do; None if it can."""
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        return None
    return f"it runs float32 and float64 on the cpu, got {x.dtype} on {x.device}; use backend='auto', or move and cast"


def forward(problem: StarProblem, *, needs_backward: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """out, and the weights (nnz, h) if the backward pass needs them."""
    (n, h, d_head), y, nnz = problem.q.shape, problem.y, problem.pattern.nnz
    keep = needs_backward and weights_are_kept(nnz=nnz, n=n, d_head=d_head)
    weights = torch.empty(nnz if keep else 0, h, dtype=y.dtype)
    out = torch.empty(y.shape, dtype=y.dtype)
    _run_forward(problem.in_order(), out=out, weights=weights, first_head=0)
    return out, (weights,) if keep else ()


def backward(problem: StarProblem, grad: Tensor, saved: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows give ds and dq; columns sum ds into dk and the weights into dy."""
    problem, grad = problem.in_order(), rows_in_order(grad)
    dq, dk, dy = (torch.empty(x.shape, dtype=x.dtype) for x in (problem.q, problem.k, problem.y))
    if saved:
        _run_backward(problem, grad, weights=saved[0], gradients=(dq, dk, dy), first_head=0)
        return dq, dk, dy
    weights = torch.empty(problem.pattern.nnz, 1, dtype=dq.dtype)
    for head in range(dq.shape[1]):
        _run_forward(problem, out=None, weights=weights, first_head=head)
        _run_backward(problem, grad, weights=weights, gradients=(dq, dk, dy), first_head=head)
    return dq, dk, dy


def _run_forward(problem: StarProblem, *, out: Tensor | None, weights: Tensor, first_head: int) -> None:
    """Write `out`, and the weights of as many heads as `weights` has columns; either may be missing."""
    pattern, dropout = problem.pattern, problem.dropout
    rows = _addresses_and_steps(problem.q, problem.k, problem.y, out)
    numbers = (first_head, problem.scale, dropout.key, dropout.threshold, dropout.keep_scale)
    given = pattern.indices, *rows, _directions(problem), weights.flatten(), _room(problem, weights), *numbers
    _run(problem, _forward(*_shape(problem, weights)), pattern.offsets, *given)


def _run_backward(
    problem: StarProblem, grad: Tensor, *, weights: Tensor, gradients: tuple[Tensor, Tensor, Tensor], first_head: int
) -> None:
    """Write the gradients of the heads whose weights are given."""
    (dq, dk, dy), pattern, columns = gradients, problem.pattern, problem.pattern.transposed
    shape, flat = _shape(problem, weights), weights.flatten()
    # The saved weights are not changed: the backward pass may run twice.
    ds, with_signs = torch.empty_like(flat), flat if problem.directions is None else torch.empty_like(flat)
    numbers = (first_head, problem.scale, problem.dropout.keep_scale)
    rows = _addresses_and_steps(grad, problem.k, problem.y, dq)
    given = pattern.indices, *rows, _directions(problem), flat, with_signs, ds, _room(problem, weights), *numbers
    _run(problem, _by_row(*shape), pattern.offsets, *given)
    rows = _addresses_and_steps(grad, problem.q, dk, dy)
    _run(problem, _by_column(*shape), columns.offsets, columns.rows, columns.entries, *rows, with_signs, ds, *numbers)


def _shape(problem: StarProblem, weights: Tensor) -> tuple[int, int, int, int, bool]:
    signed = problem.directions is not None
    return problem.q.shape[-1], problem.y.shape[-1], weights.shape[1], 8 * weights.element_size(), signed


def _directions(problem: StarProblem) -> Tensor:
    u = problem.directions
    return problem.y.new_empty(0, 3) if u is None else u.to(problem.y).contiguous()


def _room(problem: StarProblem, weights: Tensor) -> int:
    """Space for the terms of the longest row, padded to whole groups, or for one number per head."""
    longest = int(problem.pattern.offsets.diff().max()) if len(problem.pattern) else 0
    return max(-(-longest // GROUP) * GROUP, weights.shape[1])


def _run(problem: StarProblem, kernel: Callable[..., None], offsets: Tensor, *arguments: Any) -> None:
    """The kernel over all rows of the pattern (or columns), with tensors as arrays."""
    (_, h, d_head), d_y = problem.k.shape, problem.y.shape[2]
    read = problem.pattern.nnz * h * (d_head + d_y)
    run_compiled(kernel, len(offsets) - 1, offsets, *arguments, numbers=read / 3)  # most of them come from the cache


def _addresses_and_steps(*tensors: Tensor | None) -> list[int]:
    """Address and bytes from one row to the next, for each."""
    pairs = [(0, 0) if x is None else (x.data_ptr(), x.stride(0) * x.element_size()) for x in tensors]
    return [value for pair in pairs for value in pair]


@lru_cache
def _forward(d: int, d_y: int, n_heads: int, bits: int, signed: bool) -> Callable[..., None]:
    """Compiled on first use for a head width, number of heads and precision, or read from numba's cache on disk."""
    real, size, clip = np.dtype(f"f{bits // 8}").type, bits // 8, 0 if signed else 1

    @_compiled
    def forward(
        first, last, offsets, indices, q, q_step, k, k_step, y, y_step, out, out_step,
        directions, weights, room, first_head, scale, key, threshold, keep_scale,
    ):  # fmt: skip
        """out_i = sum(w_ij y_j), and the weights if there is an array for them."""
        terms, near = np.empty((n_heads + 2, room), real), np.empty(room, np.uint32)
        signs, factors = terms[n_heads], terms[n_heads + 1]
        at_terms, at_near, at_factors = terms.ctypes.data, near.ctypes.data, factors.ctypes.data
        for i in range(first, last):
            begin, count, padded = _copy_padded(offsets, indices, i, near)
            for head in range(n_heads):
                column = (first_head + head) * d * size
                dot_rows(q + i * q_step + column, scale, k + column, k_step, at_near, padded,
                         at_terms + head * room * size, d, bits)  # fmt: skip
            for head in range(n_heads):
                softmax_terms(at_terms + head * room * size, count, padded, at_factors + head * size, bits)
                if threshold > 0:
                    _negate_dropped(terms, head, near, padded, key, i, first_head + head, threshold)
            if len(weights) > 0:
                for t in range(count):
                    for head in range(n_heads):
                        weights[(begin + t) * n_heads + head] = terms[head, t] * factors[head]
            if out != 0:
                if signed:
                    _compare_directions(directions, i, near, count, signs)
                    _multiply_kept(terms, n_heads, signs, count)
                for head in range(n_heads):
                    at, column = at_terms + head * room * size, (first_head + head) * d_y * size
                    to, factor = out + i * out_step + column, factors[head] * keep_scale
                    sum_rows(at, 0, 0, at_near, count, y + column, y_step, factor, to, d_y, bits, clip)

    return forward


@lru_cache
def _by_row(d: int, d_y: int, n_heads: int, bits: int, signed: bool) -> Callable[..., None]:
    real, size = np.dtype(f"f{bits // 8}").type, bits // 8

    @_compiled
    def by_row(
        first, last, offsets, indices, grad, grad_step, k, k_step, y, y_step, dq, dq_step,
        directions, weights, with_signs, ds, room, first_head, scale, keep_scale,
    ):  # fmt: skip
        """dw_ij = grad_i . y_j (u_i . u_j), ds_ij = w_ij dw_ij - p_ij sum(w dw), dq_i = scale sum(ds_ij k_j)."""
        terms, p, near = np.empty((n_heads + 1, room), real), np.empty((n_heads, room), real), np.empty(room, np.uint32)
        at_terms, at_p, at_near, signs = terms.ctypes.data, p.ctypes.data, near.ctypes.data, terms[n_heads]
        for i in range(first, last):
            begin, count, padded = _copy_padded(offsets, indices, i, near)
            for head in range(n_heads):
                column = (first_head + head) * d_y * size
                dot_rows(grad + i * grad_step + column, keep_scale, y + column, y_step, at_near, padded,
                         at_terms + head * room * size, d_y, bits)  # fmt: skip
            for t in range(count):
                for head in range(n_heads):
                    p[head, t] = weights[(begin + t) * n_heads + head]
            if signed:
                _compare_directions(directions, i, near, count, signs)
                for t in range(count):
                    for head in range(n_heads):
                        terms[head, t] *= signs[t]
                        with_signs[(begin + t) * n_heads + head] = max(p[head, t], real(0)) * signs[t]
            for head in range(n_heads):
                at = head * room * size
                softmax_gradient(at_terms + at, at_p + at, count, padded, bits)
            for t in range(count):
                for head in range(n_heads):
                    ds[(begin + t) * n_heads + head] = terms[head, t]
            for head in range(n_heads):
                at, column = at_terms + head * room * size, (first_head + head) * d * size
                to = dq + i * dq_step + column
                sum_rows(at, 0, 0, at_near, count, k + column, k_step, scale, to, d, bits, 0)

    return by_row


@lru_cache
def _by_column(d: int, d_y: int, n_heads: int, bits: int, signed: bool) -> Callable[..., None]:
    size, clip = bits // 8, 0 if signed else 1

    @_compiled
    def by_column(
        first, last, offsets, rows, entries, grad, grad_step, q, q_step, dk, dk_step, dy, dy_step,
        weights, ds, first_head, scale, keep_scale,
    ):  # fmt: skip
        """dk_j = scale sum(ds_ij q_i) and dy_j = sum(w_ij grad_i), over the rows i that contain j."""
        at_weights, at_ds = weights.ctypes.data, ds.ctypes.data
        for j in range(first, last):
            begin, count = offsets[j], offsets[j + 1] - offsets[j]
            near, places = rows.ctypes.data + 4 * begin, entries.ctypes.data + 8 * begin
            for head in range(n_heads):
                column, at = (first_head + head) * d * size, at_ds + head * size
                to = dk + j * dk_step + column
                sum_rows(at, places, n_heads, near, count, q + column, q_step, scale, to, d, bits, 0)
            for head in range(n_heads):
                column, at = (first_head + head) * d_y * size, at_weights + head * size
                to = dy + j * dy_step + column
                sum_rows(at, places, n_heads, near, count, grad + column, grad_step, keep_scale, to, d_y, bits, clip)

    return by_column


@njit(inline="always")
def _copy_padded(offsets, indices, i, near):
    """Copy the indices of row i, the last one repeated to fill a group: their start, number and padded number."""
    begin, count = offsets[i], offsets[i + 1] - offsets[i]
    padded = (count + GROUP - 1) // GROUP * GROUP
    for t in range(padded):
        near[t] = indices[begin + min(t, count - 1)]
    return begin, count, padded


@njit(inline="always")
def _compare_directions(directions, i, near, count, signs):
    """signs[t] = u_i . u_j for every neighbor j."""
    x, y, z = directions[i]
    for t in range(count):
        j = near[t]
        signs[t] = x * directions[j, 0] + y * directions[j, 1] + z * directions[j, 2]


@njit(inline="always")
def _multiply_kept(terms, n_heads, signs, count):
    """Multiply what dropout kept by its sign, and set the rest (which is negative) to zero."""
    for head in range(n_heads):
        for t in range(count):
            terms[head, t] = max(terms[head, t], terms.dtype.type(0)) * signs[t]


@njit(inline="always")
def _negate_dropped(terms, slot, near, padded, key, row, head, threshold):
    """Flip the sign of what dropout removes, so that one number per entry serves the backward pass."""
    row_key, head_key = _mix(np.uint32(key ^ row)), np.uint32(head * HEAD_STEP)
    for t in range(padded):
        dropped = _mix(_mix(row_key ^ near[t]) ^ head_key) < np.uint32(threshold)
        terms[slot, t] = -terms[slot, t] if dropped else terms[slot, t]


@njit()
def _mix(x):
    """The hash of star.py, in 32 bits."""
    x = np.uint32(x ^ x >> np.uint32(16))
    x = np.uint32(x * np.uint32(MIX_A))
    x = np.uint32(x ^ x >> np.uint32(15))
    x = np.uint32(x * np.uint32(MIX_B))
    return np.uint32(x ^ x >> np.uint32(16))
