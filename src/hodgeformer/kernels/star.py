"""The learned Hodge star: attention of every element over its own sparse neighbors.

Which attention weights dropout removes follows from a hash of (seed, row, neighbor, head), the same in every backend:

mix(x) = x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16   (32 bits)
entry  = mix(mix(mix(key ^ row) ^ neighbor) ^ head * 0x9e3779b9),  kept where entry >= p 2^32
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from hodgeformer.base.containers import Backend, SparsityPattern
from hodgeformer.base.errors import BackendUnavailable, BatchError, ConfigError
from hodgeformer.kernels.rows import TensorFunction

Word = TypeVar("Word", int, Tensor)
MIX_A, MIX_B, HEAD_STEP = 0x7FEB352D, 0x846CA68B, 0x9E3779B9
WORD = 0xFFFFFFFF
STORE_UP_TO = 3.0
"""Weights are stored while rows have at most this many times d_head neighbors: no more memory than q, k and y."""


def star_attention(
    *,
    q: Float[Tensor, "n h d_head"],
    k: Float[Tensor, "n h d_head"],
    y: Float[Tensor, "n h d_y"],
    pattern: SparsityPattern[Tensor],
    directions: Float[Tensor, "n 3"] | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    backend: Backend = "auto",
) -> Float[Tensor, "n h d_y"]:
    """out_i = sum over j in S_i of softmax_j(q_i . k_j / sqrt(d_head)) y_j, for every head.

    With directions u the star is signed: the weight of j is multiplied by u_i . u_j. They get no gradient.

    Memory stays linear in the inputs: keys and values are never gathered. `dropout` acts on the weights and
    removes the same entries in every backend for the same seed. Rows of q, k and y may be strided (slices of
    one fused projection) and are then read in place. The backward pass cannot itself be differentiated.
    """
    _check(q=q, k=k, y=y, pattern=pattern, dropout=dropout)
    module = _module(choose_backend(backend, q))
    inputs = (pattern, Dropout.of(dropout, seed), module)
    if directions is None or module.READS_DIRECTIONS:
        return _StarAttention.of(q, k, y, directions, *inputs)
    # The same by any kernel, with values three times as wide: y_j u_j goes through the star, then meets u_i.
    u = directions.to(y)[:, None, None]
    out = _StarAttention.of(q, k, (y[..., None] * u).flatten(2), None, *inputs)
    return (out.view(*y.shape, 3) * u).sum(3)


def star_attention_weights(
    *, q: Float[Tensor, "n h d_head"], k: Float[Tensor, "n h d_head"], pattern: SparsityPattern[Tensor]
) -> Float[Tensor, "nnz h"]:
    """The learned operator itself: the weight of every entry of the pattern, in the pattern's order."""
    _check(q=q, k=k, y=q, pattern=pattern, dropout=0.0)
    with torch.no_grad():
        return cast(Tensor, _module("reference").softmax_entries(q, k, pattern))


def choose_backend(backend: Backend, q: Tensor) -> str:
    """The backend that will run: `auto` chooses by device and dtype; a name is used as given."""
    if backend not in get_args(Backend):
        raise ConfigError(f"backend is one of {', '.join(get_args(Backend))}; got {backend!r}")
    if backend == "auto":
        device = q.device.type
        fused = {"cuda": "triton", "cpu": "numba"}.get(device, "reference")
        automatic = fused if _module(fused).missing(q) is None else "reference"
        _announce(automatic, device, q.dtype)
        return automatic
    if why := _module(backend).missing(q):
        raise BackendUnavailable(f"backend {backend!r} cannot run here: {why}")
    return backend


@lru_cache
def _announce(backend: str, device: str, dtype: torch.dtype) -> None:
    logging.getLogger("hodgeformer").info("star attention on %s in %s: backend %s", device, dtype, backend)


@lru_cache
def _module(backend: str) -> ModuleType:
    return import_module(f"hodgeformer.kernels._{backend}")


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
    """star(q, k) y over a pattern, with dropout of weights, and with signs if there are directions."""

    q: Float[Tensor, "n h d_head"]
    k: Float[Tensor, "n h d_head"]
    y: Float[Tensor, "n h d_y"]
    directions: Float[Tensor, "n 3"] | None
    pattern: SparsityPattern[Tensor]
    dropout: Dropout

    @property
    def scale(self) -> float:
        return float(self.q.shape[-1] ** -0.5)

    def in_order(self) -> StarProblem:
        """The same, with rows that kernels can read."""
        return replace(self, q=rows_in_order(self.q), k=rows_in_order(self.k), y=rows_in_order(self.y))


def rows_in_order(x: Tensor) -> Tensor:
    """x itself if the (h, d) numbers of a row are contiguous, whatever the step between rows; else a copy."""
    _, h, d = x.shape
    ordered = (x.stride(2) == 1 or d == 1) and (x.stride(1) == d or h == 1)
    return x if ordered else x.contiguous()


def weights_are_kept(*, nnz: int, n: int, d_head: int) -> bool:
    """Whether the CPU kernel stores its weights for the backward pass, or computes them again."""
    return nnz <= STORE_UP_TO * d_head * n


def mix(x: Word) -> Word:
    """The hash, of one 32-bit number or of many."""
    x = x ^ x >> 16
    x = x * MIX_A & WORD
    x = x ^ x >> 15
    x = x * MIX_B & WORD
    return x ^ x >> 16


class _StarAttention(TensorFunction):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        y: Tensor,
        directions: Tensor | None,
        pattern: SparsityPattern[Tensor],
        dropout: Dropout,
        backend: ModuleType,
    ) -> Tensor:
        ctx.directions, ctx.pattern, ctx.dropout, ctx.backend = directions, pattern, dropout, backend
        problem = StarProblem(q, k, y, directions, pattern, dropout)
        out, saved = backend.forward(problem, needs_backward=any(ctx.needs_input_grad))
        ctx.save_for_backward(q, k, y, *saved)
        return cast(Tensor, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, y, *saved = ctx.saved_tensors
        problem = StarProblem(q, k, y, ctx.directions, ctx.pattern, ctx.dropout)
        return (*ctx.backend.backward(problem, grad, tuple(saved)), None, None, None, None)


def _check(*, q: Tensor, k: Tensor, y: Tensor, pattern: SparsityPattern[Tensor], dropout: float) -> None:
    if q.ndim != 3 or k.shape != q.shape or y.ndim != 3 or y.shape[:2] != q.shape[:2] or 0 in q.shape[1:]:
        raise BatchError(
            "expected q and k of shape (n, heads, d_head) and y of shape (n, heads, d_y), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(y.shape)}"
        )
    if not q.is_floating_point() or q.dtype != k.dtype or q.dtype != y.dtype:
        raise BatchError(f"q, k and y must share one floating dtype, got {q.dtype}, {k.dtype} and {y.dtype}")
    if not isinstance(pattern.offsets, Tensor):
        raise BatchError(
            f"the pattern must contain torch tensors, got {type(pattern.offsets).__name__}; "
            "use pattern.map(torch.from_numpy)"
        )
    devices = {t.device for t in (q, k, y, pattern.offsets, pattern.indices)}
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise BatchError(f"q, k, y and the pattern must be on one device, got {names}")
    arrays = ((pattern.offsets, torch.int64), (pattern.indices, torch.int32))
    if not all(array.dtype == dtype and array.is_contiguous() for array, dtype in arrays):
        raise BatchError(
            "the pattern needs contiguous int64 offsets and int32 indices, got "
            f"{pattern.offsets.dtype} and {pattern.indices.dtype}; build it with SparsityPattern.from_csr"
        )
    if len(pattern) != q.shape[0]:
        raise BatchError(f"the pattern has {len(pattern)} rows but q has {q.shape[0]}")
    if not 0.0 <= dropout < 1.0:
        raise BatchError(f"dropout must be in [0, 1), got {dropout}")
