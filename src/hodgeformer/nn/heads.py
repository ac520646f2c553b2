"""From element features to the output: one row per mesh, or one per element."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.kernels.linear import BatchNorm, linear
from hodgeformer.kernels.rows import dropout
from hodgeformer.kernels.segments import segment_mean
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig


class _Head(nn.Module):
    """Dropout and a linear layer over the updated kinds side by side."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.updated = config.updated
        self.d_in = config.d_model * len(config.updated)
        self.dropout = config.dropout
        self.out = linear(self.d_in, config.n_classes)

    def answer(self, x: Float[Tensor, "rows d"]) -> Float[Tensor, "rows n_classes"]:
        return self.out(dropout(x, self.dropout if self.training else 0.0))


class MeshHead(_Head):
    """One row per mesh: the mean over each updated kind, by default centered by the statistics of the batch.

    After the last LayerNorm all meshes share a large common offset and differ by little, which a linear layer
    alone learns to ignore very slowly. A batch of one mesh has no statistics and is centered as in evaluation. The
    paper's head has no such layer.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.center = BatchNorm(self.d_in) if config.center_head else None

    def forward(self, x: PerElement[Tensor | None], topology: PackedComplex) -> Float[Tensor, "meshes n_classes"]:
        means = [segment_mean(cast(Tensor, x[kind]), topology.offsets[kind]) for kind in self.updated]
        return self.answer(self.centered(torch.cat(means, dim=1)))

    def centered(self, pooled: Float[Tensor, "meshes d"]) -> Float[Tensor, "meshes d"]:
        """Processes that train together override this, to center by the meshes of all."""
        return pooled if self.center is None else cast(Tensor, self.center(pooled))


class ElementHead(_Head):
    """One row per face, vertex or edge: each updated kind carried there by averaging incident elements."""

    def __init__(self, config: ModelConfig, kind: ElementKind) -> None:
        super().__init__(config)
        self.kind: ElementKind = kind

    def forward(self, x: PerElement[Tensor | None], topology: PackedComplex) -> Float[Tensor, "n n_classes"]:
        carried = [topology.carry(cast(Tensor, x[kind]), source=kind, target=self.kind) for kind in self.updated]
        return self.answer(torch.cat(carried, dim=1))


def head_for(config: ModelConfig) -> MeshHead | ElementHead:
    return MeshHead(config) if config.target_kind is None else ElementHead(config, config.target_kind)
