"""What D blocks compute on a surface: values spread by an implicit heat step, and products of derivatives.

y = (star0 + t d0^T star1 d0)^-1 star0 x with diagonal stars, each group of channels with its own time and stars. The
matrix K is symmetric, so one more solve gives all gradients: with g the gradient of y and s = K^-1 g,

    x: star0 s    star1: -t sum of (d0 s) (d0 y)    star0: sum of s (x - y), sums over the channels of a group.

Nothing is dense: the edges decide where the triangle of K has entries, and a solve is two passes over them. K is an
M-matrix for any stars, and its elimination subtracts nothing, so float32 is enough.

The inner product of the 1-forms dy and dz at vertices, and their wedge dy ^ dz, are quadratic in the features,
which attention with its weighted sums is not. They are taken channel by channel; a mix of channels before them
commutes with d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.kernels.rows import (
    TensorFields,
    TensorFunction,
    compiled_for,
    kernels,
    run_compiled,
    run_rows,
)

DENSE_UP_TO = 4000
"""Vertices of a mesh up to which a GPU solves with dense matrices; larger ones are eliminated by the processor."""


@dataclass(frozen=True, eq=False)
class Neighborhoods(TensorFields):
    """The surroundings of each vertex: its neighbors along edges, and the opposite sides of its faces.

    Neighbors of vertex i: neighbors[edge_offsets[i]:edge_offsets[i + 1]], over the edges of these numbers. A face
    (i, a, b), in its winding, is the row (a, b) of `sides`, among face_offsets[i]:face_offsets[i + 1].
    """

    edge_offsets: Int[Tensor, " n_and_one"]
    neighbors: Int[Tensor, " ends"]
    edge_numbers: Int[Tensor, " ends"]
    face_offsets: Int[Tensor, " n_and_one"]
    sides: Int[Tensor, "corners 2"]


@dataclass(frozen=True, eq=False)
class Surface(TensorFields):
    """The textbook's diagonal stars of all meshes of a batch, and where the elimination of K has its entries.

    Mesh b has the vertices bounds[b]:bounds[b + 1] and sizes[b] = (vertices, edges). `elimination` are the fields of
    `kernels.elimination.Elimination` for all of them.
    """

    star0: Float[Tensor, " n_v"]
    star1: Float[Tensor, " n_e"]
    edges: Int[Tensor, "n_e 2"]
    bounds: Int[Tensor, " meshes_and_one"]
    sizes: tuple[tuple[int, int], ...]
    neighborhoods: Neighborhoods
    elimination: tuple[Tensor, ...]

    @property
    def stars(self) -> DiagonalStars:
        """The textbook's stars, for every time."""
        star0, star1 = (star[:, None].expand(-1, N_TIMES) for star in (self.star0, self.star1))
        return DiagonalStars(star0, star1, self, learned=False)

    @cached_property
    def textbook_factor(self) -> Factor:
        """Eliminated once, on first use."""
        return self.eliminated(self.stars.star0, self.stars.star1)

    def eliminated(self, star0: Float[Tensor, "n_v times"], star1: Float[Tensor, "n_e times"]) -> Factor:
        """L D L^T of star0 + t d0^T star1 d0 for every time."""
        star0, star1 = (star.detach().contiguous() for star in (star0, star1))
        values, pivots = star0.new_empty(len(self.elimination[3]), N_TIMES), torch.empty_like(star0)
        excess, work = torch.empty_like(star0), star0.new_zeros(len(star0) + 1, N_TIMES)
        lists = self.neighborhoods.edge_offsets, self.neighborhoods.neighbors, self.neighborhoods.edge_numbers
        numbers = times_like(star0), star0, star1, excess, work, values, pivots
        kernel = kernels("spreading").eliminate(N_TIMES, 8 * star0.element_size())
        run_compiled(
            kernel, len(self.sizes), self.bounds, *self.elimination, *lists, *numbers, numbers=8 * values.numel()
        )
        order, _, offsets, rows, *_ = self.elimination
        return Factor(order, offsets, rows, values, pivots)


class DiagonalStars(NamedTuple):
    """One pair of positive diagonal stars for each time; the textbook's are eliminated once for all blocks."""

    star0: Float[Tensor, "n_v times"]
    star1: Float[Tensor, "n_e times"]
    surface: Surface
    learned: bool = True


def times_like(x: Tensor) -> Float[Tensor, " times"]:
    return torch.from_numpy(TIMES).to(x)


@dataclass(frozen=True, eq=False)
class Factor(TensorFields):
    """The L D L^T of K for every time, in the order of elimination.

    `order[i]` is the i-th row of x to be eliminated. Column j of the triangle, below its diagonal of ones:
    rows[offsets[j]:offsets[j + 1]] with one value per time, minus which is the entry; `pivots` are one over D.
    """

    order: Int[Tensor, " n"]
    offsets: Int[Tensor, " n_and_one"]
    rows: Int[Tensor, " nnz"]
    values: Float[Tensor, "nnz times"]
    pivots: Float[Tensor, "n times"]

    def solved(self, right: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """K^-1 right."""
        right = right.contiguous()
        out, work = torch.empty_like(right), torch.empty_like(right)
        width = right.shape[1] // N_TIMES
        kernel = kernels("spreading").solve(N_TIMES, width, 8 * right.element_size())
        given = self.order, self.offsets, self.rows, self.values, self.pivots, right
        run_compiled(kernel, N_TIMES, *given, work, out, numbers=2 * self.values.numel() * width)
        return out


def spread(x: Float[Tensor, "n d"], stars: DiagonalStars) -> Float[Tensor, "n d"]:
    """(star0 + t d0^T star1 d0)^-1 star0 x; each of equal groups of channels has its time and its pair of stars."""
    n = len(stars.star0)
    if x.ndim != 2 or len(x) != n or x.shape[1] % N_TIMES:
        raise BatchError(f"spreading needs ({n}, a multiple of {N_TIMES}) numbers, got {tuple(x.shape)}")
    if compiled_for(x):
        return _Spread.of(x, stars.star0, stars.star1, stars)
    if max(stars.surface.sizes)[0] <= DENSE_UP_TO:
        return dense_spread(x, stars)
    near = DiagonalStars(stars.star0.cpu(), stars.star1.cpu(), stars.surface.map(Tensor.cpu), stars.learned)
    return _Spread.of(x.to(near.star0), near.star0, near.star1, near).to(x)


class _Spread(TensorFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, star0: Tensor, star1: Tensor, stars: DiagonalStars) -> Tensor:
        surface = stars.surface
        factor = surface.eliminated(star0, star1) if stars.learned else surface.textbook_factor
        y = factor.solved((x.view(len(x), N_TIMES, -1) * star0[:, :, None]).flatten(1))
        ctx.factor, ctx.edges = factor, surface.edges
        ctx.learned = any(ctx.needs_input_grad[1:3])
        ctx.save_for_backward(star0, *((x, y) if ctx.learned else ()))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        star0, *values = ctx.saved_tensors
        s = ctx.factor.solved(grad)
        grad_x = (s.view(len(s), N_TIMES, -1) * star0[:, :, None]).flatten(1)
        if not ctx.learned:
            return grad_x, None, None, None
        x, y = values
        grad_star0 = (s * (x - y)).view(len(s), N_TIMES, -1).sum(2)
        return grad_x, grad_star0, -times_like(s) * _across_edges(s, y, None, ctx.edges), None


def _across_edges(a: Tensor, b: Tensor, gain: Tensor | None, edges: Tensor) -> Tensor:
    """Sums over the channels of each group of (d0 a) (d0 b), times the sum of gain over both ends."""
    out = a.new_empty(len(edges), N_TIMES)
    kernel = kernels("spreading").across_edges(a.shape[1], N_TIMES, 8 * a.element_size(), int(gain is not None))
    numbers = (4 if gain is None else 6) * len(edges) * a.shape[1]
    run_compiled(kernel, len(edges), edges, a, b, a if gain is None else gain, out, numbers=numbers)
    return out


def dense_spread(x: Float[Tensor, "n d"], stars: DiagonalStars) -> Float[Tensor, "n d"]:
    """The same by Cholesky of the matrices written out, mesh by mesh, on any device and with torch's own gradients."""
    times = times_like(stars.star0)
    x = x.view(len(x), N_TIMES, -1)
    solved = []
    for values, star0, star1, edges, first in _by_mesh(x, stars):
        tail, head = (edges.long() - first).unbind(1)
        weights = times[:, None] * star1.t()
        off = weights.new_zeros(N_TIMES, len(star0) ** 2).index_add(1, tail * len(star0) + head, weights)
        off = off.view(N_TIMES, len(star0), -1)
        off = off + off.mT
        k = torch.diag_embed(star0.t() + off.sum(2)) - off
        right = (star0[:, :, None] * values).transpose(0, 1)
        solved.append(torch.cholesky_solve(right, torch.linalg.cholesky(k)).transpose(0, 1))
    return torch.cat(solved).flatten(1).to(x.dtype)


def _by_mesh(x: Tensor, stars: DiagonalStars) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor, int]]:
    """For each mesh: values, stars, edges, and the number of its first vertex."""
    sizes, edge_sizes = (list(numbers) for numbers in zip(*stars.surface.sizes, strict=True))
    firsts = accumulate(sizes, initial=0)
    return zip(
        torch.split(x, sizes),
        torch.split(stars.star0, sizes),
        torch.split(stars.star1, edge_sizes),
        torch.split(stars.surface.edges, edge_sizes),
        firsts,
        strict=False,
    )


def with_products(
    y: Float[Tensor, "n d"],
    z: Float[Tensor, "n 2 d"],
    scale: Float[Tensor, " d"],
    star1: Float[Tensor, "n_e times"],
    surface: Surface,
) -> Float[Tensor, "n 2*d"]:
    """[y, tanh(scale (<dy, dp> + dy ^ dq))] at vertices, with p = z[:, 0] and q = z[:, 1].

    The inner product at vertex i is 1 / (2 m_i) times the sum over neighbors j of w_ij (y_j - y_i) (p_j - p_i), w the
    star of the channel's group. The wedge is 1 / (6 m_i) times the sum over faces (i, a, b) of
    det(y_a - y_i, q_b - q_i; ...): half the determinant is the integral over a face, of which a vertex gets a third.
    It changes its sign with the winding. m are the textbook's areas.
    """
    if not compiled_for(y):
        return torch.cat([y, torch.tanh(scale * reference_derivative_product(y, z, star1, surface))], dim=1)
    return _WithProducts.of(y, z, scale, star1.to(y), surface)


def reference_derivative_product(y: Tensor, z: Tensor, star1: Tensor, surface: Surface) -> Tensor:
    (p, q), (tail, head) = z.unbind(1), surface.edges.long().unbind(1)
    weights = star1.to(y).repeat_interleave(y.shape[1] // N_TIMES, dim=1)
    inner = weights * (y[head] - y[tail]) * (p[head] - p[tail])
    total = torch.zeros_like(y).index_add(0, tail, inner).index_add(0, head, inner)
    around = surface.neighborhoods
    i, (a, b) = _owners(around.face_offsets, around.sides.shape[0]), around.sides.long().unbind(1)
    wedge = (y[a] - y[i]) * (q[b] - q[i]) - (y[b] - y[i]) * (q[a] - q[i])
    return total.index_add(0, i, wedge / 3) / (2 * surface.star0.to(y))[:, None]


def _owners(offsets: Tensor, total: int) -> Tensor:
    vertices = torch.arange(offsets.shape[0] - 1, device=offsets.device)
    return torch.repeat_interleave(vertices, offsets.diff(), output_size=total)


class _WithProducts(TensorFunction):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, scale: Tensor, star1: Tensor, surface: Surface) -> Tensor:
        y, z, star1, half = y.contiguous(), z.contiguous(), star1.contiguous(), 0.5 / surface.star0.to(y)
        (n, d), kept = y.shape, any(ctx.needs_input_grad)
        out, change = y.new_empty(n, 2 * d), y.new_empty(n if kept else 1, d)
        ctx.lists, ctx.edges = _lists(surface.neighborhoods), surface.edges
        kernel = kernels("spreading").multiply(d, N_TIMES, 8 * y.element_size())
        run_compiled(kernel, n, *ctx.lists, star1, half, scale, y, z, out, change, numbers=_numbers(ctx.lists, d))
        ctx.save_for_backward(y, z, scale, star1, half, out, change)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, z, scale, star1, half, out, change = ctx.saved_tensors
        grad, d = grad.contiguous(), y.shape[1]
        inner, grad_scale, grad_y, grad_z = *(torch.empty_like(y) for _ in range(3)), torch.empty_like(z)
        run_rows(_through_tanh, len(y), grad, out, change, half, scale, inner, grad_scale, numbers=y.numel())
        kernel, numbers = kernels("spreading").multiply_back(d, N_TIMES, 8 * y.element_size()), _numbers(ctx.lists, d)
        run_compiled(kernel, len(y), *ctx.lists, star1, inner, y, z, grad, grad_y, grad_z, numbers=2 * numbers)
        grad_star1 = _across_edges(y, z, inner, ctx.edges) if ctx.needs_input_grad[3] else None
        return grad_y, grad_z, grad_scale.sum(0), grad_star1, None


def _lists(around: Neighborhoods) -> tuple[Tensor, ...]:
    return around.edge_offsets, around.neighbors, around.edge_numbers, around.face_offsets, around.sides


def _numbers(lists: tuple[Tensor, ...], d: int) -> int:
    """How many values of neighbors are read, over edges and faces."""
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
