"""Means over the meshes of a packed batch."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hodgeformer.errors import BatchError


def segment_mean(x: Float[Tensor, "n ..."], offsets: Int[Tensor, " m_and_one"]) -> Float[Tensor, "m ..."]:
    """out_i = mean of x[offsets[i]:offsets[i + 1]]; no segment may be empty."""
    lengths = segment_lengths(x, offsets)
    if 0 in lengths:
        raise BatchError(f"segment {lengths.index(0)} is empty and has no mean")
    return torch.stack([part.mean(0) for part in torch.split(x, lengths)])


def segment_lengths(x: Tensor, offsets: Tensor) -> list[int]:
    """Rows per segment, checked to cover x."""
    bounds: list[int] = offsets.tolist()
    lengths = [last - first for first, last in pairwise(bounds)]
    if not lengths or bounds[0] != 0 or bounds[-1] != len(x) or min(lengths) < 0:
        raise BatchError(f"offsets must rise from 0 to the {len(x)} rows of x, got {bounds[:4]} ... {bounds[-1:]}")
    return lengths
