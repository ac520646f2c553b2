"""The meshes that are open: each under an id that nobody guesses, the oldest given up when there are too many."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import UP_AXES, up_from_shape
from hodgeformer.mesh.prepare import Faces
from hodgeformer.predict.result import Result
from hodgeformer.web.server.intake import Refusal


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model of the shelf says of one mesh at a resolution: of its faces, or of the whole mesh."""

    model: str
    result: Result
    faces: Faces = "auto"


@dataclass(frozen=True)
class PredictionProgress:
    """How far a prediction is; `fraction` of the work, None while that is unknown."""

    stage: str = "idle"
    fraction: float | None = None
    error: str | None = None


@dataclass(eq=False)
class OpenMesh:
    """One open mesh and what was found about it.

    `corrected` are the labels that a person has put into the data set of the series; `held_out` ones are for the test.
    """

    mesh: Mesh
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    prediction: Prediction | None = None
    progress: PredictionProgress = PredictionProgress()
    run: int = 0
    saved_as: str | None = None
    corrected: IntArray | None = None
    held_out: bool | None = None

    def up(self, axis: str) -> FloatArray:
        """What points up: an axis, or with "auto" what a prediction found from the parts, or else from the shape."""
        if axis != "auto":
            return np.array(UP_AXES[axis], dtype=np.float64)
        return up_from_shape(self.mesh) if self.prediction is None else self.prediction.result.up

    @property
    def n_bytes(self) -> int:
        held = self.mesh.vertices.nbytes + self.mesh.faces.nbytes
        return held + (0 if self.prediction is None else self.prediction.result.outputs.nbytes)


class OpenMeshes:
    """The least recently used leave when there are more than `max_meshes` or `max_bytes`; pinned ones stay."""

    def __init__(self, *, max_meshes: int = 32, max_bytes: int = 2**30) -> None:
        self._held: OrderedDict[str, OpenMesh] = OrderedDict()
        self._pinned: set[str] = set()
        self._lock = threading.Lock()
        self._max_meshes, self._max_bytes = max_meshes, max_bytes

    def __len__(self) -> int:
        return len(self._held)

    def add(self, mesh: Mesh, *, pinned: bool = False) -> OpenMesh:
        opened = OpenMesh(mesh)
        with self._lock:
            self._held[opened.id] = opened
            if pinned:
                self._pinned.add(opened.id)
            self._shrink(keep=opened.id)
        return opened

    def find(self, mesh_id: str) -> OpenMesh | None:
        """The mesh, if it is still open; it then was used last."""
        with self._lock:
            opened = self._held.get(mesh_id)
            if opened is not None:
                self._held.move_to_end(mesh_id)
                self._shrink(keep=mesh_id)
        return opened

    def get(self, mesh_id: str) -> OpenMesh:
        opened = self.find(mesh_id)
        if opened is None:
            raise Refusal(410, "This mesh is no longer open on the server; drop the file again.")
        return opened

    def holds(self, opened: OpenMesh) -> bool:
        return opened.id in self._held

    def _shrink(self, keep: str) -> None:
        n_bytes = sum(opened.n_bytes for opened in self._held.values())
        for mesh_id in [name for name in self._held if name not in self._pinned and name != keep]:
            if len(self._held) <= self._max_meshes and n_bytes <= self._max_bytes:
                return
            n_bytes -= self._held.pop(mesh_id).n_bytes
