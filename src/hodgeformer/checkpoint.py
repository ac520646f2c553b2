"""A trained model in one file: weights (safetensors) and every setting that prediction needs (JSON in its header).

Files are written whole or not at all, and nothing is ever unpickled. A digest over settings and weights shows damage.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hodgeformer import __version__
from hodgeformer.containers import ElementKind
from hodgeformer.errors import CheckpointError, ConfigError
from hodgeformer.familiarity import Familiarity
from hodgeformer.files import write_atomically
from hodgeformer.mesh.elements import radius, unit_edge_lengths
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import Faces, PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.settings import Settings

FORMAT = 1
_KEY = "hodgeformer"
_KIND = "model"

# How far a mesh may be from the training meshes before it is worth a word.
_FACES_FACTOR = 3.0
_LENGTH_FACTOR = 2.0
_SIZE_FACTOR = 1000.0  # meshes are scaled to one size, so only an absurd one


class DataStatistics(Settings):
    """What the training meshes were like, so that a very different mesh can be told.

    `n` holds minimum, median and maximum of the element counts per kind; `size` the same of the meshes' radius in file
    units; `edge_length` the 5, 25, 50, 75 and 95 % quantiles of edge lengths on the unit sphere. `shapes` are the first
    digits of the hash of each mesh, by which it is known again.
    """

    n_meshes: int
    n: dict[ElementKind, tuple[float, float, float]]
    size: tuple[float, float, float]
    edge_length: tuple[float, float, float, float, float]
    shapes: tuple[str, ...] = ()

    def unlike(self, mesh: Mesh) -> tuple[str, ...]:
        """What sets a mesh, as the model gets it, apart from the training meshes, one sentence each."""
        found = []
        low, _, high = self.n["f"]
        if mesh.n_faces > _FACES_FACTOR * high:
            found.append(
                f"{mesh.n_faces:,} faces, the training meshes had {low:,.0f} to {high:,.0f}; faces = auto simplifies"
            )
        elif mesh.n_faces < low / _FACES_FACTOR:
            found.append(f"{mesh.n_faces:,} faces, the training meshes had {low:,.0f} to {high:,.0f}")
        median = float(np.median(unit_edge_lengths(mesh)))
        q5, *_, q95 = self.edge_length
        if not q5 / _LENGTH_FACTOR <= median <= q95 * _LENGTH_FACTOR:
            found.append(
                f"edges of median length {median:.3g} of the mesh's radius, those of the training meshes were mostly "
                f"{q5:.3g} to {q95:.3g}"
            )
        smallest, _, largest = self.size
        if not smallest / _SIZE_FACTOR <= (size := radius(mesh)) <= largest * _SIZE_FACTOR:
            found.append(
                f"a radius of {size:.3g}, the training meshes had {smallest:.3g} to {largest:.3g}; "
                "this is harmless if only the unit differs"
            )
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained model with all that belongs to it. Task and element are those of `model`.

    `prepare` includes pose and the seed of the random connections. `metrics` are named with element and weighting.
    `temperature` makes probabilities mean what they say, `familiarity` knows what meshes the model is for, `heights`
    tell where its classes usually lie over the center of a mesh: all fitted to meshes it has not learned from.
    `training` is the resolved configuration of the run, `versions` the software that wrote the file.
    """

    model: ModelConfig
    prepare: PrepareConfig
    weights: Mapping[str, Tensor]
    name: str = "model"
    classes: tuple[str, ...] = ()
    colors: tuple[tuple[int, int, int], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    statistics: DataStatistics | None = None
    temperature: float = 1.0
    familiarity: Familiarity | None = None
    heights: tuple[float, ...] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=lambda: versions())  # noqa: PLW0108 - defined below

    @property
    def turn_axis(self) -> FloatArray | None:
        """The axis that training turned meshes about; None for any rotation."""
        augment = self.training.get("augment")
        if not isinstance(augment, dict) or augment.get("rotation") != "axis":
            return None
        axis: FloatArray = np.eye(3)["xyz".index(augment.get("axis", "y"))]
        return axis

    def at(self, faces: Faces | str = "auto") -> PrepareConfig:
        """How meshes are prepared at a resolution.

        "auto" is that of training: no more faces than the largest mesh had, and, by half, no fewer than the smallest.
        """
        if faces != "auto":
            return self.prepare.replace(faces=faces)
        if self.statistics is None:
            return self.prepare
        low, _, high = self.statistics.n["f"]
        # Runs from before there was a resolution know how large their meshes were.
        most = self.prepare.most_faces or max(4, round(high))
        return self.prepare.replace(faces=most, least_faces=min(most, int(low)))

    def build_model(self) -> HodgeFormer:
        """The model with these weights, ready to predict."""
        model = HodgeFormer(self.model)
        expected, found = model.state_dict(), self.weights
        different = sorted(set(expected) ^ set(found)) or sorted(
            name for name in expected if expected[name].shape != found[name].shape
        )
        if different:
            raise CheckpointError(
                f"the weights of '{self.name}' do not fit its settings ({len(different)} tensors, first "
                f"'{different[0]}'); it was written by hodgeformer {self.versions.get('hodgeformer', '?')}, "
                f"this is {__version__}"
            )
        model.load_state_dict(dict(found))
        return model.eval()


def versions() -> dict[str, str]:
    """The software this process runs."""
    return {"hodgeformer": __version__, "torch": torch.__version__, "python": platform.python_version()}


def save_checkpoint(path: Path, checkpoint: Checkpoint, *, half: bool = False) -> None:
    """Write a checkpoint; `half` stores matrices as float16, which are float32 again after reading."""
    header: dict[str, Any] = {
        "model": checkpoint.model.model_dump(mode="json"),
        "prepare": checkpoint.prepare.model_dump(mode="json"),
        "name": checkpoint.name,
        "classes": list(checkpoint.classes),
        "colors": [list(color) for color in checkpoint.colors],
        "metrics": dict(checkpoint.metrics),
        "statistics": checkpoint.statistics and checkpoint.statistics.model_dump(mode="json"),
        "training": dict(checkpoint.training),
        "versions": dict(checkpoint.versions),
    }
    fitted = {
        "temperature": checkpoint.temperature,
        "familiarity": checkpoint.familiarity and checkpoint.familiarity.model_dump(mode="json"),
        "heights": list(checkpoint.heights),
    }
    header |= {name: value for name, value in fitted.items() if value not in (1.0, None, [])}
    # Vectors (biases, running statistics) cost little, and a small variance would not survive.
    weights = {
        name: tensor.half() if half and tensor.is_floating_point() and tensor.ndim > 1 else tensor
        for name, tensor in checkpoint.weights.items()
    }
    write_tensors(path, weights, header, kind=_KIND)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read what `save_checkpoint` wrote."""
    tensors, header = read_tensors(path, kind=_KIND)
    try:
        statistics, familiarity = header["statistics"], header.get("familiarity")
        return Checkpoint(
            model=ModelConfig.parse(header["model"]),
            prepare=PrepareConfig.parse(header["prepare"]),
            weights={name: t.float() if t.is_floating_point() else t for name, t in tensors.items()},
            name=header["name"],
            classes=tuple(header["classes"]),
            colors=tuple((r, g, b) for r, g, b in header["colors"]),
            metrics=header["metrics"],
            statistics=None if statistics is None else DataStatistics.parse(statistics),
            temperature=float(header.get("temperature", 1.0)),
            familiarity=None if familiarity is None else Familiarity.parse(familiarity),
            heights=tuple(header.get("heights", ())),
            training=header["training"],
            versions=header["versions"],
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{path}: the settings in the checkpoint make no sense ({error})") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any], *, kind: str) -> None:
    """Tensors and a JSON header in one safetensors file, digest included, replaced in one go."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = {"format": FORMAT, "kind": kind, **header}
    content["sha256"] = _digest(plain, content)
    write_atomically(path, save(plain, metadata={_KEY: json.dumps(content)}), CheckpointError)


def read_tensors(path: Path, *, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote, checked: file, format, kind, digest."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        header: dict[str, Any] = json.loads(metadata[_KEY]) if _KEY in metadata else {}
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such checkpoint") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not a readable safetensors file ({error}); it may be cut off") from None
    if not isinstance(header, dict) or "format" not in header:
        raise CheckpointError(f"{path}: a safetensors file, but not one that hodgeformer wrote")
    if not isinstance(header["format"], int) or header["format"] > FORMAT:
        raise CheckpointError(
            f"{path}: checkpoint format {header['format']} is newer than this hodgeformer ({__version__}, "
            f"format {FORMAT}); update it"
        )
    if header.get("kind") != kind:
        raise CheckpointError(f"{path}: expected a {kind} file, found a {header.get('kind')} file")
    expected = header.pop("sha256", None)
    if expected != _digest(tensors, header):
        raise CheckpointError(f"{path}: the content does not match its digest; the file is damaged or was changed")
    return tensors, header


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
