"""Prepared views in, averaged answers out, in the order of the file: the one way from a mesh through a model and back.

Prediction, evaluation, the viewer and the studies all go it, so that a score speaks of the answer that a user gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.containers import ElementKind
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.pose import n_frames
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.simplify import Simplified, simplify
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.pack import pack

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Seen:
    """A mesh as a model sees it: simplified where it is too large, turned, in every frame of its pose, prepared.

    The answers for all `views` are averaged.
    """

    mesh: Mesh
    simplified: Simplified | None
    views: tuple[PreparedMesh, ...]

    @property
    def working_mesh(self) -> Mesh:
        """The mesh that the views are views of."""
        return self.mesh if self.simplified is None else self.simplified.mesh

    @property
    def n_faces(self) -> int:
        """Faces of all views together: what they cost."""
        return sum(view.n.f for view in self.views)

    def on_mesh(self, values: NDArray[Any], kind: ElementKind | None) -> NDArray[Any]:
        """Values per element of the working mesh as values per element of the mesh itself."""
        if self.simplified is None or kind is None:
            return values
        return self.simplified.values_back(values, kind)


def see(
    mesh: Mesh,
    config: PrepareConfig,
    *,
    max_faces: int | None = None,
    turns: Sequence[FloatArray] = (),
    n_threads: int | None = None,
) -> Seen:
    """Everything that comes before the model; `turns` are rotations to look from beside that of the file."""
    most = config.most_faces if max_faces is None else max_faces
    simplified = simplify(mesh, most) if most is not None and mesh.n_faces > most else None
    working = mesh if simplified is None else simplified.mesh
    turned = (working, *(working.with_vertices(working.vertices @ turn.T) for turn in turns))
    views = tuple(
        prepare(look, config, frame=frame, n_threads=n_threads)
        for look in turned
        for frame in range(n_frames(config.pose))
    )
    return Seen(mesh, simplified, views)


def answers(
    model: HodgeFormer,
    meshes: Iterable[tuple[T, Seen]],
    *,
    batch_faces: int,
    temperature: float = 1.0,
    values: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[tuple[T, Seen, FloatArray]]:
    """Each mesh, with what belongs to it, and the answer for it, in order, while they come.

    An answer has a row per element of the file, or one for the whole mesh: probabilities, or the values of a
    regression, which `values` makes of outputs that are not in the units of the data. Views of together at most
    `batch_faces` faces, of one mesh or of several, share a pass through the model.
    """
    kind = model.config.target_kind
    for batch in _batches(meshes, batch_faces):
        outputs = _outputs(model, [view for _, view in batch], values)
        for (mean, view), output in zip(batch, outputs, strict=True):
            mean.add(output if kind is None else view.to_file_order(output, kind))
            if mean.n == len(mean.seen.views):
                answer = mean.seen.on_mesh(mean.total / mean.n, kind)
                answer = tempered(answer, temperature) if model.config.task != "regression" else answer
                yield mean.owner, mean.seen, answer


def tempered(probabilities: FloatArray, temperature: float) -> FloatArray:
    """p^(1/T), rows summing to one: softmax(logits / T) if p is a softmax.

    It comes after averaging, so that what is calibrated is the answer as it is given, and no label depends on it.
    """
    if temperature == 1:
        return probabilities
    powers = np.maximum(probabilities, 1e-12) ** (1 / temperature)
    result: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return result


class _Mean:
    """The answer for one mesh while its views come in."""

    def __init__(self, owner: Any, seen: Seen) -> None:
        self.owner, self.seen = owner, seen
        self.total: FloatArray = np.zeros(())
        self.n = 0

    def add(self, output: NDArray[np.float32]) -> None:
        self.total = self.total + output
        self.n += 1


def _batches(meshes: Iterable[tuple[Any, Seen]], batch_faces: int) -> Iterator[list[tuple[_Mean, PreparedMesh]]]:
    batch: list[tuple[_Mean, PreparedMesh]] = []
    n_faces = 0
    for owner, seen in meshes:
        mean = _Mean(owner, seen)
        for view in seen.views:
            if batch and n_faces + view.n.f > batch_faces:
                yield batch
                batch, n_faces = [], 0
            batch.append((mean, view))
            n_faces += view.n.f
    if batch:
        yield batch


@torch.no_grad()
def _outputs(
    model: HodgeFormer, views: list[PreparedMesh], values: Callable[[Tensor], Tensor] | None
) -> list[NDArray[np.float32]]:
    """One array per view: a row per element in the order of the view, or one row."""
    batch = pack(views).to(next(model.parameters()).device)
    rows: Tensor = model(batch).float()
    if model.config.task != "regression":
        rows = rows.softmax(dim=1)
    elif values is not None:
        rows = values(rows)
    kind = model.config.target_kind
    parts = rows.unsqueeze(1) if kind is None else batch.split(rows, kind)
    return [part.cpu().numpy() for part in parts]
