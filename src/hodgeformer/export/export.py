"""Write a trained model as an ONNX graph, after comparing it with PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import write_atomically
from hodgeformer.data.figures import figure
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.checkpoint import Checkpoint
from hodgeformer.predict.exported import FORMAT, KEY, GraphInputs, OnnxNetwork, onnx_session
from hodgeformer.predict.inference import make_views

_SIZES = (300, 1200, 4000)  # faces of the meshes that a model is checked on
TOLERANCE = 1e-4

Run = Callable[[PreparedMesh], NDArray[Any]]


@dataclass(frozen=True)
class Parity:
    """The largest differences between the exported model and PyTorch in double precision on a mesh.

    `difference` is that of logits, or of the values of a regression; `scale` is the size of the largest of them, at
    least one. `answer` is the difference of probabilities, or of values. `rounding` is the difference of PyTorch in
    single precision, which no float32 program can be expected to beat by much.
    """

    n_faces: int
    difference: float
    scale: float
    answer: float
    rounding: float

    @property
    def allowed(self) -> float:
        return max(TOLERANCE * self.scale, 3 * self.rounding)


def export(checkpoint: Checkpoint, path: Path) -> list[Parity]:
    """Write the model, only if its answers match those of PyTorch on meshes of three sizes."""
    model = checkpoint.build_model()
    content, run = _onnx(checkpoint, model)
    found = [_parity(model, run, view) for view in _views(checkpoint)]
    worst = max(found, key=lambda parity: parity.difference / parity.allowed)
    if not worst.difference <= worst.allowed:
        raise CheckpointError(
            f"{checkpoint.name}: the exported model differs from PyTorch by {worst.difference:.2g} on a mesh of "
            f"{worst.n_faces:,} faces, and {worst.allowed:.2g} is allowed; nothing was written"
        )
    write_atomically(path, content)
    return found


def _onnx(checkpoint: Checkpoint, model: HodgeFormer) -> tuple[bytes, Run]:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise ConfigError("exporting to ONNX needs onnx and onnxruntime: pip install 'hodgeformer[export]'") from None
    from onnx import checker, helper

    from hodgeformer.export.onnx_model import onnx_model

    graph = onnx_model(model)
    helper.set_model_props(graph, {KEY: _settings(checkpoint)})
    checker.check_model(graph)
    content: bytes = graph.SerializeToString()
    network = OnnxNetwork(model.config, onnx_session(content))
    return content, lambda view: network.run(GraphInputs(view, model.config.d_model))[0][:, 0]


def _settings(checkpoint: Checkpoint) -> str:
    """The settings as `ModelInfo` reads them."""
    return json.dumps({"format": FORMAT, **checkpoint.model_dump(mode="json")})


def _views(checkpoint: Checkpoint) -> Iterator[PreparedMesh]:
    """Views of synthetic bodies of three sizes."""
    for number, n_faces in enumerate(_SIZES):
        rng = np.random.default_rng(number)
        mesh, _ = figure(rng, n_faces=n_faces)
        mesh = mesh.with_columns(checkpoint.prepare.typical_columns(mesh.n_vertices, rng))
        yield make_views(mesh, checkpoint.at("original"), model=checkpoint.model).prepared[0]


@torch.no_grad()
def _parity(model: HodgeFormer, run: Run, view: PreparedMesh) -> Parity:
    batch, found = pack([view]), torch.from_numpy(run(view))
    single, expected = model.float()(batch), model.double()(batch.to(dtype=torch.float64))
    difference, rounding = (float((rows - expected).abs().max()) for rows in (found, single))
    scale = max(1.0, float(expected.abs().max()))
    if model.config.task != "regression":
        expected, found = expected.softmax(1), found.softmax(1)
    return Parity(view.n.f, difference, scale, answer=float((found - expected).abs().max()), rounding=rounding)
