"""Operations on the single meshes of a packed batch: attention at linear cost, and means."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import elu

from hodgeformer.base.errors import BatchError


def linear_attention(
    *,
    q: Float[Tensor, "n h d_head"],
    k: Float[Tensor, "n h d_head"],
    v: Float[Tensor, "n h d_v"],
    offsets: Sequence[int],
) -> Float[Tensor, "n h d_v"]:
    """out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j), phi = elu + 1, j in the mesh of i.

    The result for a mesh does not depend on the rest of the batch.
    """
    if q.ndim != 3 or k.shape != q.shape or v.shape[:2] != q.shape[:2]:
        raise BatchError(
            "expected q and k of shape (n, heads, d_head) and v of shape (n, heads, d_v), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    lengths = _lengths(q, offsets)
    meshes = zip(*(torch.split(x.transpose(0, 1), lengths, dim=1) for x in (q, k, v)), strict=True)
    return torch.cat([_one_mesh(*mesh) for mesh in meshes])


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


def _one_mesh(
    q: Float[Tensor, "h n d_head"], k: Float[Tensor, "h n d_head"], v: Float[Tensor, "h n d_v"]
) -> Float[Tensor, "n h d_v"]:
    a, b = elu(q).add_(1), elu(k).add_(1)
    norm = (a @ b.sum(1).unsqueeze(-1)).clamp_min(torch.finfo(v.dtype).eps ** 2)
    return ((a @ (b.mT @ v)) / norm).transpose(0, 1)
