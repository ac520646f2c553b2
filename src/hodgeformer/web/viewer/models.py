"""The models a person can pick from: named beforehand, read when first used, run in the background."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import Faces
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.inference import Report, Views, make_views
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.pretrained import bundled_models
from hodgeformer.predict.result import Result
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.open_meshes import OpenMesh, OpenMeshes, Prediction, PredictionProgress

MAX_LOADED = 3
MAX_AT_ONCE = 2
MAX_WAITING = 32

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The last few results of slow work, made one at a time, so that asking again is quick."""

    def __init__(self, n: int, lock: threading.Lock | None = None) -> None:
        self._n, self._lock = n, lock or threading.Lock()
        self._made: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            self._made.move_to_end(key)
            while len(self._made) > self._n:
                self._made.popitem(last=False)
            return self._made[key]


class ViewerModel:
    """A predictor that answers for faces."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    @cached_property
    def network(self) -> HodgeFormer | None:
        """For looking inside, of several models into the first; an exported one cannot be looked into."""
        checkpoint = self._predictor.members[0].checkpoint
        # Not the one that predicts: hooks that look inside must not meet a prediction that runs at the same time.
        return None if checkpoint is None else checkpoint.build_model()

    def see(self, mesh: Mesh, faces: Faces, *, most_faces: int | None = None, surface: bool = False) -> Views:
        """The mesh as the first view of a prediction has it; its `surface` alone has no patterns and few features.

        Where the model worked on more than `most_faces`, nothing is prepared and the request is refused.
        """
        config = self._predictor.info.at(faces)
        n = config.working(PerElement(mesh.n_vertices, 0, mesh.n_faces)).f
        if most_faces is not None and n > most_faces:
            raise Refusal(
                422,
                f"The model worked on {n:,} faces, and this layer supports {most_faces:,} at most. Choose a coarser "
                "resolution and predict again.",
            )
        if config.pose == "frame_average":
            config = config.replace(pose="frame")  # the first of the frames, without the others
        model = self._predictor.info.model
        if surface:
            config, model = config.replace(features=("coords",)), model.replace(blocks="T")  # which reads no patterns
        return make_views(mesh, config, model=model)

    def predict(self, mesh: Mesh, faces: Faces, report: Report) -> Result:
        """The answer for every face, or for the mesh; `report` is told the fraction of the work that is done."""
        if self._predictor.info.model.task == "regression":
            name = self._predictor.info.name
            raise ConfigError(f"'{name}' predicts values, not classes; use `hodgeformer predict` for it")
        result = self._predictor.predict(mesh, faces=faces, report=report)
        return result if result.element in ("face", "mesh") else result.on("face")


@dataclass(frozen=True)
class OfferedModel:
    """A model on the shelf: how it is read, what to say of it, and where it is."""

    load: Callable[[], ViewerModel]
    description: str = ""
    where: str | Path = ""


def offered(where: str | Path, description: str) -> OfferedModel:
    """A model that is read when it is first used."""
    return OfferedModel(lambda: ViewerModel(Predictor.load(where)), description, where)


def offered_models(given: str | None) -> dict[str, OfferedModel]:
    """The model that was asked for, first, and the bundled ones."""
    bundled = bundled_models()
    first = {}
    if given is not None and (given not in bundled or Path(given).exists()):
        first[shelf_name(given)] = offered(given, str(Path(given).resolve()) if Path(given).exists() else given)
    return first | {m.name: offered(m.path, m.summary) for m in bundled.values() if m.name not in first}


def shelf_name(given: str) -> str:
    """How a model is called in the list: a bundled name, the run's folder, or the file without suffix."""
    path = Path(given)
    if path.is_file():
        return path.resolve().parent.name if path.stem in ("best", "last", "model") else path.stem
    return path.resolve().name if path.exists() else given


class Shelf:
    """Models by name. A request can only name what lies here, never a path.

    `inside` is held while a model runs to be looked into, so that hooks of two requests do not meet.
    """

    def __init__(self, offered: Mapping[str, OfferedModel]) -> None:
        self.offered = dict(offered)
        self.inside = threading.Lock()
        self._loaded: Recent[str, ViewerModel] = Recent(MAX_LOADED)

    def check_name(self, name: str) -> None:
        if name not in self.offered:
            raise Refusal(404, f"There is no model '{name[:80]}'; pick one of the list.")

    def model(self, name: str) -> ViewerModel:
        """The model, read from disk if it is not in memory."""
        self.check_name(name)
        return self._loaded.get(name, self.offered[name].load)


class Predictions:
    """Runs models over open meshes in threads, a few at once. Asking again for a mesh replaces what was asked."""

    def __init__(self, shelf: Shelf, meshes: OpenMeshes) -> None:
        self._shelf, self._meshes = shelf, meshes
        self._pool = ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="predict")
        self._lock = threading.Lock()
        self._pending = 0

    def start(self, opened: OpenMesh, model: str, faces: Faces = "auto") -> None:
        self._shelf.check_name(model)
        with self._lock:
            if self._pending >= MAX_WAITING:
                raise Refusal(503, f"{self._pending} predictions are waiting already; try again in a minute.")
            self._pending += 1
            opened.run = run = opened.run + 1
            opened.progress = PredictionProgress("waiting")
        self._pool.submit(self._run, opened, model, faces, run)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, opened: OpenMesh, model: str, faces: Faces, run: int) -> None:
        def report(
            stage: str, fraction: float | None = None, error: str | None = None, found: Prediction | None = None
        ) -> None:
            with self._lock:
                if opened.run == run:  # what was replaced says no more, whether it ends well or badly
                    opened.prediction = found or opened.prediction
                    opened.progress = PredictionProgress(stage, fraction, error)

        try:
            if opened.run != run or not self._meshes.holds(opened):
                return
            report("loading the model")
            predictor = self._shelf.model(model)
            report("preparing the mesh")
            result = predictor.predict(opened.mesh, faces, lambda fraction: report("predicting", fraction))
            report("done", 1.0, found=Prediction(model, result, faces))
        except HodgeFormerError as error:
            report("failed", error=str(error))
        except MemoryError:
            report("failed", error="There is not enough memory for this mesh; simplify it first.")
        except Exception as error:
            report("failed", error=f"The prediction stopped: {type(error).__name__}: {error}")
            raise
        finally:
            with self._lock:
                self._pending -= 1
