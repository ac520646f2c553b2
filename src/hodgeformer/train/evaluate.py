"""What a model scores on a split: its answers on the meshes as the files have them, against the file's labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.checkpoint import Checkpoint
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.errors import DataError
from hodgeformer.mesh.elements import element_areas
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig, to_size
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.inference import Seen, answers, see
from hodgeformer.train.distributed import Processes
from hodgeformer.train.losses import SquaredError
from hodgeformer.train.metrics import Scores, Tally, regression_scores, scores_of

_BATCH_FACES = 12_000
_REMEMBERED_FACES = 400_000  # about half a gigabyte of prepared meshes


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer for one mesh per element of the file, probabilities or values, and what is true.

    `areas` of the elements are those of the mesh at the size the model sees.
    """

    mesh: Mesh
    target: NDArray[Any]
    output: FloatArray
    areas: FloatArray | None


class Evaluator:
    """Scores models on some samples of a data set. Prepared meshes are kept for the next model, as memory allows.

    `turns` are rotations to average over beside the pose of the file. `standardized` says how the outputs of an
    unfinished regression become values.
    """

    def __init__(
        self,
        dataset: DataSet,
        samples: Sequence[Sample],
        config: PrepareConfig,
        *,
        turns: Sequence[FloatArray] = (),
        standardized: SquaredError | None = None,
        processes: Processes | None = None,
    ) -> None:
        self._dataset = dataset
        self._processes = processes or Processes()
        self._samples = tuple(self._processes.share(samples))
        self._config = config
        self._turns = turns
        self._standardized = standardized
        self._remembered: dict[str, tuple[NDArray[Any], Seen]] = {}
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
        kind = self._dataset.kind
        values = None if self._standardized is None else self._standardized.values
        meshes = map(self._seen, self._samples)
        for answer in answers(model, meshes, batch_faces=_BATCH_FACES, values=values):
            mesh = answer.seen.mesh
            sized = mesh.with_vertices(to_size(mesh.vertices, mesh.faces, self._config.size))
            yield Answer(mesh, answer.owner, answer.output, None if kind is None else element_areas(sized, kind))

    def _seen(self, sample: Sample) -> tuple[NDArray[Any], Seen]:
        """The target and the prepared mesh."""
        if sample.name in self._remembered:
            return self._remembered[sample.name]
        mesh, target = self._dataset.load(sample)
        seen = see(mesh, self._config, turns=self._turns)
        if seen.n_faces <= self._room:
            self._remembered[sample.name] = target, seen
            self._room -= seen.n_faces
        return target, seen


def fitting(dataset: DataSet, checkpoint: Checkpoint) -> DataSet:
    """The data set with its labels numbered as the model numbers them; an error if it asks for something else."""
    model = checkpoint.model
    if (dataset.task, dataset.element) != (model.task, model.element):
        raise DataError(
            f"{dataset.name} is a {dataset.task} with targets per {dataset.element}, but the model is for "
            f"{model.task} per {model.element}"
        )
    return dataset.with_classes(checkpoint.classes) if dataset.classes else dataset
