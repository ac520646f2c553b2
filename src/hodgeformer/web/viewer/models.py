"""The models that the page offers, loaded on first use, and predictions with them in the background."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.base.settings import Faces
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.predictor import Models, Predictor
from hodgeformer.predict.pretrained import bundled_models
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.server.line import Line, Report
from hodgeformer.web.viewer.open_meshes import OpenMesh, OpenMeshes, Prediction, Progress

MAX_LOADED = 3
MAX_AT_ONCE = 2
MAX_WAITING = 32

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The last few results of slow work, made one at a time."""

    def __init__(self, n: int) -> None:
        self._n, self._lock = n, threading.Lock()
        self._made: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            self._made.move_to_end(key)
            while len(self._made) > self._n:
                self._made.popitem(last=False)
            return self._made[key]


@dataclass(frozen=True)
class OfferedModel:
    """A model in the list of the page: its description, and where it is loaded from."""

    description: str
    source: Models


def offered_models(given: str | None) -> dict[str, OfferedModel]:
    """The model of the command line, first, and the bundled ones."""
    bundled = bundled_models()
    first = {}
    if given is not None and (given not in bundled or Path(given).exists()):
        description = str(Path(given).resolve()) if Path(given).exists() else given
        first[shown_name(given)] = OfferedModel(description, given)
    return first | {m.name: OfferedModel(m.summary, m.path) for m in bundled.values() if m.name not in first}


def shown_name(given: str) -> str:
    """The name of a model in the list: a bundled name, the run's folder, or the file without suffix."""
    path = Path(given)
    if path.is_file():
        return path.resolve().parent.name if path.stem in ("best", "last", "model") else path.stem
    return path.resolve().name if path.exists() else given


class ModelList:
    """Models by name, loaded on first use. A request can only name one of these, never a path."""

    def __init__(self, offered: Mapping[str, OfferedModel]) -> None:
        self.offered = dict(offered)
        self._predictors: Recent[str, Predictor] = Recent(MAX_LOADED)
        self._networks: Recent[str, HodgeFormer | None] = Recent(MAX_LOADED)

    def check_name(self, name: str) -> None:
        if name not in self.offered:
            raise Refusal(404, f"There is no model '{name[:80]}'; choose one from the list.")

    def predictor(self, name: str) -> Predictor:
        self.check_name(name)
        return self._predictors.get(name, lambda: Predictor.load(self.offered[name].source))

    def network(self, name: str) -> HodgeFormer | None:
        """The network to inspect, on the CPU; of an ensemble the first, and of an exported model none."""

        def build() -> HodgeFormer | None:
            checkpoint = self.predictor(name).members[0].checkpoint
            return None if checkpoint is None else checkpoint.build_model()

        return self._networks.get(name, build)


class Predictions:
    """Runs models on open meshes in the background. A new request for a mesh replaces the earlier one."""

    def __init__(self, models: ModelList, meshes: OpenMeshes) -> None:
        self._models, self._meshes = models, meshes
        self._line = Line(workers=MAX_AT_ONCE, places=MAX_WAITING)
        self._lock = threading.Lock()

    def start(self, opened: OpenMesh, model: str, faces: Faces = "auto") -> None:
        self._models.check_name(model)
        self._line.enter()
        with self._lock:
            opened.run = run = opened.run + 1
            opened.progress = Progress("waiting")
        begun = self._line.submit(partial(self._run, opened, model, faces, run))
        begun.add_done_callback(lambda _: self._line.leave())

    def close(self) -> None:
        self._line.close()

    def _run(self, opened: OpenMesh, model: str, faces: Faces, run: int, go_on: Report) -> None:
        def report(
            stage: str, fraction: float | None = None, error: str | None = None, found: Prediction | None = None
        ) -> None:
            with self._lock:
                if opened.run == run:  # a request that was replaced reports nothing more, not even its failure
                    opened.prediction = found or opened.prediction
                    opened.progress = Progress(stage, fraction, error)

        def predicting(share: float) -> None:
            go_on(share)
            report("predicting", share)

        try:
            if opened.run != run or not self._meshes.holds(opened):
                return
            report("loading the model")
            predictor = self._models.predictor(model)
            report("preparing the mesh")
            result = predictor.predict(opened.mesh, faces=faces, report=predicting)
            if result.task == "regression":
                raise ConfigError(f"'{model}' predicts values, not classes; use `hodgeformer predict` for it")
            shown = result if result.element in ("face", "mesh") else result.on("face")
            report("done", 1.0, found=Prediction(model, shown, faces))
        except HodgeFormerError as error:
            report("failed", error=str(error))
        except MemoryError:
            report("failed", error="There is not enough memory for this mesh; simplify it first.")
        except Exception as error:
            report("failed", error=f"The prediction stopped: {type(error).__name__}: {error}")
            raise
