"""What every backend of star attention is given, and which attention weights dropout removes.

Those follow from a hash of (seed, row, neighbor, head), the same in every backend:

mix(x) = x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16   (32 bits)
entry  = mix(mix(mix(key ^ row) ^ neighbor) ^ head * 0x9e3779b9),  kept where entry >= p 2^32
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hodgeformer.containers import SparsityPattern

Word = TypeVar("Word", int, Tensor)
MIX_A, MIX_B, HEAD_STEP = 0x7FEB352D, 0x846CA68B, 0x9E3779B9
WORD = 0xFFFFFFFF
KEEP_UP_TO = 3.0
"""Weights are kept while a row has at most this many times d_head neighbors: no more than q, k and y hold."""


@dataclass(frozen=True, slots=True)
class Dropout:
    """Dropout with probability p: the 32-bit key of a seed, and the hash below which an entry is dropped."""

    p: float
    key: int
    threshold: int

    @classmethod
    def of(cls, p: float, seed: int) -> Dropout:
        low, high = seed & WORD, (seed >> 32) & WORD
        return cls(p, mix(mix(high ^ HEAD_STEP) ^ low), min(round(p * 2**32), WORD))

    @property
    def keep_scale(self) -> float:
        return 1.0 / (1.0 - self.p)

    def kept(self, *, rows: Tensor, neighbors: Tensor, n_heads: int) -> Tensor:
        """1/(1 - p) where an entry stays and 0 where it is dropped; rows and neighbors broadcast: (..., h)."""
        entry = mix(mix(rows.long() ^ self.key) ^ neighbors.long())
        head = torch.arange(n_heads, device=rows.device) * HEAD_STEP & WORD
        kept = mix(entry.unsqueeze(-1) ^ head) >= self.threshold
        return kept * self.keep_scale


@dataclass(frozen=True, slots=True)
class StarProblem:
    """star(q, k) y over a pattern, with some of the weights dropped."""

    q: Float[Tensor, "n h d_head"]
    k: Float[Tensor, "n h d_head"]
    y: Float[Tensor, "n h d_y"]
    pattern: SparsityPattern[Tensor]
    dropout: Dropout

    @property
    def scale(self) -> float:
        return float(self.q.shape[-1] ** -0.5)

    def in_order(self) -> StarProblem:
        """The same with rows that kernels can read."""
        return replace(self, q=rows_in_order(self.q), k=rows_in_order(self.k), y=rows_in_order(self.y))


def rows_in_order(x: Tensor) -> Tensor:
    """x itself if the (h, d) numbers of a row are contiguous, whatever the step between rows; else a copy."""
    _, h, d = x.shape
    ordered = (x.stride(2) == 1 or d == 1) and (x.stride(1) == d or h == 1)
    return x if ordered else x.contiguous()


def weights_are_kept(*, nnz: int, n: int, d_head: int) -> bool:
    """Whether the CPU kernel keeps its weights for the backward pass, or computes them again."""
    return nnz <= KEEP_UP_TO * d_head * n


def mix(x: Word) -> Word:
    """The hash, of one 32-bit number or of many."""
    x = x ^ x >> 16
    x = x * MIX_A & WORD
    x = x ^ x >> 15
    x = x * MIX_B & WORD
    return x ^ x >> 16
