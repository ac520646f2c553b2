"""Signed incidence as gathers in both directions: d0, d1 and their adjoints without matrices or atomics.

The functions take the complex as bare tensors and check it in every call. Where it does not change, as in a model,
`gradient` and `curl` build it once; their `apply` and `apply_t` are d0, d1 and their adjoints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.rows import TensorFields, TensorFunction


def d0(x: Float[Tensor, "n_v ..."], edges: Int[Tensor, "n_e 2"]) -> Float[Tensor, "n_e ..."]:
    """(d0 x)_e = x_head - x_tail, for edges given as (tail, head)."""
    return gradient(edges, len(x)).apply(x)


def d0_t(y: Float[Tensor, "n_e ..."], edges: Int[Tensor, "n_e 2"], n_vertices: int) -> Float[Tensor, "n_v ..."]:
    """The adjoint of d0: edges that arrive at a vertex minus edges that leave it."""
    return gradient(edges, n_vertices).apply_t(y)


def d1(
    x: Float[Tensor, "n_e ..."], face_edges: Int[Tensor, "n_f 3"], face_signs: Int[Tensor, "n_f 3"]
) -> Float[Tensor, "n_f ..."]:
    """The sum around each face; a sign is +1 where the face traverses the edge from tail to head, else -1."""
    return curl(face_edges, face_signs, len(x)).apply(x)


def d1_t(
    y: Float[Tensor, "n_f ..."], face_edges: Int[Tensor, "n_f 3"], face_signs: Int[Tensor, "n_f 3"], n_edges: int
) -> Float[Tensor, "n_e ..."]:
    """The adjoint of d1."""
    return curl(face_edges, face_signs, n_edges).apply_t(y)


def gradient(edges: Int[Tensor, "n_e 2"], n_vertices: int) -> Incidence:
    """d0 (n_e, n_v): -1 at the tail of an edge, +1 at its head."""
    return Incidence.from_rows(edges, torch.tensor([-1, 1], device=edges.device).expand(len(edges), 2), n_vertices)


def curl(face_edges: Int[Tensor, "n_f 3"], face_signs: Int[Tensor, "n_f 3"], n_edges: int) -> Incidence:
    """d1 (n_f, n_e): the signs of the edges around each face."""
    return Incidence.from_rows(face_edges, face_signs, n_edges)


@dataclass(frozen=True, slots=True)
class Incidence(TensorFields):
    """A sparse matrix of signs, row by row and column by column: (A x)_i = sum over t of sign_t x[index_t].

    Both directions are gathers in a fixed order, and each is the other's derivative, so results and gradients
    are the same to the bit in every run.
    """

    indices: Int[Tensor, "n_out k"]
    signs: Int[Tensor, "n_out k"]
    offsets: Int[Tensor, " n_out_and_one"]
    t_indices: Int[Tensor, " nnz"]
    t_signs: Int[Tensor, " nnz"]
    t_offsets: Int[Tensor, " n_in_and_one"]

    @classmethod
    def from_rows(cls, indices: Int[Tensor, "n_out k"], signs: Int[Tensor, "n_out k"], n_in: int) -> Incidence:
        """(A x)_i = sum over t < k of signs[i, t] x[indices[i, t]]; indices are checked, signs are +1 or -1."""
        if indices.ndim != 2 or signs.shape != indices.shape:
            found = f"{tuple(indices.shape)} and {tuple(signs.shape)}"
            raise BatchError(f"indices and signs must both be (n_out, k), got {found}")
        if indices.numel() and (int(indices.min()) < 0 or int(indices.max()) >= n_in):
            found = f"{int(indices.min())} to {int(indices.max())}"
            raise BatchError(f"incidence indices must be in [0, {n_in}), got {found}")
        indices, signs = indices.to(torch.int32).contiguous(), signs.to(torch.int8).contiguous()
        n_out, k = indices.shape
        order = torch.argsort(indices.flatten(), stable=True)
        counts = torch.bincount(indices.flatten(), minlength=n_in)
        return cls(
            indices=indices,
            signs=signs,
            offsets=k * torch.arange(n_out + 1, dtype=torch.int32, device=indices.device),
            t_indices=(order // max(k, 1)).to(torch.int32),
            t_signs=signs.flatten()[order],
            t_offsets=functional.pad(counts.cumsum(0), (1, 0)).to(torch.int32),
        )

    @property
    def n_out(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def n_in(self) -> int:
        return self.t_offsets.shape[0] - 1

    def apply(self, x: Float[Tensor, "n_in ..."]) -> Float[Tensor, "n_out ..."]:
        """A x, over the first dimension."""
        self._check(x, self.n_in, "apply")
        return _SignedGather.of(x, self, False)

    def apply_t(self, y: Float[Tensor, "n_out ..."]) -> Float[Tensor, "n_in ..."]:
        """A^T y, over the first dimension."""
        self._check(y, self.n_out, "apply_t")
        return _SignedGather.of(y, self, True)

    def unsigned(self) -> Incidence:
        """The same rows and columns with all signs +1."""
        return replace(self, signs=torch.ones_like(self.signs), t_signs=torch.ones_like(self.t_signs))

    def _check(self, x: Tensor, n: int, name: str) -> None:
        if x.ndim < 1 or x.shape[0] != n:
            raise BatchError(f"{name} of a {self.n_out} x {self.n_in} incidence needs {n} rows, got {tuple(x.shape)}")
        if x.device != self.offsets.device:
            raise BatchError(f"the incidence is on {self.offsets.device} but its argument is on {x.device}")


class _SignedGather(TensorFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, incidence: Incidence, transposed: bool) -> Tensor:
        ctx.incidence, ctx.transposed = incidence, transposed
        return _signed_gather(x, incidence, transposed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _signed_gather(grad, ctx.incidence, not ctx.transposed), None, None


def _signed_gather(x: Tensor, a: Incidence, transposed: bool) -> Tensor:
    """out_i = sum over t in row (or column) i of sign_t x[index_t], in the order of the CSR arrays."""
    offsets, indices, signs = (
        (a.t_offsets, a.t_indices, a.t_signs) if transposed else (a.offsets, a.indices.flatten(), a.signs.flatten())
    )
    shape = offsets.shape[0] - 1, *x.shape[1:]
    if x.numel() == 0 or indices.numel() == 0:
        return x.new_zeros(shape)
    rows, weights = x.reshape(len(x), -1), signs.to(x.dtype)
    if x.is_floating_point() and x.device.type in ("cpu", "cuda"):
        sums = functional.embedding_bag(
            indices, rows, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )
        return sums.view(shape)
    owners = torch.repeat_interleave(offsets.diff(), output_size=len(indices))
    total = x.new_zeros(shape[0], rows.shape[1])
    return total.index_add_(0, owners, rows[indices.long()] * weights[:, None]).view(shape)
