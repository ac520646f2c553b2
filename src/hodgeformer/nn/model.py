"""The whole network: embedding, encoder, head; and where it computes."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hodgeformer.base.containers import ELEMENT_NAMES, KINDS, ElementKind, PerElement
from hodgeformer.base.errors import BatchError, ConfigError
from hodgeformer.kernels.linear import FeedForward
from hodgeformer.kernels.rows import normalized
from hodgeformer.nn.blocks import BLOCKS, Block
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.heads import head_for
from hodgeformer.nn.pack import Batch


class PlainEmbedding(nn.Module):
    """x = MLP(x_in) for every kind that a layer reads; None for the others."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.edge_reversal = list(config.edge_reversal) if config.signed_stars else []
        self.mlp = nn.ModuleDict(
            {kind: FeedForward(config.widths[kind], config.d_hidden, config.d_model) for kind in config.embedded}
        )

    def forward(self, x_in: PerElement[Tensor], topology: PackedComplex) -> PerElement[Tensor | None]:
        return PerElement(*(self.embedded(x_in[kind], kind, topology) if kind in self.mlp else None for kind in KINDS))

    def embedded(self, x_in: Tensor, kind: ElementKind, topology: PackedComplex) -> Tensor:
        """With signed stars an edge is embedded in both directions, and the mean does not depend on either."""
        if kind != "e" or not self.edge_reversal:
            return cast(Tensor, self.mlp[kind](x_in + self.around(x_in, kind, topology)))
        ways = x_in, x_in[:, self.edge_reversal]
        around = self.around((ways[0] + ways[1]) / 2, kind, topology)
        return cast(Tensor, (self.mlp[kind](ways[0] + around) + self.mlp[kind](ways[1] + around)) / 2)

    def around(self, x_in: Tensor, kind: ElementKind, topology: PackedComplex) -> Tensor | float:
        return 0.0


class NeighborEmbedding(PlainEmbedding):
    """x = MLP(x_in + A x_in), A x_in the mean over adjacent elements."""

    def around(self, x_in: Tensor, kind: ElementKind, topology: PackedComplex) -> Tensor | float:
        return topology.neighbor_mean(x_in, kind)


class Encoder(nn.Module):
    """x -> LN(B_L(...B_1(x))), with the blocks that `blocks` names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(BLOCKS[letter](config) for letter in config.blocks)
        self.updated = config.updated
        self.kept = tuple(kind for kind in config.embedded if kind not in config.updated)
        self.checkpoint_activations = config.checkpoint_activations

    def forward(self, x: PerElement[Tensor | None], topology: PackedComplex) -> PerElement[Tensor | None]:
        x = self.through(x, topology, len(self.blocks))
        return x.replace(**{kind: normalized(cast(Tensor, x[kind])) for kind in self.updated})

    def through(
        self, x: PerElement[Tensor | None], topology: PackedComplex, n_blocks: int
    ) -> PerElement[Tensor | None]:
        """The features after the first blocks."""
        # Kinds that no block updates are the same for all of them, so they are normalized once.
        x = x.replace(**{kind: normalized(cast(Tensor, x[kind])) for kind in self.kept})
        for block in self.blocks[:n_blocks]:
            if self.checkpoint_activations and self.training:
                x = checkpoint(block, x, topology, use_reentrant=False)
            else:
                x = block(x, topology)
        return x


class HodgeFormer(nn.Module):
    """x_in -> embedding -> blocks -> logits.

    The output has one row per mesh, or one per element of the configured kind for all meshes of the batch, in
    the order of the batch; `Batch.split` takes it apart.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = (NeighborEmbedding if config.embedding == "neighbor" else PlainEmbedding)(config)
        self.encoder = Encoder(config)
        self.head = head_for(config)

    def forward(self, batch: Batch) -> Float[Tensor, "rows n_classes"]:
        return cast(Tensor, self.head(self.forward_features(batch), batch.topology))

    def forward_features(self, batch: Batch) -> PerElement[Tensor | None]:
        """The features (n, d_model) that the head reads; None for kinds that no layer reads."""
        self._check(batch)
        x = self.embedding(batch.x_in, batch.topology)
        return cast("PerElement[Tensor | None]", self.encoder(x, batch.topology))

    def features_before(self, batch: Batch, number: int) -> PerElement[Tensor | None]:
        """The features that the attention of a block reads; blocks count from 1."""
        x = self.encoder.through(self.embedding(batch.x_in, batch.topology), batch.topology, number - 1)
        return cast(Block, self.encoder.blocks[number - 1]).normal(x)

    def numbers_of(self, batch: Batch) -> int:
        """How many numbers the widest layer reads and writes: this decides how many threads are used."""
        return 2 * max(batch.n[kind] for kind in self.config.embedded) * self.config.d_hidden

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _check(self, batch: Batch) -> None:
        """Reject input that a kernel would read wrongly."""
        weight = self.head.out.weight
        for kind, x in batch.x_in.items():
            expected = (batch.n[kind], self.config.widths[kind])
            if tuple(x.shape) != expected:
                raise BatchError(
                    f"{ELEMENT_NAMES[kind]} features must have shape {expected} (elements of the batch, columns "
                    f"the model was built for), got {tuple(x.shape)}"
                )
            if x.dtype != weight.dtype:
                raise BatchError(
                    f"{ELEMENT_NAMES[kind]} features are {x.dtype} but the model is {weight.dtype}; "
                    f"use batch.to(dtype={weight.dtype})"
                )
        devices = {str(tensor.device) for tensor in (*batch.x_in, batch.topology.edges, weight)}
        devices |= {str(pattern.indices.device) for pattern in batch.topology.patterns}
        if len(devices) > 1:
            raise BatchError(
                f"model and batch are on several devices ({', '.join(sorted(devices))}); use batch.to(device)"
            )


def find_device(name: str = "auto") -> torch.device:
    """The device of this machine with this name; "auto" is a CUDA GPU if there is one, otherwise the CPU."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = "cuda" if there["cuda"] else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or not there.get(device.type) or (device.index or 0) >= max(1, torch.cuda.device_count()):
        found = ", ".join(f"'{kind}'" for kind, is_there in there.items() if is_there)
        raise ConfigError(f"device '{name}' is not available on this machine; use 'auto' or one of: {found}")
    return device
