"""Trained models in PyTorch: their files, and how they answer prepared views [NumPy becomes torch, and torch NumPy].

A file has the weights (safetensors) and every setting that prediction needs (JSON in its header). It is written
completely or not at all, and nothing is ever unpickled. A digest of settings and weights detects damage. Models that
were exported are in `exported.py`.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import torch
from pydantic import ConfigDict, Field, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hodgeformer.base.containers import Element, PerElement
from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import write_atomically
from hodgeformer.base.version import __version__
from hodgeformer.kernels.rows import few_threads
from hodgeformer.kernels.segments import segment_mean
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.inference import Output, Views
from hodgeformer.predict.model_info import ModelInfo

FORMAT = 1
_KEY = "hodgeformer"
_KIND = "model"
_FITTED: dict[str, Any] = {"temperature": 1.0, "smooth": 0.0, "familiarity": None, "heights": []}


class Checkpoint(ModelInfo):
    """A trained model: its weights, and everything needed to use them."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    weights: Mapping[str, Tensor] = Field(exclude=True, repr=False, description="The weights of the network, by name.")
    versions: dict[str, str] = Field(
        default_factory=lambda: versions(),  # noqa: PLW0108 - defined below
        description="Versions of the software that wrote the file.",
    )

    @model_validator(mode="after")
    def _enough_weights(self) -> Self:
        if len(self.model.blocks) > len(self.weights):
            raise ValueError(f"{len(self.model.blocks)} blocks, but only {len(self.weights)} weights")
        return self

    def build_model(self) -> HodgeFormer:
        """The model with these weights, ready to predict."""
        with torch.device("meta"):  # only shapes, so that wrong settings cost no memory
            model = HodgeFormer(self.model)
        expected, found = model.state_dict(), self.weights
        form = {name: (weight.shape, weight.is_floating_point()) for name, weight in found.items()}
        wanted = {name: (weight.shape, weight.is_floating_point()) for name, weight in expected.items()}
        different = sorted({name for name, _ in form.items() ^ wanted.items()})
        if different:
            raise CheckpointError(
                f"{self.path or self.name}: the weights do not match the settings ({len(different)} tensors, first "
                f"'{different[0]}'); the file was written by hodgeformer {self.versions.get('hodgeformer', '?')}, "
                f"this is {__version__}"
            )
        model.load_state_dict({name: weight.clone() for name, weight in found.items()}, assign=True)
        return model.eval()


def versions() -> dict[str, str]:
    """Versions of the software that this process runs."""
    return {"hodgeformer": __version__, "torch": torch.__version__, "python": platform.python_version()}


def save_checkpoint(path: Path, checkpoint: Checkpoint, *, half: bool = False) -> None:
    """Write a checkpoint; `half` stores matrices as float16, which are read back as float32."""
    # Values that are fitted later are omitted until they are.
    header = checkpoint.model_dump(mode="json")
    header = {name: header[name] for name in header if name not in _FITTED or header[name] != _FITTED[name]}
    # Vectors (biases, running statistics) are small, and float16 would lose a small variance.
    weights = {
        name: tensor.half() if half and tensor.is_floating_point() and tensor.ndim > 1 else tensor
        for name, tensor in checkpoint.weights.items()
    }
    write_tensors(path, weights, header, kind=_KIND)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read what `save_checkpoint` wrote."""
    tensors, header = read_tensors(path, kind=_KIND)
    weights = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    broken = next((name for name, weight in weights.items() if not weight.isfinite().all()), None)
    if broken is not None:
        raise CheckpointError(f"{path}: '{broken}' contains NaN weights: the training run that wrote it diverged")
    settings = {name: header[name] for name in Checkpoint.model_fields if name in header}
    try:
        found = Checkpoint(**{**settings, "weights": weights, "path": path})
        if found.model.task != "regression" and not found.classes:
            raise ConfigError("the names of the classes are missing")
        return found
    except ConfigError as error:
        raise CheckpointError(f"{path}: the settings in the checkpoint are invalid ({error})") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any], *, kind: str) -> None:
    """Write tensors and a JSON header with a digest as one safetensors file, atomically."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = {"format": FORMAT, "kind": kind, **header}
    content["sha256"] = _digest(plain, content)
    write_atomically(path, save(plain, metadata={_KEY: json.dumps(content)}), CheckpointError)


def read_tensors(path: Path, *, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; checks format, kind and digest."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        header: dict[str, Any] = json.loads(metadata[_KEY]) if _KEY in metadata else {}
    except FileNotFoundError:
        raise CheckpointError(f"{path}: the checkpoint does not exist") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: not a readable safetensors file ({error!s:.200}); it may be truncated"
        ) from None
    if not isinstance(header, dict) or "format" not in header:
        raise CheckpointError(f"{path}: this safetensors file was not written by hodgeformer")
    if not isinstance(header["format"], int) or header["format"] > FORMAT:
        raise CheckpointError(
            f"{path}: checkpoint format {header['format']} is newer than this hodgeformer ({__version__}, "
            f"format {FORMAT}); update hodgeformer"
        )
    if header.get("kind") != kind:
        raise CheckpointError(f"{path}: expected a {kind} file, found a {header.get('kind')} file")
    expected = header.pop("sha256", None)
    if expected != _digest(tensors, header):
        raise CheckpointError(f"{path}: the content does not match its digest; the file is damaged or was modified")
    return tensors, header


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Forward:
    """A `Network`: all views in one packed pass, once for every frame that they represent."""

    model: HodgeFormer

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
        return rows if self.config.task == "regression" else rows.softmax(dim=1)


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
