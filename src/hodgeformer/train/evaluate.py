"""What a model scores on a split: predictions on the meshes as the files have them, against the file's labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hodgeformer.checkpoint import Checkpoint
from hodgeformer.containers import ElementKind
from hodgeformer.data.augment import random_rotation
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.errors import DataError
from hodgeformer.mesh.geometry import face_vectors, norms, vertex_sums
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import n_frames
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.pack import pack
from hodgeformer.train.distributed import Processes
from hodgeformer.train.losses import SquaredError
from hodgeformer.train.metrics import Scores, Tally, regression_scores, scores_of

FloatArray = NDArray[np.float64]

_BATCH_FACES = 12_000
_REMEMBERED_FACES = 400_000  # about half a gigabyte of prepared meshes


@dataclass(frozen=True, eq=False)
class View:
    """One look at a mesh: in one frame, or turned."""

    prepared: PreparedMesh
    mesh: Mesh
    target: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """The output for one mesh, averaged over its views, per element of the file: probabilities, or values."""

    mesh: Mesh
    target: NDArray[Any]
    output: FloatArray
    areas: FloatArray | None


class Evaluator:
    """Scores models on some samples of a data set. Prepared meshes are kept for the next model, as memory allows.

    A pose that averages over frames is answered as the mean over all frames; `n_rotations` adds the mean over random
    rotations. `standardized` says how the outputs of an unfinished
    regression become values.
    """

    def __init__(
        self,
        dataset: DataSet,
        samples: Sequence[Sample],
        config: PrepareConfig,
        *,
        n_rotations: int = 0,
        standardized: SquaredError | None = None,
        processes: Processes | None = None,
    ) -> None:
        self._dataset = dataset
        self._processes = processes or Processes()
        self._samples = tuple(self._processes.share(samples))
        self._config = config
        self._n_rotations = n_rotations
        self._standardized = standardized
        self._remembered: dict[str, list[View]] = {}
        self._room = _REMEMBERED_FACES

    def scores(self, model: HodgeFormer) -> Scores:
        """The scores over the samples of all processes."""
        element = self._dataset.element
        if self._dataset.task == "regression":
            answers = list(self.answers(model))
            parts = self._processes.collect([(answer.output, answer.target.astype(np.float64)) for answer in answers])
            pairs = [pair for part in parts for pair in part]
            predicted, true = (np.concatenate(side) for side in zip(*pairs, strict=True))
            return regression_scores(predicted=predicted, true=true, element=element)
        tally = Tally(len(self._dataset.classes))
        for answer in self.answers(model):
            predicted = answer.output.argmax(axis=1)
            tally.add(answer.mesh.name, predicted=predicted, true=answer.target, areas=answer.areas)
        tallies = self._processes.collect(tally)
        return scores_of(tallies[0].merge(tallies[1:]), element=element, classes=self._dataset.classes)

    def answers(self, model: HodgeFormer) -> Iterator[Answer]:
        """The answer for every sample of this process, in order."""
        for views in self._batches():
            outputs = iter(self._outputs(model, [view.prepared for mesh_views in views for view in mesh_views]))
            for mesh_views in views:
                mean = np.mean([next(outputs) for _ in mesh_views], axis=0)
                first = mesh_views[0]
                areas = element_areas(first.prepared, first.mesh, self._dataset.kind)
                yield Answer(first.mesh, first.target, mean, areas)

    @torch.no_grad()
    def _outputs(self, model: HodgeFormer, meshes: list[PreparedMesh]) -> list[FloatArray]:
        device = next(model.parameters()).device
        batch = pack(meshes).to(device)
        output = model(batch).float()
        if self._dataset.task != "regression":
            output = output.softmax(dim=1)
        elif self._standardized is not None:
            output = self._standardized.values(output)
        kind = self._dataset.kind
        if kind is None:
            return list(output.double().cpu().unsqueeze(1).numpy())
        parts = batch.split(output, kind)
        return [mesh.to_file_order(part.double().cpu().numpy(), kind) for mesh, part in zip(meshes, parts, strict=True)]

    def _batches(self) -> Iterator[list[list[View]]]:
        """The views of consecutive samples, as many as one pass holds."""
        group: list[list[View]] = []
        n_faces = 0
        for sample in self._samples:
            views = self._views(sample)
            size = sum(view.prepared.n.f for view in views)
            if group and n_faces + size > _BATCH_FACES:
                yield group
                group, n_faces = [], 0
            group.append(views)
            n_faces += size
        if group:
            yield group

    def _views(self, sample: Sample) -> list[View]:
        if sample.name in self._remembered:
            return self._remembered[sample.name]
        mesh, target = self._dataset.load(sample)
        views = [
            View(prepare(turned, self._config, frame=frame), mesh, target)
            for turned in self._turned(mesh)
            for frame in range(n_frames(self._config.pose))
        ]
        size = sum(view.prepared.n.f for view in views)
        if size <= self._room:
            self._remembered[sample.name] = views
            self._room -= size
        return views

    def _turned(self, mesh: Mesh) -> Iterator[Mesh]:
        yield mesh
        rng = np.random.default_rng(0)
        for _ in range(self._n_rotations - 1):
            yield mesh.with_vertices(mesh.vertices @ random_rotation(rng).T)


def element_areas(prepared: PreparedMesh, mesh: Mesh, kind: ElementKind | None) -> FloatArray | None:
    """The area that belongs to each element of the file, of the mesh scaled to the unit sphere.

    A third of the faces around it for a vertex or an edge.
    """
    if kind is None:
        return None
    if kind == "e":
        topology = prepared.topology
        shares = np.repeat(norms(face_vectors(prepared.positions, topology.faces)) / 6, 3)
        sums = np.bincount(topology.face_edges.ravel(), weights=shares, minlength=topology.n.e)
        return prepared.to_file_order(sums, "e")
    positions = prepared.to_file_order(prepared.positions, "v")
    areas: FloatArray = norms(face_vectors(positions, mesh.faces)) / 2
    return areas if kind == "f" else vertex_sums(areas[:, None] / 3, mesh.faces, mesh.n_vertices)[:, 0]


def fitting(dataset: DataSet, checkpoint: Checkpoint) -> DataSet:
    """The data set with its labels numbered as the model numbers them; an error if it asks for something else."""
    model = checkpoint.model
    if (dataset.task, dataset.element) != (model.task, model.element):
        raise DataError(
            f"{dataset.name} is a {dataset.task} with targets per {dataset.element}, but the model is for "
            f"{model.task} per {model.element}"
        )
    return dataset.with_classes(checkpoint.classes) if dataset.classes else dataset
