"""Predictions in the background: a few at once, the others wait their turn, each scene gets its own result."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from hodgeformer.errors import HodgeFormerError
from hodgeformer.viewer.models import Shelf
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Progress, Scene, SceneStore

MAX_AT_ONCE = 2
MAX_WAITING = 32


class Predictions:
    """Runs models over scenes in threads. Asking again for the same scene replaces what was asked before."""

    def __init__(self, shelf: Shelf, scenes: SceneStore) -> None:
        self._shelf, self._scenes = shelf, scenes
        self._pool = ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="predict")
        self._lock = threading.Lock()
        self._pending = 0

    def start(self, scene: Scene, model: str) -> None:
        self._shelf.check_name(model)
        with self._lock:
            if self._pending >= MAX_WAITING:
                raise Refusal(503, f"{self._pending} predictions are waiting already; try again in a minute.")
            self._pending += 1
            scene.run += 1
            scene.progress = Progress("waiting")
        self._pool.submit(self._run, scene, model, scene.run)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, scene: Scene, model: str, run: int) -> None:
        def report(stage: str, fraction: float | None = None) -> None:
            if scene.run == run:
                scene.progress = Progress(stage, fraction)

        try:
            if scene.run != run or not self._scenes.holds(scene):
                return
            report("loading the model")
            predictor = self._shelf.model(model)
            report("preparing the mesh")
            prediction = predictor.predict(scene.mesh, lambda fraction: report("predicting", fraction))
            if scene.run == run:
                scene.prediction, scene.progress = prediction, Progress("done", 1.0)
        except HodgeFormerError as error:
            scene.progress = Progress("failed", error=str(error))
        except MemoryError:
            scene.progress = Progress("failed", error="There is not enough memory for this mesh; simplify it first.")
        except Exception as error:
            scene.progress = Progress("failed", error=f"The prediction stopped: {type(error).__name__}: {error}")
            raise
        finally:
            with self._lock:
                self._pending -= 1
