"""What D blocks compute over a surface: values spread by an implicit step of heat, and products of derivatives.

y = (M + t L)^-1 M x, each group of channels for its time. The matrix is symmetric, so the gradient is the same solve:
x = M (M + t L)^-1 g. Nothing is iterated and nothing is dense: two passes over the entries of a sparse triangular
factor, with channels side by side.

The inner product of the 1-forms dy and dz at vertices, and their wedge dy ^ dz, are quadratic in what the layers carry,
which attention with its weighted sums is not. They are taken channel by channel; a mix of channels before them
commutes with d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from hodgeformer.errors import BatchError
from hodgeformer.ops.rows import TensorFields, TensorFunction, compiled_for, run_rows

Loop = Callable[..., None]


@dataclass(frozen=True, eq=False)
class Factor(TensorFields):
    """M and the L D L^T of M + t L for every time, in the order of elimination.

    `order[i]` is the row of x that is eliminated as number i. Column j of the triangle, below its diagonal of ones:
    rows[offsets[j]:offsets[j + 1]] with one value per time; `pivots` are one over D.
    """

    masses: Float[Tensor, " n"]
    order: Int[Tensor, " n"]
    offsets: Int[Tensor, " n_and_one"]
    rows: Int[Tensor, " nnz"]
    values: Float[Tensor, "nnz times"]
    pivots: Float[Tensor, "n times"]

    @property
    def n_times(self) -> int:
        return self.pivots.shape[1]

    def solved(self, x: Tensor) -> Tensor:
        """(M + t L)^-1 x, in float32 or float64."""
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        right, factor = x.detach().to("cpu", dtype).contiguous(), self.map(lambda tensor: tensor.cpu())
        out, work = torch.empty_like(right), torch.empty_like(right)
        reals = [t.to(dtype).contiguous() for t in (factor.values, factor.pivots)]
        lists = (factor.order, factor.offsets, factor.rows)
        run_rows(_solve, factor.n_times, *lists, *reals, right, work, out, fastmath=("contract",), min_rows=1)
        return out.to(x)


def spread(x: Float[Tensor, "n times d"], factor: Factor) -> Float[Tensor, "n times d"]:
    """(M + t L)^-1 M x, x[:, k] with time number k. Solved on the CPU wherever x lies."""
    if x.ndim != 3 or x.shape[:2] != factor.pivots.shape:
        raise BatchError(f"spreading needs (n, times, channels) = {tuple(factor.pivots.shape)} + (d,), got {x.shape}")
    return _Spread.of(x, factor)


class _Spread(TensorFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Factor) -> Tensor:
        ctx.factor = factor
        return factor.solved(x * factor.masses[:, None, None].to(x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.factor.solved(grad) * ctx.factor.masses[:, None, None].to(grad), None


def _solve(first, last, order, offsets, rows, values, pivots, x, work, out):  # type: ignore[no-untyped-def]
    """Down the triangle and up again, for the times first <= k < last."""
    n, width = len(order), x.shape[2]
    for i in range(n):
        for k in range(first, last):
            for c in range(width):
                work[i, k, c] = x[order[i], k, c]
    for j in range(n):
        for p in range(offsets[j], offsets[j + 1]):
            row = rows[p]
            for k in range(first, last):
                value = values[p, k]
                for c in range(width):
                    work[row, k, c] -= value * work[j, k, c]
    for j in range(n - 1, -1, -1):
        for k in range(first, last):
            pivot = pivots[j, k]
            for c in range(width):
                work[j, k, c] *= pivot
        for p in range(offsets[j], offsets[j + 1]):
            row = rows[p]
            for k in range(first, last):
                value = values[p, k]
                for c in range(width):
                    work[j, k, c] -= value * work[row, k, c]
        for k in range(first, last):
            for c in range(width):
                out[order[j], k, c] = work[j, k, c]


@dataclass(frozen=True, eq=False)
class Rings(TensorFields):
    """What surrounds each vertex: neighbors over its edges with their weights, and the far sides of its faces.

    Neighbors of vertex i: neighbors[edge_offsets[i]:edge_offsets[i + 1]]. A face (i, a, b), in its winding, is the row
    (a, b) of `sides`, among face_offsets[i]:face_offsets[i + 1]. `inverse_masses` are one over the areas of vertices.
    """

    edge_offsets: Int[Tensor, " n_and_one"]
    neighbors: Int[Tensor, " ends"]
    weights: Float[Tensor, " ends"]
    face_offsets: Int[Tensor, " n_and_one"]
    sides: Int[Tensor, "corners 2"]
    inverse_masses: Float[Tensor, " n"]


def inner_product(y: Float[Tensor, "n d"], z: Float[Tensor, "n d"], rings: Rings) -> Float[Tensor, "n d"]:
    """<dy, dz> at vertex i: 1 / (2 m_i) times the sum over neighbors j of w_ij (y_j - y_i) (z_j - z_i)."""
    if not compiled_for(y):
        return reference_inner_product(y, z, rings)
    lists = (rings.edge_offsets, rings.neighbors, rings.weights.to(y))
    return _Product.of(y, z, rings.inverse_masses.to(y) / 2, lists, _inner, _inner_backward)


def wedge_product(y: Float[Tensor, "n d"], z: Float[Tensor, "n d"], rings: Rings) -> Float[Tensor, "n d"]:
    """dy ^ dz at vertex i: 1 / (6 m_i) times the sum over faces (i, a, b) of det(y_a - y_i, z_b - z_i; ...).

    Half the determinant is the integral over a face, of which a vertex gets a third. Turned with the winding.
    """
    if not compiled_for(y):
        return reference_wedge_product(y, z, rings)
    lists = (rings.face_offsets, rings.sides)
    return _Product.of(y, z, rings.inverse_masses.to(y) / 6, lists, _wedge, _wedge_backward)


def reference_inner_product(y: Tensor, z: Tensor, rings: Rings) -> Tensor:
    i, j = _owners(rings.edge_offsets, rings.neighbors.shape[0]), rings.neighbors.long()
    terms = rings.weights.to(y)[:, None] * (y[j] - y[i]) * (z[j] - z[i])
    return torch.zeros_like(y).index_add(0, i, terms) * (rings.inverse_masses.to(y) / 2)[:, None]


def reference_wedge_product(y: Tensor, z: Tensor, rings: Rings) -> Tensor:
    i, (a, b) = _owners(rings.face_offsets, rings.sides.shape[0]), rings.sides.long().unbind(1)
    terms = (y[a] - y[i]) * (z[b] - z[i]) - (y[b] - y[i]) * (z[a] - z[i])
    return torch.zeros_like(y).index_add(0, i, terms) * (rings.inverse_masses.to(y) / 6)[:, None]


def _owners(offsets: Tensor, total: int) -> Tensor:
    vertices = torch.arange(offsets.shape[0] - 1, device=offsets.device)
    return torch.repeat_interleave(vertices, offsets.diff(), output_size=total)


class _Product(TensorFunction):
    """A product of y and z over the rings of the vertices; `loop` computes it and `back` both gradients."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, z: Tensor, scale: Tensor, lists: tuple[Tensor, ...], loop: Loop, back: Loop
    ) -> Tensor:
        y, z = y.contiguous(), z.contiguous()
        ctx.save_for_backward(y, z, scale)
        ctx.lists, ctx.back, out = lists, back, torch.empty_like(y)
        run_rows(loop, len(y), *lists, scale, y, z, out, fastmath=("contract",))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, z, scale = ctx.saved_tensors
        scaled, grad_y, grad_z = grad * scale[:, None], torch.empty_like(y), torch.empty_like(z)
        run_rows(ctx.back, len(y), *ctx.lists, scaled, y, z, grad_y, grad_z, fastmath=("contract",))
        return grad_y, grad_z, None, None, None, None


def _inner(first, last, offsets, neighbors, weights, scale, y, z, out):  # type: ignore[no-untyped-def]
    width = y.shape[1]
    for i in range(first, last):
        out[i] = 0
        for t in range(offsets[i], offsets[i + 1]):
            j, weight = neighbors[t], weights[t] * scale[i]
            for c in range(width):
                out[i, c] += weight * (y[j, c] - y[i, c]) * (z[j, c] - z[i, c])


def _inner_backward(first, last, offsets, neighbors, weights, grad, y, z, grad_y, grad_z):  # type: ignore[no-untyped-def]
    width = y.shape[1]
    for i in range(first, last):
        grad_y[i] = 0
        grad_z[i] = 0
        for t in range(offsets[i], offsets[i + 1]):
            j, weight = neighbors[t], weights[t]
            for c in range(width):
                both = weight * (grad[i, c] + grad[j, c])
                grad_y[i, c] += both * (z[i, c] - z[j, c])
                grad_z[i, c] += both * (y[i, c] - y[j, c])


def _wedge(first, last, offsets, sides, scale, y, z, out):  # type: ignore[no-untyped-def]
    width = y.shape[1]
    for i in range(first, last):
        out[i] = 0
        for t in range(offsets[i], offsets[i + 1]):
            a, b = sides[t, 0], sides[t, 1]
            for c in range(width):
                ya, za = y[a, c] - y[i, c], z[a, c] - z[i, c]
                yb, zb = y[b, c] - y[i, c], z[b, c] - z[i, c]
                out[i, c] += scale[i] * (ya * zb - yb * za)


def _wedge_backward(first, last, offsets, sides, grad, y, z, grad_y, grad_z):  # type: ignore[no-untyped-def]
    width = y.shape[1]
    for i in range(first, last):
        grad_y[i] = 0
        grad_z[i] = 0
        for t in range(offsets[i], offsets[i + 1]):
            a, b = sides[t, 0], sides[t, 1]
            for c in range(width):
                total = grad[i, c] + grad[a, c] + grad[b, c]
                grad_y[i, c] += total * (z[a, c] - z[b, c])
                grad_z[i, c] += total * (y[b, c] - y[a, c])
