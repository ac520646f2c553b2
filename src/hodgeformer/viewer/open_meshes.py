"""The meshes that are open: each under an id that nobody guesses, the oldest given up when there are too many."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hodgeformer.data.colors import RGB
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.viewer.refusal import Refusal


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says of one mesh: probabilities (n_faces, n_classes), or (1, n_classes) of the whole mesh."""

    model: str
    task: str
    classes: tuple[str, ...]
    colors: tuple[RGB, ...]
    probabilities: NDArray[np.float32]
    warnings: tuple[str, ...] = ()

    @property
    def labels(self) -> IntArray:
        labels: IntArray = self.probabilities.argmax(axis=1).astype(np.int64)
        return labels


@dataclass(frozen=True)
class Progress:
    """How far a prediction is; `fraction` of the work, None while that is unknown."""

    stage: str = "idle"
    fraction: float | None = None
    error: str | None = None


@dataclass(eq=False)
class Scene:
    """One open mesh and what was found about it."""

    mesh: Mesh
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    prediction: Prediction | None = None
    progress: Progress = Progress()
    run: int = 0
    saved_as: str | None = None

    @property
    def n_bytes(self) -> int:
        held = self.mesh.vertices.nbytes + self.mesh.faces.nbytes
        return held + (0 if self.prediction is None else self.prediction.probabilities.nbytes)


class SceneStore:
    """Least recently used scenes leave when there are more than `max_scenes` or `max_bytes`; pinned ones stay."""

    def __init__(self, *, max_scenes: int = 32, max_bytes: int = 2**30) -> None:
        self._scenes: OrderedDict[str, Scene] = OrderedDict()
        self._pinned: set[str] = set()
        self._lock = threading.Lock()
        self._max_scenes, self._max_bytes = max_scenes, max_bytes

    def __len__(self) -> int:
        return len(self._scenes)

    def add(self, mesh: Mesh, *, pinned: bool = False) -> Scene:
        scene = Scene(mesh)
        with self._lock:
            self._scenes[scene.id] = scene
            if pinned:
                self._pinned.add(scene.id)
            self._shrink(keep=scene.id)
        return scene

    def get(self, scene_id: str) -> Scene:
        with self._lock:
            scene = self._scenes.get(scene_id)
            if scene is None:
                raise Refusal(410, "This mesh is no longer open on the server; drop the file again.")
            self._scenes.move_to_end(scene_id)
            self._shrink(keep=scene_id)
        return scene

    def holds(self, scene: Scene) -> bool:
        return scene.id in self._scenes

    def _shrink(self, keep: str) -> None:
        held = sum(scene.n_bytes for scene in self._scenes.values())
        for scene_id in [name for name in self._scenes if name not in self._pinned and name != keep]:
            if len(self._scenes) <= self._max_scenes and held <= self._max_bytes:
                return
            held -= self._scenes.pop(scene_id).n_bytes
