"""H and T blocks: attention between elements, then a feed-forward network, each added to its input."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.containers import PerElement
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.feed_forward import FeedForward, linear
from hodgeformer.nn.laplacians import LAPLACIANS
from hodgeformer.nn.norm import normalized
from hodgeformer.ops.linear_attention import linear_attention
from hodgeformer.packed.topology import PackedComplex


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
        self.mixer = nn.ModuleDict({kind: LinearAttention(config) for kind in config.updated})

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> dict[str, Tensor]:
        return {kind: mixer(x[kind], topology.offsets[kind]) for kind, mixer in self.mixer.items()}


class LinearAttention(nn.Module):
    """W_O phi(q) (sum phi(k) v^T) / (phi(q) . sum phi(k)) over the elements of one mesh, phi = elu + 1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.query_key_value = nn.ModuleList(
            linear(config.d_model, config.d_model, bias=False) for _ in range(3)
        )
        self.out = linear(config.d_model, config.d_model, bias=False)
        self.n_heads = config.n_heads

    def forward(self, x: Float[Tensor, "n d"], offsets: Tensor) -> Float[Tensor, "n d"]:
        q, k, value = (project(x).unflatten(1, (self.n_heads, -1)) for project in self.query_key_value)
        out: Tensor = self.out(linear_attention(q=q, k=k, v=value, offsets=offsets).flatten(1))
        return out


class Block(nn.Module):
    """x += attention(LN(x)), x += FF(LN(x)) for the updated kinds; the others arrive normalized and stay as they are."""

    def __init__(self, config: ModelConfig, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = nn.ModuleDict(
            {
                kind: FeedForward(config.d_model, config.d_hidden, config.d_model, dropout=config.dropout)
                for kind in config.updated
            }
        )

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> PerElement[Tensor]:
        kinds = self.feed_forward.keys()
        change = self.attention(x.replace(**{kind: normalized(x[kind]) for kind in kinds}), topology)
        x = x.replace(**{kind: x[kind] + change[kind] for kind in kinds})
        return x.replace(**{k: x[k] + self.feed_forward[k](normalized(x[k])) for k in kinds})


class HodgeFormerBlock(Block):
    """H_l: the learned Laplacians, then a feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, HodgeAttention(config))


class TransformerBlock(Block):
    """T_l: linear attention over the whole mesh, then a feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, GlobalAttention(config))
