"""Run a model in PyTorch on prepared views: [NumPy becomes torch, and torch NumPy]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from hodgeformer.base.containers import Element, PerElement
from hodgeformer.kernels.rows import few_threads
from hodgeformer.kernels.segments import segment_mean
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.inference import Output, Views


@dataclass(frozen=True, eq=False)
class Forward:
    """A `Network`: all views in one packed pass, once for every frame that they represent.

    `values` converts the outputs of a regression to the units of the data, if they are not yet.
    """

    model: HodgeFormer
    values: Callable[[Tensor], Tensor] | None = None

    @property
    def config(self) -> ModelConfig:
        return self.model.config

    @torch.no_grad()
    def outputs(self, prepared: Sequence[PreparedMesh], views: Views) -> list[tuple[Output, Output]]:
        """The rows of each view, and the means of its features."""
        kind, passes = self.config.target_kind, list[tuple[Tensor, Tensor]]()
        packed = pack(prepared).to(next(self.model.parameters()).device)
        with few_threads(self.model.numbers_of(packed)):
            # All frames share the complex. At once they would not fit in the cache, and would not be faster.
            read = {k: packed.x_in[k] for k in self.config.embedded}
            for signs in views.column_signs:
                turned = {k: x * torch.from_numpy(signs[k]).to(x) for k, x in read.items()}
                batch = replace(packed, x_in=packed.x_in.replace(**turned))
                x = self.model.forward_features(batch)
                rows = self.rows(x, batch.topology).float()
                means = [[part.mean(dim=0) for part in batch.split(cast(Tensor, x[k]), k)] for k in self.config.updated]
                features = torch.stack([torch.cat(each) for each in zip(*means, strict=True)]).float()
                passes.append((rows, features))
        rows, features = (sum(parts[1:], parts[0]) / len(parts) for parts in zip(*passes, strict=True))
        outputs = rows.unsqueeze(1) if kind is None else rows.split([view.n[kind] for view in prepared])
        return [(part.cpu().numpy(), mean.cpu().numpy()) for part, mean in zip(outputs, features, strict=True)]

    def rows(self, x: PerElement[Tensor | None], topology: PackedComplex) -> Tensor:
        """Probabilities or values from the encoder features of a batch."""
        rows: Tensor = self.model.head(x, topology).float()
        if self.config.task != "regression":
            return rows.softmax(dim=1)
        return rows if self.values is None else self.values(rows)


@dataclass(frozen=True, eq=False)
class FeatureForward(Forward):
    """Outputs the features that the last layer reads, on any kind of element, instead of an answer."""

    element: Element = "vertex"

    @cached_property
    def config(self) -> ModelConfig:
        own = self.model.config
        return own.replace(task="regression", element=self.element, n_classes=own.d_model * len(own.updated))

    def rows(self, x: PerElement[Tensor | None], topology: PackedComplex) -> Tensor:
        kind = self.config.target_kind
        parts = ((k, cast(Tensor, x[k])) for k in self.config.updated)
        if kind is None:
            return torch.cat([segment_mean(part, topology.offsets[k]) for k, part in parts], dim=1)
        return torch.cat([topology.carry(part, source=k, target=kind) for k, part in parts], dim=1)
