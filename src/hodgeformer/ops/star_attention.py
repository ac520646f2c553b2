"""The learned Hodge star: attention of every element over its own sparse neighbors."""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from hodgeformer.containers import Backend, SparsityPattern
from hodgeformer.errors import BackendUnavailable, BatchError, ConfigError
from hodgeformer.ops._reference import softmax_entries
from hodgeformer.ops.rows import TensorFunction
from hodgeformer.ops.star_problem import Dropout, StarProblem


def star_attention(
    *,
    q: Float[Tensor, "n h d_head"],
    k: Float[Tensor, "n h d_head"],
    y: Float[Tensor, "n h d_y"],
    pattern: SparsityPattern[Tensor],
    dropout: float = 0.0,
    seed: int = 0,
    backend: Backend = "auto",
) -> Float[Tensor, "n h d_y"]:
    """out_i = sum over j in S_i of softmax_j(q_i . k_j / sqrt(d_head)) y_j, for every head.

    Memory stays linear in the inputs: keys and values are never gathered. `dropout` acts on the weights and
    removes the same entries in every backend for the same seed. Rows of q, k and y may be strided (slices of
    one fused projection) and are then read in place. The backward pass cannot itself be differentiated.
    """
    _check(q=q, k=k, y=y, pattern=pattern, dropout=dropout)
    return _StarAttention.of(q, k, y, pattern, Dropout.of(dropout, seed), _module(choose_backend(backend, q)))


def star_attention_weights(
    *, q: Float[Tensor, "n h d_head"], k: Float[Tensor, "n h d_head"], pattern: SparsityPattern[Tensor]
) -> Float[Tensor, "nnz h"]:
    """The learned operator itself: the weight of every entry of the pattern, in the pattern's order."""
    _check(q=q, k=k, y=q, pattern=pattern, dropout=0.0)
    with torch.no_grad():
        return softmax_entries(q, k, pattern)


def choose_backend(backend: Backend, q: Tensor) -> str:
    """The backend that will run: `auto` looks at device and dtype, a name is taken at its word."""
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
    return import_module(f"hodgeformer.ops._{backend}")


class _StarAttention(TensorFunction):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        y: Tensor,
        pattern: SparsityPattern[Tensor],
        dropout: Dropout,
        backend: ModuleType,
    ) -> Tensor:
        ctx.pattern, ctx.dropout, ctx.backend = pattern, dropout, backend
        problem = StarProblem(q, k, y, pattern, dropout)
        out, saved = backend.forward(problem, needs_backward=any(ctx.needs_input_grad))
        ctx.save_for_backward(q, k, y, *saved)
        return cast(Tensor, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, y, *saved = ctx.saved_tensors
        problem = StarProblem(q, k, y, ctx.pattern, ctx.dropout)
        return (*ctx.backend.backward(problem, grad, tuple(saved)), None, None, None)


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
            f"the pattern must hold torch tensors, got {type(pattern.offsets).__name__}; "
            "use pattern.map(torch.from_numpy)"
        )
    devices = {t.device for t in (q, k, y, pattern.offsets, pattern.indices)}
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise BatchError(f"q, k, y and the pattern must lie on one device, got {names}")
    arrays = ((pattern.offsets, torch.int64), (pattern.indices, torch.int32))
    if not all(array.dtype == dtype and array.is_contiguous() for array, dtype in arrays):
        raise BatchError(
            "the pattern needs contiguous int64 offsets and int32 indices, got "
            f"{pattern.offsets.dtype} and {pattern.indices.dtype}; build it with SparsityPattern.from_csr"
        )
    if len(pattern) != q.shape[0]:
        raise BatchError(f"the pattern has {len(pattern)} rows but q has {q.shape[0]}")
    if not 0.0 <= dropout < 1.0:
        raise BatchError(f"dropout must lie in [0, 1), got {dropout}")
