"""The open meshes, each under an id that cannot be guessed; above a limit the least recently used ones are closed."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from hodgeformer.base.settings import Faces
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import UP_AXES
from hodgeformer.mesh.up import up_from_shape
from hodgeformer.predict.result import Result
from hodgeformer.web.server.intake import Refusal


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer of a model for one mesh at a resolution: for its faces, or for the whole mesh."""

    model: str
    result: Result
    faces: Faces = "auto"


@dataclass(frozen=True)
class Progress:
    """The progress of a prediction or of a training, whose result is `model` and whose message is `told`.

    `fraction` is None while it is unknown.
    """

    stage: str = "idle"
    fraction: float | None = None
    error: str | None = None
    model: str | None = None
    told: str = ""


@dataclass(eq=False)
class OpenMesh:
    """One open mesh and its prediction.

    `corrected` are the labels that a person has put into the data set of the series; `held_out` ones are for the test.
    """

    mesh: Mesh
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    prediction: Prediction | None = None
    progress: Progress = Progress()
    run: int = 0
    saved_as: str | None = None
    corrected: IntArray | None = None
    held_out: bool | None = None

    def up(self, axis: str) -> FloatArray:
        """The up direction: an axis, or with "auto" guessed from the parts of the prediction, or from the shape."""
        if axis != "auto":
            return np.array(UP_AXES[axis], dtype=np.float64)
        return up_from_shape(self.mesh) if self.prediction is None else self.prediction.result.up

    @property
    def n_bytes(self) -> int:
        mesh = self.mesh.vertices.nbytes + self.mesh.faces.nbytes
        return mesh + (0 if self.prediction is None else self.prediction.result.outputs.nbytes)


class OpenMeshes:
    """Closes the least recently used meshes above `max_meshes` or `max_bytes`, except pinned ones."""

    def __init__(self, *, max_meshes: int = 32, max_bytes: int = 2**30) -> None:
        self._open: OrderedDict[str, OpenMesh] = OrderedDict()
        self._pinned: set[str] = set()
        self._lock = threading.Lock()
        self._max_meshes, self._max_bytes = max_meshes, max_bytes

    def __len__(self) -> int:
        return len(self._open)

    def add(self, mesh: Mesh, *, pinned: bool = False) -> OpenMesh:
        opened = OpenMesh(mesh)
        with self._lock:
            self._open[opened.id] = opened
            if pinned:
                self._pinned.add(opened.id)
            self._shrink(keep=opened.id)
        return opened

    def find(self, mesh_id: str) -> OpenMesh | None:
        """The mesh, if it is still open; it becomes the most recently used."""
        with self._lock:
            opened = self._open.get(mesh_id)
            if opened is not None:
                self._open.move_to_end(mesh_id)
                self._shrink(keep=mesh_id)
        return opened

    def get(self, mesh_id: str) -> OpenMesh:
        opened = self.find(mesh_id)
        if opened is None:
            raise Refusal(410, "This mesh is no longer open on the server; drop the file again.")
        return opened

    def holds(self, opened: OpenMesh) -> bool:
        return opened.id in self._open

    def _shrink(self, keep: str) -> None:
        n_bytes = sum(opened.n_bytes for opened in self._open.values())
        for mesh_id in [name for name in self._open if name not in self._pinned and name != keep]:
            if len(self._open) <= self._max_meshes and n_bytes <= self._max_bytes:
                return
            n_bytes -= self._open.pop(mesh_id).n_bytes
