"""Trained models as the viewer wants them: predictions per face, told how far they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hodgeformer.errors import ConfigError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import n_frames
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.models.bundled import bundled_models
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict import PredictOptions, Predictor
from hodgeformer.viewer.models import Entry
from hodgeformer.viewer.scenes import Prediction

Report = Callable[[float], None]


class ViewerModel:
    """A predictor that answers for faces. Meshes above `max_faces` are simplified and the answer is carried back."""

    def __init__(self, name: str, predictor: Predictor, *, max_faces: int | None) -> None:
        self._name, self._predictor, self._max_faces = name, predictor, max_faces
        self._passes = _Passes(predictor.model)

    @cached_property
    def network(self) -> HodgeFormer:
        # Not the one that predicts: hooks that look inside must not meet a prediction that runs at the same time.
        return self._predictor.checkpoint.build_model()

    @property
    def preparation(self) -> PrepareConfig:
        return self._predictor.checkpoint.prepare

    def predict(self, mesh: Mesh, report: Report) -> Prediction:
        options = PredictOptions(max_faces=self._max_faces)
        warnings: tuple[str, ...] = ()
        if self._max_faces is not None and mesh.n_faces > self._max_faces:
            warnings = (f"Predicted on a copy with {self._max_faces:,} faces and carried back.",)
        with self._passes.reported(report, self._n_passes(mesh, options)):
            result = self._predictor.predict(mesh, max_faces=self._max_faces)
        if result.task == "regression":
            raise ConfigError(f"'{self._name}' predicts values, not classes; use `hodgeformer predict` for it")
        if result.element not in ("face", "mesh"):
            result = result.on("face")
        return Prediction(
            model=self._name,
            task=result.task,
            classes=result.names,
            colors=result.colors,
            probabilities=np.ascontiguousarray(result.probabilities, dtype=np.float32),
            warnings=warnings + tuple(f"Unlike the training meshes: {text}" for text in result.warnings),
        )

    def _n_passes(self, mesh: Mesh, options: PredictOptions) -> int:
        n_faces = min(mesh.n_faces, self._max_faces or mesh.n_faces)
        return -(-n_frames(self.preparation.pose) // max(1, options.batch_faces // n_faces))


class _Passes:
    """Tells the thread that runs the model which share of the blocks it has passed."""

    def __init__(self, network: HodgeFormer) -> None:
        self._here = threading.local()
        self._n_blocks = len(network.encoder.blocks)
        network.register_forward_pre_hook(self._tell)
        for block in network.encoder.blocks:
            block.register_forward_hook(self._pass)

    @contextmanager
    def reported(self, report: Report, n_passes: int) -> Iterator[None]:
        self._here.report, self._here.total, self._here.done = report, n_passes * self._n_blocks, 0
        try:
            yield
        finally:
            del self._here.report

    def _pass(self, *_: Any) -> None:
        if hasattr(self._here, "report"):
            self._here.done += 1
            self._tell()

    def _tell(self, *_: Any) -> None:
        if hasattr(self._here, "report"):
            self._here.report(min(1.0, self._here.done / self._here.total))


def model_entries(given: str | None, *, max_faces: int | None) -> dict[str, Entry]:
    """The model that was asked for, first, and the bundled ones."""

    def entry(name: str, where: str | Path, description: str) -> Entry:
        return Entry(lambda: ViewerModel(name, Predictor.load(where), max_faces=max_faces), description)

    bundled = bundled_models()
    entries = {}
    if given is not None and (given not in bundled or Path(given).exists()):
        name = shelf_name(given)
        entries[name] = entry(name, given, str(Path(given).resolve()))
    entries.update({m.name: entry(m.name, m.path, m.summary) for m in bundled.values() if m.name not in entries})
    return entries


def shelf_name(given: str) -> str:
    """How a model is called in the list: a bundled name, the run's folder, or the file without suffix."""
    path = Path(given)
    if path.is_file():
        return path.resolve().parent.name if path.stem in ("best", "last", "model") else path.stem
    return path.resolve().name if path.exists() else given
