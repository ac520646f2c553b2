"""H, T and D blocks: attention or diffusion, then a feed-forward network, each added to its input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.kernels.linear import FeedForward, NormalizedFeedForward, by_chunks, linear, product
from hodgeformer.kernels.rows import dropout, normalized
from hodgeformer.kernels.segments import linear_attention
from hodgeformer.kernels.spreading import DiagonalStars, spread, with_products
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.laplacians import LAPLACIANS


class HodgeAttention(nn.Module):
    """A_H(x_v, x_e, x_f): L_k V_k for every updated kind k."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.laplacian = nn.ModuleDict({kind: LAPLACIANS[kind](config) for kind in config.updated})

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> dict[str, Tensor]:
        return {kind: laplacian(x, topology) for kind, laplacian in self.laplacian.items()}


class GlobalAttention(nn.Module):
    """Linear attention over all elements of a mesh, for every updated kind by itself."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.updated = config.updated
        self.mixer = nn.ModuleDict({kind: LinearAttention(config) for kind in config.updated})

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> dict[str, Tensor]:
        return {kind: self.mixer[kind](x[kind], topology.offsets[kind]) for kind in self.updated}


class LinearAttention(nn.Module):
    """W_O phi(q) (sum phi(k) v^T) / (phi(q) . sum phi(k)), sums over one mesh, phi = elu + 1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.query = linear(config.d_model, config.d_model, bias=False)
        self.key = linear(config.d_model, config.d_model, bias=False)
        self.value = linear(config.d_model, config.d_model, bias=False)
        self.out = linear(config.d_model, config.d_model, bias=False)
        self.n_heads = config.n_heads

    def forward(self, x: Float[Tensor, "n d"], offsets: Sequence[int]) -> Float[Tensor, "n d"]:
        all_three = product(x, self.query.weight, self.key.weight, self.value.weight)
        q, k, value = all_three.view(x.shape[0], 3, self.n_heads, -1).unbind(1)
        return self.out(linear_attention(q=q, k=k, v=value, offsets=offsets).flatten(1))


class Spreading(nn.Module):
    """A_D(x_v) = W_O [y, tanh(c t (<dy, d(y W_P)> + dy ^ d(y W_Q)))], y = (star0 + t d0^T star1 d0)^-1 star0 x_v W_V.

    The product of dy with a mix of all derivatives, turned and scaled by W_P and W_Q: <.,.> is its symmetric part and
    ^ its antisymmetric one. Each group of channels has its time t. Over a length of sqrt(t) diffused values change by
    about their size, so times t the product is of that size too; c is learned, one number for each channel.

    Learned stars are the textbook's times factors between exp(-r) and exp(r), r the bound, one pair for each time:
    for a vertex from its own features, for an edge from those of both ends. They start as the textbook's.
    """

    times: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.value = linear(d, d, bias=False)
        self.inner, self.wedge = linear(d, d, bias=False), linear(d, d, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(d))
        self.out = linear(2 * d, d, bias=False)
        self.bound = config.diffusion_bound
        if self.bound:
            self.stars = linear(d, 2 * N_TIMES)
            nn.init.zeros_(self.stars.weight)
        times = torch.from_numpy(TIMES).float().repeat_interleave(d // N_TIMES)
        self.register_buffer("times", times, persistent=False)

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> dict[str, Tensor]:
        stars = self.diagonal_stars(x.v, topology) if self.bound else topology.surface.stars
        y = spread(self.value(x.v), stars)
        mixed = product(y, self.inner.weight, self.wedge.weight).view(y.shape[0], 2, -1)
        scale = self.times * self.log_scale.exp()
        return {"v": self.out(with_products(y, mixed, scale, stars.star1, topology.surface))}

    def diagonal_stars(self, x: Float[Tensor, "n_v d"], topology: PackedComplex) -> DiagonalStars:
        surface = topology.surface
        of_vertex, of_ends = self.stars(x).to(surface.star0).chunk(2, dim=1)
        of_edge = topology.edge_ends.apply(of_ends)
        star0, star1 = (
            star[:, None] * torch.exp(self.bound * torch.tanh(change / self.bound))
            for star, change in ((surface.star0, of_vertex), (surface.star1, of_edge))
        )
        return DiagonalStars(star0, star1, surface)


class Block(nn.Module):
    """x += attention(LN(x)), x += FF(LN(x)) for the updated kinds.

    The other kinds arrive normalized and are not changed. `residual_dropout` drops entries of what is added.
    """

    def __init__(
        self, config: ModelConfig, attention: nn.Module, updated: tuple[ElementKind, ...] | None = None
    ) -> None:
        super().__init__()
        self.updated = config.updated if updated is None else updated
        self.attention = attention
        feed_forward = NormalizedFeedForward if config.feed_forward_norm else FeedForward
        self.feed_forward = nn.ModuleDict(
            {
                kind: feed_forward(config.d_model, config.d_hidden, config.d_model, dropout=config.dropout)
                for kind in self.updated
            }
        )
        self.residual_dropout, self.normalizes = config.residual_dropout, config.feed_forward_norm

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> PerElement[Tensor]:
        change = {kind: self._dropped(value) for kind, value in self.attention(self.normal(x), topology).items()}
        x = x.replace(**{kind: x[kind] + change[kind] for kind in self.updated})
        # The statistics of a batch need all its rows.
        at_once = self.training and self.normalizes
        return x.replace(
            **{
                kind: self._fed_forward(kind)(x[kind]) if at_once else by_chunks(self._fed_forward(kind), x[kind])
                for kind in self.updated
            }
        )

    def normal(self, x: PerElement[Any]) -> PerElement[Any]:
        """What the attention reads."""
        return x.replace(**{kind: normalized(x[kind]) for kind in self.updated})

    def _fed_forward(self, kind: ElementKind) -> Callable[[Tensor], Tensor]:
        return lambda rows: rows + self._dropped(self.feed_forward[kind](normalized(rows)))

    def _dropped(self, change: Tensor) -> Tensor:
        return dropout(change, self.residual_dropout if self.training else 0.0)


class HodgeFormerBlock(Block):
    """H_l: the learned Laplacians, then a feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, HodgeAttention(config))


class TransformerBlock(Block):
    """T_l: linear attention over the whole mesh, then a feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, GlobalAttention(config))


class SpreadingBlock(Block):
    """D_l: spreading over the surface and products of derivatives at vertices, then a feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, Spreading(config), updated=("v",))


BLOCKS: dict[str, Callable[[ModelConfig], Block]] = {
    "H": HodgeFormerBlock,
    "T": TransformerBlock,
    "D": SpreadingBlock,
}
