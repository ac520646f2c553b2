"""One mesh on its way through the model: read, simplified, turned, prepared; and the answer on its way back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.checkpoint import Checkpoint
from hodgeformer.containers import ElementKind
from hodgeformer.data.augment import AugmentConfig, random_rotation, rotation_about
from hodgeformer.data.colors import class_colors
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.pose import n_frames
from hodgeformer.mesh.prepare import PreparedMesh, prepare
from hodgeformer.mesh.simplify import Simplified, simplify
from hodgeformer.predict.familiarity import far_from_training
from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.result import Result
from hodgeformer.predict.smooth import smoothed

MeshLike = Mesh | str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Job:
    """A mesh ready for the model. `views` are the prepared meshes whose outputs are averaged."""

    mesh: Mesh
    path: Path | None
    simplified: Simplified | None
    views: tuple[PreparedMesh, ...]
    warnings: tuple[str, ...]

    @property
    def n_faces(self) -> int:
        return sum(view.n.f for view in self.views)


def make_job(given: MeshLike, checkpoint: Checkpoint, options: PredictOptions, n_threads: int | None = None) -> Job:
    """Everything that comes before the model; `n_threads` by default all there are."""
    path = None if isinstance(given, Mesh) else Path(given)
    mesh = given if isinstance(given, Mesh) else load_mesh(given)
    simplified = None
    if options.max_faces is not None and mesh.n_faces > options.max_faces:
        simplified = simplify(mesh, options.max_faces)
    seen = mesh if simplified is None else simplified.mesh
    views = tuple(
        prepare(turned, checkpoint.prepare, frame=frame, n_threads=n_threads)
        for turned in _turned(seen, options, _rotation_axis(checkpoint))
        for frame in range(n_frames(checkpoint.prepare.pose))
    )
    return Job(mesh, path, simplified, views, far_from_training(seen, checkpoint.statistics))


def finish_job(job: Job, outputs: Sequence[NDArray[Any]], checkpoint: Checkpoint, options: PredictOptions) -> Result:
    """The mean over the views, smoothed, on the element asked for, on the original mesh."""
    model = checkpoint.model
    kind = model.target_kind
    mean: NDArray[Any] = np.asarray(np.mean(outputs, axis=0, dtype=np.float64))
    if kind is not None:
        mean = _on_original(job, mean, kind)
        if options.smooth > 0 and model.task == "segmentation":
            mean = smoothed(mean, job.mesh, kind=kind, strength=options.smooth)
    result = Result(
        mesh=job.mesh,
        task=model.task,
        element=model.element,
        outputs=mean.astype(np.float32),
        names=checkpoint.classes,
        colors=checkpoint.colors or class_colors(len(checkpoint.classes)),
        warnings=job.warnings,
        path=job.path,
    )
    return result if options.element is None else result.on(options.element)


def _on_original(job: Job, values: NDArray[Any], kind: ElementKind) -> NDArray[Any]:
    if job.simplified is None:
        return values
    return job.simplified.values_back(values, kind)


def _turned(mesh: Mesh, options: PredictOptions, axis: FloatArray | None) -> list[Mesh]:
    """The mesh as it is, then turned at random, the same way for every mesh."""
    rng = np.random.default_rng(options.seed)
    turned = [mesh]
    for _ in range(options.tta - 1):
        turn = random_rotation(rng) if axis is None else rotation_about(axis, rng.uniform(0, 2 * np.pi))
        turned.append(mesh.with_vertices(mesh.vertices @ turn.T))
    return turned


def _rotation_axis(checkpoint: Checkpoint) -> FloatArray | None:
    """The axis that training turned about; None for any rotation."""
    augment = checkpoint.training.get("augment")
    config = AugmentConfig.parse(augment) if isinstance(augment, dict) else AugmentConfig()
    return np.eye(3)["xyz".index(config.axis)] if config.rotation == "axis" else None
