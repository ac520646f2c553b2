"""Over each mesh of a packed batch by itself: attention of every element at linear cost, and means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import elu

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.rows import TensorFunction


def linear_attention(
    *,
    q: Float[Tensor, "n h d_head"],
    k: Float[Tensor, "n h d_head"],
    v: Float[Tensor, "n h d_v"],
    offsets: Sequence[int],
) -> Float[Tensor, "n h d_v"]:
    """out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j), phi = elu + 1, j in i's mesh.

    Each mesh is computed on its own, so its result does not depend on its company. Only the inputs and the
    result are kept for the backward pass, which cannot itself be differentiated.
    """
    if q.ndim != 3 or k.shape != q.shape or v.shape[:2] != q.shape[:2]:
        raise BatchError(
            "expected q and k of shape (n, heads, d_head) and v of shape (n, heads, d_v), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    return _LinearAttention.of(q, k, v, _lengths(q, offsets))


def segment_mean(x: Float[Tensor, "n ..."], offsets: Sequence[int]) -> Float[Tensor, "m ..."]:
    """out_i = mean of x[offsets[i]:offsets[i + 1]]; no segment may be empty."""
    lengths = _lengths(x, offsets)
    if 0 in lengths:
        raise BatchError(f"segment {lengths.index(0)} is empty and has no mean")
    return torch.stack([part.mean(0) for part in torch.split(x, lengths)])


def _lengths(x: Tensor, offsets: Sequence[int]) -> list[int]:
    """Rows per segment, checked to cover x."""
    lengths = [last - first for first, last in pairwise(offsets)]
    if not lengths or offsets[0] != 0 or offsets[-1] != len(x) or min(lengths) < 0:
        raise BatchError(f"offsets must rise from 0 to the {len(x)} rows of x, got {offsets[:4]} ... {offsets[-1:]}")
    return lengths


class _LinearAttention(TensorFunction):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
        out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
        norm = torch.empty((*v.shape[:2], 1), dtype=v.dtype, device=v.device)
        for mesh in _meshes(lengths, q, k, v, out, norm):
            _one_mesh(*mesh)
        ctx.lengths = lengths
        ctx.save_for_backward(q, k, v, out, norm)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, norm = ctx.saved_tensors
        dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
        for mesh in _meshes(ctx.lengths, q, k, v, out, norm, grad, dq, dk, dv):
            _one_mesh_backward(*mesh)
        return dq, dk, dv, None


def _meshes(lengths: list[int], *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """For each mesh its part of every tensor, heads first: (h, n, d)."""
    return zip(*(torch.split(x.transpose(0, 1), lengths, 1) for x in tensors), strict=True)


def _phi(x: Tensor) -> Tensor:
    return elu(x).add_(1)


def _one_mesh(q: Tensor, k: Tensor, v: Tensor, out: Tensor, norm: Tensor) -> None:
    a, b = _phi(q), _phi(k)
    norm.copy_(a @ b.sum(1).unsqueeze(-1)).clamp_min_(torch.finfo(v.dtype).eps ** 2)
    out.copy_((a @ (b.mT @ v)).div_(norm))


def _one_mesh_backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, norm: Tensor, grad: Tensor, dq: Tensor, dk: Tensor, dv: Tensor
) -> None:
    """With a = phi(q), b = phi(k), S = sum b v^T, t = sum b, g = grad / norm and c = g . out:

    da = S g - c t, dS = sum a g^T, dt = -sum c a, db = dS v + dt, dv = dS^T b; and phi' = min(phi, 1).
    """
    a, b, g = _phi(q), _phi(k), grad / norm
    c = (g * out).sum(-1, keepdim=True)
    d_state = a.mT @ g
    dv.copy_(b @ d_state)
    db = (v @ d_state.mT).sub_(c.mT @ a)
    da = (g @ (b.mT @ v).mT).sub_(c * b.sum(1, keepdim=True))
    dq.copy_(da.mul_(a.clamp_max_(1)))
    dk.copy_(db.mul_(b.clamp_max_(1)))
