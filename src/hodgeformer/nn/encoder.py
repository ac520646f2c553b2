"""The stack of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hodgeformer.containers import PerElement
from hodgeformer.nn.blocks import Block, HodgeFormerBlock, SpreadingBlock, TransformerBlock
from hodgeformer.nn.config import ModelConfig
from hodgeformer.ops.layer_norm import normalized
from hodgeformer.packed.topology import PackedComplex

BLOCKS: dict[str, Callable[[ModelConfig], Block]] = {
    "H": HodgeFormerBlock,
    "T": TransformerBlock,
    "D": SpreadingBlock,
}


class Encoder(nn.Module):
    """x -> LN(B_L(...B_1(x))), with the blocks that `blocks` spells."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(BLOCKS[letter](config) for letter in config.blocks)
        self.updated = config.updated
        self.kept = tuple(kind for kind in config.embedded if kind not in config.updated)
        self.checkpoint_activations = config.checkpoint_activations

    def forward(self, x: PerElement[Tensor | None], topology: PackedComplex) -> PerElement[Tensor | None]:
        # Kinds that no block updates are the same for all of them, so they are normalized once.
        x = x.replace(**{kind: normalized(cast(Tensor, x[kind])) for kind in self.kept})
        for block in self.blocks:
            if self.checkpoint_activations and self.training:
                x = checkpoint(block, x, topology, use_reentrant=False)
            else:
                x = block(x, topology)
        return x.replace(**{kind: normalized(cast(Tensor, x[kind])) for kind in self.updated})
