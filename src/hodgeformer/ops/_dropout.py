"""Which attention weights dropout removes: a hash of (seed, row, neighbor, head), the same in every backend.

mix(x) = x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16   (32 bits)
entry  = mix(mix(mix(key ^ row) ^ neighbor) ^ head * 0x9e3779b9),  kept where entry >= p 2^32
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MIX_A, MIX_B, HEAD_STEP = 0x7FEB352D, 0x846CA68B, 0x9E3779B9
WORD = 0xFFFFFFFF


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
        entry = _mix_tensor(_mix_tensor(rows.long() ^ self.key) ^ neighbors.long())
        head = torch.arange(n_heads, device=rows.device) * HEAD_STEP & WORD
        kept = _mix_tensor(entry.unsqueeze(-1) ^ head) >= self.threshold
        return kept * self.keep_scale


def mix(x: int) -> int:
    x ^= x >> 16
    x = x * MIX_A & WORD
    x ^= x >> 15
    x = x * MIX_B & WORD
    return x ^ x >> 16


def _mix_tensor(x: Tensor) -> Tensor:
    x = x ^ x >> 16
    x = x * MIX_A & WORD
    x = x ^ x >> 15
    x = x * MIX_B & WORD
    return x ^ x >> 16
