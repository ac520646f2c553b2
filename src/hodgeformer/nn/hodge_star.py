"""The learned Hodge star: sparse attention between elements of one kind."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.containers import ElementKind
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.feed_forward import linear
from hodgeformer.ops.dropout import drawn_seed
from hodgeformer.ops.layer_norm import normalized_parts
from hodgeformer.ops.star_attention import star_attention
from hodgeformer.packed.topology import PackedComplex


class HodgeStar(nn.Module):
    """star(x) y: for each head, row softmax of q k^T / sqrt(d_head) over S_i, applied to y.

    q = LN(x W_Q), k = LN(x W_K), LayerNorm over d_head. The same class serves the inverse stars, each with
    W_Q and W_K of its own.
    """

    def __init__(self, config: ModelConfig, kind: ElementKind) -> None:
        super().__init__()
        self.query = linear(config.d_model, config.d_model, bias=False)
        self.key = linear(config.d_model, config.d_model, bias=False)
        self.kind, self.n_heads = kind, config.n_heads
        self.dropout, self.backend = config.dropout, config.backend

    def forward(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, "n d"], topology: PackedComplex
    ) -> Float[Tensor, "n d"]:
        dropout = self.dropout if self.training else 0.0
        q, k = self.queries_and_keys(x)
        out = star_attention(
            q=q,
            k=k,
            y=y.view(len(y), self.n_heads, -1),
            pattern=topology.patterns[self.kind],
            dropout=dropout,
            seed=drawn_seed() if dropout else 0,
            backend=self.backend,
        )
        return out.flatten(1)

    def queries_and_keys(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "n h d_head"], ...]:
        """Both by one matrix product: fewer and larger ones run faster."""
        both = nn.functional.linear(x, torch.cat([self.query.weight, self.key.weight]))
        return normalized_parts(both.view(len(x), 2, self.n_heads, -1))
