"""What D blocks compute over a surface: values spread by an implicit step of heat, and products of derivatives.

y = (M + t L)^-1 M x, each group of channels for its time. The matrix is symmetric, so the gradient is the same solve:
x = M (M + t L)^-1 g. Nothing is dense: two passes over the entries of a sparse triangular factor, with channels side by
side.

The inner product of the 1-forms dy and dz at vertices, and their wedge dy ^ dz, are quadratic in what the layers carry,
which attention with its weighted sums is not. They are taken channel by channel; a mix of channels before them
commutes with d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.rows import (
    TensorFields,
    TensorFunction,
    compiled_for,
    kernels,
    run_compiled,
    run_rows,
)


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

    def solved(self, right: Float[Tensor, "n times d"]) -> Float[Tensor, "n times d"]:
        """(M + t L)^-1 right, in float32 or float64."""
        dtype = torch.float64 if right.dtype == torch.float64 else torch.float32
        given = right.detach().to("cpu", dtype).flatten(1).contiguous()
        out, work = torch.empty_like(given), torch.empty_like(given)
        lists = [tensor.cpu() for tensor in (self.order, self.offsets, self.rows)]
        reals = [tensor.to("cpu", dtype).contiguous() for tensor in (self.values, self.pivots)]
        kernel = kernels("spreading").solve(self.n_times, right.shape[2], 8 * given.element_size())
        numbers = 2 * self.values.numel() * right.shape[2]
        run_compiled(kernel, self.n_times, *lists, *reals, given, work, out, numbers=numbers)
        return out.view(right.shape).to(right)


def spread(x: Float[Tensor, "n times d"], factor: Factor) -> Float[Tensor, "n times d"]:
    """(M + t L)^-1 M x, x[:, k] with time number k. Solved on the CPU wherever x lies."""
    expected = (factor.masses.shape[0], factor.n_times)
    if x.ndim != 3 or x.shape[:2] != expected:
        raise BatchError(f"spreading needs (n, times, channels) = {expected} + (d,), got {x.shape}")
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


def with_products(
    y: Float[Tensor, "n d"], z: Float[Tensor, "n 2 d"], scale: Float[Tensor, " d"], rings: Rings
) -> Float[Tensor, "n 2*d"]:
    """[y, tanh(scale (<dy, dp> + dy ^ dq))] at vertices, with p = z[:, 0] and q = z[:, 1].

    The inner product at vertex i is 1 / (2 m_i) times the sum over neighbors j of w_ij (y_j - y_i) (p_j - p_i). The
    wedge is 1 / (6 m_i) times the sum over faces (i, a, b) of det(y_a - y_i, q_b - q_i; ...): half the determinant is
    the integral over a face, of which a vertex gets a third. It turns with the winding.
    """
    if not compiled_for(y):
        return torch.cat([y, torch.tanh(scale * reference_derivative_product(y, z, rings))], dim=1)
    lists = (rings.edge_offsets, rings.neighbors, rings.weights.to(y), rings.face_offsets, rings.sides)
    return _WithProducts.of(y, z, scale, rings.inverse_masses.to(y) / 2, lists)


def reference_derivative_product(y: Tensor, z: Tensor, rings: Rings) -> Tensor:
    p, q = z.unbind(1)
    i, j = _owners(rings.edge_offsets, rings.neighbors.shape[0]), rings.neighbors.long()
    inner = rings.weights.to(y)[:, None] * (y[j] - y[i]) * (p[j] - p[i])
    total = torch.zeros_like(y).index_add(0, i, inner)
    i, (a, b) = _owners(rings.face_offsets, rings.sides.shape[0]), rings.sides.long().unbind(1)
    wedge = (y[a] - y[i]) * (q[b] - q[i]) - (y[b] - y[i]) * (q[a] - q[i])
    return total.index_add(0, i, wedge / 3) * (rings.inverse_masses.to(y) / 2)[:, None]


def _owners(offsets: Tensor, total: int) -> Tensor:
    vertices = torch.arange(offsets.shape[0] - 1, device=offsets.device)
    return torch.repeat_interleave(vertices, offsets.diff(), output_size=total)


class _WithProducts(TensorFunction):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, scale: Tensor, half: Tensor, lists: tuple[Tensor, ...]) -> Tensor:
        y, z = y.contiguous(), z.contiguous()
        (n, d), kept = y.shape, any(ctx.needs_input_grad)
        out, change = y.new_empty(n, 2 * d), y.new_empty(n if kept else 1, d)
        kernel = kernels("spreading").multiply(d, 8 * y.element_size())
        run_compiled(kernel, n, *lists, half, scale, y, z, out, change, numbers=_numbers(lists, d))
        ctx.save_for_backward(y, z, scale, half, out, change)
        ctx.lists = lists
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, z, scale, half, out, change = ctx.saved_tensors
        grad, d = grad.contiguous(), y.shape[1]
        inner, grad_scale, grad_y, grad_z = *(torch.empty_like(y) for _ in range(3)), torch.empty_like(z)
        run_rows(_through_tanh, len(y), grad, out, change, half, scale, inner, grad_scale, numbers=y.numel())
        kernel = kernels("spreading").multiply_back(d, 8 * y.element_size())
        run_compiled(kernel, len(y), *ctx.lists, inner, y, z, grad, grad_y, grad_z, numbers=2 * _numbers(ctx.lists, d))
        return grad_y, grad_z, grad_scale.sum(0), None, None


def _numbers(lists: tuple[Tensor, ...], d: int) -> int:
    """What is read of the values of neighbors over edges and faces."""
    _, neighbors, _, _, sides = lists
    return (neighbors.numel() + sides.numel()) * d


def _through_tanh(first, last, grad, out, change, half, scale, inner, along):  # type: ignore[no-untyped-def]
    """The gradients of the sums, and of the scale, row by row."""
    one = grad.dtype.type(1)
    d = len(scale)
    for i in range(first, last):
        for c in range(d):
            bounded = out[i, d + c]
            through = grad[i, d + c] * (one - bounded * bounded)
            along[i, c] = through * change[i, c]
            inner[i, c] = through * scale[c] * half[i]
