"""From input features to the model's width."""

from __future__ import annotations

from torch import Tensor, nn

from hodgeformer.containers import KINDS, ElementKind, PerElement
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.feed_forward import FeedForward
from hodgeformer.packed.topology import PackedComplex


class PlainEmbedding(nn.Module):
    """x = MLP(x_in) for every kind that a layer reads; None for the others."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.mlp = nn.ModuleDict(
            {kind: FeedForward(config.widths[kind], config.d_hidden, config.d_model) for kind in config.embedded}
        )

    def forward(self, x_in: PerElement[Tensor], topology: PackedComplex) -> PerElement[Tensor | None]:
        return PerElement(
            *(self.mlp[kind](self.gathered(x_in[kind], kind, topology)) if kind in self.mlp else None for kind in KINDS)
        )

    def gathered(self, x_in: Tensor, kind: ElementKind, topology: PackedComplex) -> Tensor:
        return x_in


class NeighborEmbedding(PlainEmbedding):
    """x = MLP(x_in + A x_in), A x_in the mean over adjacent elements."""

    def gathered(self, x_in: Tensor, kind: ElementKind, topology: PackedComplex) -> Tensor:
        return x_in + topology.neighbor_mean(x_in, kind)
