"""From a mesh through a model and back: prepared views in, averaged answers out, in the order of the file.

Predictions, scores and the viewer's labels are all computed here, so that scores describe the answers that users get.
Only training steps, timings, comparisons of kernels or of an exported model with the original, and the inspection of
learned operators run the network directly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KINDS, ElementKind, PerElement
from hodgeformer.base.files import place
from hodgeformer.mesh.elements import smoothed
from hodgeformer.mesh.features import feature_widths
from hodgeformer.mesh.geometry import in_range
from hodgeformer.mesh.io import MeshLike, as_mesh, load_mesh
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.pose import frame_signs, n_frames
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.resized import Simplified
from hodgeformer.mesh.simplify import triangulations
from hodgeformer.mesh.subdivision import Refined, refine
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.options import UNLIMITED, FaceBudget

T = TypeVar("T")
Output = NDArray[np.float32]
Report = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Views:
    """A mesh as a model reads it: at the working resolution, rotated, in every frame of its pose, prepared.

    The answers for all views, `prepared`, are averaged; each represents `n_frames` frames that share everything but the
    signs of coordinates and normals. The views of a simplified mesh alternate between several triangulations of it,
    `sized`: none is exactly like the training meshes, but their mean answer is good. A pass has at most `room` faces.
    """

    mesh: Mesh
    sized: tuple[Simplified | Refined, ...]
    prepared: tuple[PreparedMesh, ...]
    config: PrepareConfig
    room: int
    n_frames: int = 1

    @property
    def working_mesh(self) -> Mesh:
        """The mesh of the first view; those of the other views have about as many faces."""
        return self.sized[0].mesh if self.sized else self.mesh

    @property
    def n_faces(self) -> int:
        """The number of faces of all views."""
        return self.working_mesh.n_faces * len(self.prepared)

    @property
    def column_signs(self) -> list[PerElement[FloatArray]]:
        """The signs of the columns of features, for each frame that a view represents."""
        groups = tuple(group for group in self.config.features if group in ("coords", "normals"))
        turned, widths = feature_widths(groups), self.config.widths  # the first columns

        def signs(frame: int, kind: ElementKind) -> FloatArray:
            return np.append(
                np.tile(frame_signs(self.config.pose, frame), turned[kind] // 3), np.ones(widths[kind] - turned[kind])
            )

        return [PerElement.build(partial(signs, frame)) for frame in range(self.n_frames)]

    def on_mesh(self, values: NDArray[Any], kind: ElementKind | None, view: int = 0) -> NDArray[Any]:
        """Transfer values per element of a view's mesh to the elements of the original mesh."""
        if not self.sized or kind is None:
            return values
        return self.sized[view % len(self.sized)].values_back(values, kind)


def is_file(given: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(given, str | os.PathLike) or hasattr(given, "read_bytes")  # remote paths are not PathLike


def loaded(given: MeshLike, budget: FaceBudget) -> Mesh:
    """The mesh of a file, which is refused if reading it exceeds the budget; other meshes as they are."""
    if not is_file(given):
        return as_mesh(given)
    budget.check_reading(place(given))
    return load_mesh(given)


def make_views(
    mesh: Mesh,
    config: PrepareConfig,
    *,
    model: ModelConfig | None = None,
    turns: Sequence[FloatArray] = (),
    upright: FloatArray | None = None,
    budget: FaceBudget | None = None,
    n_threads: int | None = None,
) -> Views:
    """Everything that comes before the model, at the resolution of the configuration.

    `turns` are rotations to use besides the pose of the file, `upright` is one that comes before them all. A mesh that
    exceeds the `budget` is refused. Each frame has its own canonical order; if the `model` does not read it, the first
    frame represents all of them. What the model does not read at all is not computed.
    """
    original, mesh = mesh, in_range(mesh.with_only_columns(config.own_columns))
    frames, reads_order = n_frames(config.pose), model is None or model.reads_order
    prepared_frames, shared_frames = (frames, 1) if reads_order else (1, frames)
    all_turns = (None, *turns) if upright is None else (upright, *(turn @ upright for turn in turns))
    poses = [(turn, frame) for turn in all_turns for frame in range(prepared_frames)]
    sized: tuple[Simplified | Refined, ...] = ()
    if config.most_faces is not None and mesh.n_faces > config.most_faces:
        if budget is not None:
            budget.check_simplifying(mesh)
        sized = triangulations(mesh, config.most_faces, len(poses) * shared_frames)
    elif 2 * mesh.n_faces < config.least_faces:
        sized = (refine(mesh, config.least_faces),)
    meshes = [way.mesh for way in sized] or [mesh]
    poses = poses if reads_order else [pose for pose in poses for _ in meshes]
    room = UNLIMITED if budget is None else budget(meshes[0], len(poses))
    embedded, patterned = (KINDS, KINDS) if model is None else (model.embedded, model.patterned)

    def view(working: Mesh, turn: FloatArray | None, frame: int) -> PreparedMesh:
        turned = working if turn is None else working.with_vertices(working.vertices @ turn.T)
        return prepare(turned, config, frame=frame, embedded=embedded, patterned=patterned, n_threads=n_threads)

    prepared = tuple(view(working, *pose) for working, pose in zip(cycle(meshes), poses, strict=False))
    return Views(original, sized, prepared, config, room, shared_frames)


class Network(Protocol):
    """A model, run by PyTorch or onnxruntime."""

    @property
    def config(self) -> ModelConfig: ...

    def outputs(self, prepared: Sequence[PreparedMesh], views: Views) -> list[tuple[Output, Output]]:
        """For each view a row per element in the order of the view, or one row; and the means of its features.

        Rows are probabilities, or the values of a regression. Both are means over the frames that a view represents.
        """
        ...


@dataclass(frozen=True, eq=False)
class Answered(Generic[T]):
    """The answer of a model for a mesh, with the `owner` that came with the mesh.

    `output` has a row per element of the file, or one for the whole mesh: probabilities, or the values of a regression.
    `features` are the mean encoder features, `smoothed` gives the output for a strength of smoothing, at temperature 1.
    """

    owner: T
    views: Views
    output: FloatArray
    features: FloatArray
    smoothed: Callable[[float], FloatArray]


def answers(
    network: Network,
    meshes: Iterable[tuple[T, Views]],
    *,
    batch_faces: int,
    temperature: float = 1.0,
    smooth: float = 0.0,
    report: Report | None = None,
) -> Iterator[Answered[T]]:
    """The answer for each mesh, in order, as soon as it is ready.

    Answers are smoothed with strength `smooth` at the working resolution, so that subdividing a file changes nothing.

    Views with up to `batch_faces` faces in total, of one mesh or of several, share a pass through the model. `report`
    is called with the share of the passes over a mesh that is done.
    """
    kind, progress = network.config.target_kind, report or (lambda share: None)
    is_probability = network.config.task != "regression"
    for batch in _batches(meshes, batch_faces):
        progress(batch[0][0].n / len(batch[0][0].views.prepared))
        for mean in _added(network, batch):
            progress(1.0)
            output = partial(_output, mean, kind)
            answer = output(smooth if is_probability else 0.0)
            answer = tempered(answer, temperature) if is_probability else answer
            yield Answered(mean.owner, mean.views, answer, mean.features / mean.n, output)


def _output(mean: _Mean, kind: ElementKind | None, smooth: float) -> FloatArray:
    """The mean over the views of a mesh, smoothed on each triangulation and transferred to the file."""
    views, total = mean.views, np.zeros(())
    meshes = [way.mesh for way in views.sized] or [views.mesh]
    for i, rows in enumerate(mean.totals):
        settled = rows
        if smooth > 0 and kind is not None:
            settled = smoothed(rows, meshes[i % len(meshes)], kind=kind, strength=smooth)
        total = total + views.on_mesh(settled / mean.n, kind, i)
    return total


def _added(network: Network, batch: list[tuple[_Mean, PreparedMesh]]) -> list[_Mean]:
    """The means that the views of a batch complete. The batch is cleared, to free a large view before the next one."""
    kind = network.config.target_kind
    passes = network.outputs([view for _, view in batch], batch[0][0].views)
    complete = []
    for (mean, view), (output, features) in zip(batch, passes, strict=True):
        mean.add(output if kind is None else view.to_file_order(output, kind), features)
        if mean.n == len(mean.views.prepared):
            complete.append(mean)
    batch.clear()
    return complete


def tempered(probabilities: FloatArray, temperature: float) -> FloatArray:
    """p^(1/T), rows summing to one: softmax(logits / T) if p is a softmax.

    It is applied after averaging, so that the final answer is calibrated; labels do not depend on it.
    """
    if temperature == 1:
        return probabilities
    powers = np.maximum(probabilities, 1e-12) ** (1 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


class _Mean:
    """The running mean of the answers for one mesh."""

    def __init__(self, owner: Any, views: Views) -> None:
        self.owner, self.views = owner, views
        self.totals: list[FloatArray] = [np.zeros(()) for _ in views.sized or (None,)]
        self.features: FloatArray = np.zeros(())
        self.n = 0

    def add(self, output: Output, features: Output) -> None:
        way = self.n % len(self.totals)
        self.totals[way] = self.totals[way] + output
        self.features = self.features + features
        self.n += 1


def _batches(meshes: Iterable[tuple[Any, Views]], batch_faces: int) -> Iterator[list[tuple[_Mean, PreparedMesh]]]:
    batch: list[tuple[_Mean, PreparedMesh]] = []
    n_faces = 0
    for owner, views in meshes:
        mean = _Mean(owner, views)
        n_view = views.working_mesh.n_faces
        for view in views.prepared:
            if batch and n_faces + n_view > min(batch_faces, views.room):
                yield batch
                batch, n_faces = [], 0
            batch.append((mean, view))
            n_faces += n_view
    if batch:
        yield batch
