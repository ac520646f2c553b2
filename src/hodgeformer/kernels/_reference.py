"""Star attention in plain PyTorch, a block of rows at a time: slow but short, and the reference for tests."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hodgeformer.base.containers import SparsityPattern
from hodgeformer.kernels.star import Dropout, StarProblem

BLOCK_ELEMENTS = 1 << 22
"""Most elements in the gathered keys of one block of rows: 16 MB in float32."""

READS_DIRECTIONS = False


def missing(x: Tensor) -> str | None:
    """None: this backend can always run."""
    return None


def forward(problem: StarProblem, *, needs_backward: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """out_i = sum over j in S_i of weight_ij y_j; the backward pass computes the weights again."""
    q, k, y = problem.q, problem.k, problem.y
    out = torch.empty_like(y, memory_format=torch.contiguous_format)
    for rows, neighbors, valid in row_blocks(problem.pattern, width=max(k[:1].numel(), y[:1].numel())):
        weights, _, _ = _block_weights(q, k, rows, neighbors, valid, problem.dropout)
        out[rows] = torch.einsum("nsh,nshd->nhd", weights, _wide(y[neighbors])).to(y.dtype)
    return out, ()


def backward(problem: StarProblem, grad: Tensor, saved: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """ds_ij = p_ij (keep_ij grad_i . y_j - sum over l of weight_il grad_i . y_l), summed into q, k and y."""
    q, k, y = problem.q, problem.k, problem.y
    dq, dk, dy = (torch.zeros_like(_wide(x), memory_format=torch.contiguous_format) for x in (q, k, y))
    for rows, neighbors, valid in row_blocks(problem.pattern, width=max(k[:1].numel(), y[:1].numel())):
        weights, softmax, kept = _block_weights(q, k, rows, neighbors, valid, problem.dropout)
        g, flat = _wide(grad[rows]), neighbors.flatten()
        dweights = torch.einsum("nhd,nshd->nsh", g, _wide(y[neighbors]))
        mean = (weights * dweights).sum(1, keepdim=True)
        ds = softmax * (dweights * kept - mean) * problem.scale
        dq[rows] = torch.einsum("nsh,nshd->nhd", ds, _wide(k[neighbors]))
        dk.index_add_(0, flat, (ds.unsqueeze(-1) * _wide(q[rows]).unsqueeze(1)).flatten(0, 1))
        dy.index_add_(0, flat, (weights.unsqueeze(-1) * g.unsqueeze(1)).flatten(0, 1))
    return dq.to(q.dtype), dk.to(k.dtype), dy.to(y.dtype)


def softmax_entries(q: Tensor, k: Tensor, pattern: SparsityPattern[Tensor]) -> Tensor:
    """The softmax weight of every entry of the pattern, in its order: (nnz, h)."""
    none = Dropout.of(0.0, 0)
    blocks = [
        _block_weights(q, k, rows, neighbors, valid, none)[1][valid]
        for rows, neighbors, valid in row_blocks(pattern, width=k[:1].numel())
    ]
    return torch.cat(blocks) if blocks else q.new_empty(0, q.shape[1])


def row_blocks(pattern: SparsityPattern[Tensor], *, width: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Slices of rows with their neighbors (n, s) padded to the longest row, and which of them are real."""
    n, offsets = len(pattern), pattern.offsets
    if n == 0:
        return
    longest = int((offsets[1:] - offsets[:-1]).max())
    step = max(1, BLOCK_ELEMENTS // (longest * width))
    slots = torch.arange(longest, device=offsets.device)
    for first in range(0, n, step):
        rows = slice(first, min(n, first + step))
        begin, end = offsets[:-1][rows, None], offsets[1:][rows, None]
        valid = begin + slots < end
        yield rows, pattern.indices[torch.minimum(begin + slots, end - 1)].long(), valid


def _block_weights(
    q: Tensor, k: Tensor, rows: slice, neighbors: Tensor, valid: Tensor, dropout: Dropout
) -> tuple[Tensor, Tensor, Tensor]:
    """After dropout, before dropout, and the factor between them: each (rows, s, h)."""
    scores = torch.einsum("nhd,nshd->nsh", _wide(q[rows]), _wide(k[neighbors])) * q.shape[-1] ** -0.5
    softmax = scores.masked_fill(~valid.unsqueeze(-1), -torch.inf).softmax(1)
    if dropout.p == 0.0:
        return softmax, softmax, torch.ones_like(softmax)
    numbers = torch.arange(rows.start, rows.stop, device=q.device).unsqueeze(-1)
    kept = dropout.kept(rows=numbers, neighbors=neighbors, n_heads=q.shape[1]).to(softmax.dtype)
    return softmax * kept, softmax, kept


def _wide(x: Tensor) -> Tensor:
    """Half precision is for storage; sums use float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
