"""Attention of every element over its whole mesh, at linear cost."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import elu

from hodgeformer.errors import BatchError
from hodgeformer.ops.segment import segment_lengths


def linear_attention(
    *,
    q: Float[Tensor, "n h d_head"],
    k: Float[Tensor, "n h d_head"],
    v: Float[Tensor, "n h d_v"],
    offsets: Int[Tensor, " m_and_one"],
) -> Float[Tensor, "n h d_v"]:
    """out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j), phi = elu + 1, j in i's mesh."""
    if q.ndim != 3 or k.shape != q.shape or v.shape[:2] != q.shape[:2]:
        raise BatchError(
            "expected q and k of shape (n, heads, d_head) and v of shape (n, heads, d_v), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    lengths = segment_lengths(q, offsets)
    phi_q, phi_k = (torch.split(elu(x).add(1).transpose(0, 1), lengths, 1) for x in (q, k))
    values = torch.split(v.transpose(0, 1), lengths, 1)
    meshes = [_one_mesh(*parts) for parts in zip(phi_q, phi_k, values, strict=True)]
    return torch.cat(meshes, 1).transpose(0, 1)


def _one_mesh(phi_q: Tensor, phi_k: Tensor, v: Tensor) -> Tensor:
    """(h, n, d) each, without the others of the batch."""
    total = phi_k.sum(1).unsqueeze(-1)
    normalizer = (phi_q @ total).clamp_min(torch.finfo(phi_q.dtype).tiny)
    return phi_q @ (phi_k.transpose(1, 2) @ v) / normalizer
