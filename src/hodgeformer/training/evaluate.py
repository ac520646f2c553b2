"""The scores of a model on a split: its answers for the original meshes, compared with the labels of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.measured import identity, measured_columns, shape_hash
from hodgeformer.data.memory import Pairs
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.draw.colormap import Bytes, label_colors
from hodgeformer.mesh.elements import convert_labels, element_areas
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import random_turns
from hodgeformer.mesh.prepare import Faces, PrepareConfig, to_size
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Forward
from hodgeformer.predict.inference import Network, Views, answers, make_views
from hodgeformer.predict.model_info import ModelInfo
from hodgeformer.predict.options import FaceBudget, PredictOptions
from hodgeformer.predict.predictor import Models, Predictor
from hodgeformer.training.distributed import Processes
from hodgeformer.training.learner import DivergedError, SquaredError
from hodgeformer.training.metrics import Scores, Tally, regression_scores, scores_of

HASH_DIGITS = 12  # enough to distinguish the meshes of a data set
_BATCH_FACES = 12_000
_CACHED_FACES = 400_000  # about half a gigabyte of prepared meshes


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer for one mesh, probabilities or values per element of the file, and the true labels or values.

    `areas` are those of the elements after scaling. `working` is the mesh at the working resolution, `features` are
    its mean encoder features, `smoothed` gives the output for a strength of smoothing, at temperature 1.
    """

    mesh: Mesh
    target: NDArray[Any]
    output: FloatArray
    areas: FloatArray | None
    working: Mesh
    features: FloatArray
    smoothed: Callable[[float], FloatArray]

    @property
    def predicted(self) -> IntArray:
        """The most probable class of each element."""
        return np.asarray(self.output.argmax(axis=1))

    def accuracy(self, true: NDArray[Any] | None = None) -> float:
        """The share of labeled elements that are correct, NaN if none is labeled."""
        true = self.target if true is None else true
        right = (self.predicted == true)[true >= 0]
        return float(right.mean()) if right.size else float("nan")

    def face_colors(self, dataset: DataSet, labels: IntArray) -> Bytes:
        """Face colors for labels of the elements or of the whole mesh."""
        kind = dataset.kind
        faces = np.full(self.mesh.n_faces, labels[0])
        if kind is not None:
            faces = convert_labels(labels, self.mesh, source=kind, to="f")
        return label_colors(faces, dataset.colors)


class Evaluator:
    """Scores models on samples of a data set. Prepared meshes are kept for the next model, as memory allows.

    `turns` are rotations to average over besides the pose of the file. `temperature` is that of the probabilities,
    `smooth` how strongly they follow those of neighbors; `standardized` converts the outputs of a regression during
    training to values.
    """

    def __init__(
        self,
        dataset: DataSet,
        samples: Sequence[Sample],
        config: PrepareConfig,
        *,
        turns: Sequence[FloatArray] = (),
        temperature: float = 1.0,
        smooth: float = 0.0,
        standardized: SquaredError | None = None,
        processes: Processes | None = None,
    ) -> None:
        self._dataset = dataset
        self._processes = processes or Processes()
        self._samples = tuple(self._processes.share(samples))
        self._config = config
        self._turns, self._temperature, self._smooth = turns, temperature, smooth
        self._standardized = standardized
        self._cache: dict[str, tuple[NDArray[Any], Views]] = {}
        self._faces_left = _CACHED_FACES

    def scores(self, model: HodgeFormer) -> Scores:
        """The scores over the samples of all processes."""
        return self.scored(self.answers(model))

    def scored(self, answers: Iterable[Answer]) -> Scores:
        """The scores of the answers of all processes."""
        element = self._dataset.element
        if self._dataset.task == "regression":
            parts = self._processes.collect([(answer.output, answer.target.astype(np.float64)) for answer in answers])
            pairs = [pair for part in parts for pair in part]
            predicted, true = (np.concatenate(side) for side in zip(*pairs, strict=True))
            return regression_scores(predicted=predicted, true=true, element=element)
        tally = Tally(len(self._dataset.classes))
        for answer in answers:
            tally.add(
                answer.mesh.name,
                predicted=answer.predicted,
                true=answer.target,
                areas=answer.areas,
                confidence=answer.output.max(axis=1),
            )
        tallies = self._processes.collect(tally)
        return scores_of(tallies[0].merge(tallies[1:]), element=element, classes=self._dataset.classes)

    def answers(self, model: HodgeFormer | Network) -> Iterator[Answer]:
        """The answer for every sample of this process, in order."""
        kind = self._dataset.kind
        values = None if self._standardized is None else self._standardized.values
        budget = FaceBudget(model.config, self._config)
        meshes = (self._views(sample, budget) for sample in self._samples)
        network = Forward(model, values) if isinstance(model, HodgeFormer) else model
        found = answers(network, meshes, batch_faces=_BATCH_FACES, temperature=self._temperature, smooth=self._smooth)
        for answer in found:
            views, mesh = answer.views, answer.views.mesh
            if not np.isfinite(answer.output).all():
                raise DivergedError(f"the answer for '{mesh.name}' is not finite")
            sized = mesh.with_vertices(to_size(mesh.vertices, mesh.faces, self._config.size))
            areas = None if kind is None else element_areas(sized, kind)
            yield Answer(mesh, answer.owner, answer.output, areas, views.working_mesh, answer.features, answer.smoothed)

    def _views(self, sample: Sample, budget: FaceBudget) -> tuple[NDArray[Any], Views]:
        """The target and the prepared mesh."""
        if sample.name in self._cache:
            return self._cache[sample.name]
        mesh, target = self._dataset.load(sample)
        views = make_views(mesh, self._config, turns=self._turns, room=budget, model=budget.model)
        if views.n_faces <= self._faces_left:
            self._cache[sample.name] = target, views
            self._faces_left -= views.n_faces
        return target, views


def evaluate(
    model: Models,
    data: DataConfig | DataSet | str | Path | Pairs,
    *,
    split: str = "test",
    faces: Faces | str = "auto",
    tta: int = 1,
    smooth: float | bool | None = None,
    device: str = "auto",
    report: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score a model or an ensemble on a split of a data set, or on pairs (mesh, labels).

    Scores count the elements of the original files, whatever resolution the model works at; `faces`, `tta` and `smooth`
    are as in prediction. `report` is called with the number of meshes done and the total.
    """
    predictor = Predictor.load(model, device)
    first, members = predictor.info, predictor.members
    options = PredictOptions.parse({"tta": tta, "smooth": smooth})
    if isinstance(data, DataSet):
        opened = data
    elif isinstance(data, DataConfig | str | Path | Mapping):
        opened = open_dataset(data)
    else:
        opened = open_dataset(data, split={split: 1.0}, classes=first.classes)
    dataset = fitting(opened, first)
    samples = dataset.split(split)
    evaluators = [
        Evaluator(
            dataset,
            samples,
            member.info.at(faces),
            turns=random_turns(options.tta - 1, member.info.turn_axis, seed=options.seed),
            temperature=member.info.temperature,
            smooth=options.strength(member.info),
        )
        for member in members
    ]
    streams = [evaluator.answers(member.network) for evaluator, member in zip(evaluators, members, strict=True)]

    def averaged() -> Iterator[Answer]:
        for done, together in enumerate(zip(*streams, strict=True), 1):
            yield replace(together[0], output=np.mean([answer.output for answer in together], axis=0))
            if report is not None:
                report(done, len(samples))

    return evaluators[0].scored(averaged())


def learned_from(checkpoint: ModelInfo, dataset: DataSet, samples: Sequence[Sample]) -> list[str]:
    """The names of the samples that the model was trained on: their scores are too optimistic.

    Older checkpoints do not contain the shapes of their meshes; for those, compare the files of their configuration.
    """
    known = set(checkpoint.statistics.shapes) if checkpoint.statistics else set()
    if known:
        reads = checkpoint.prepare.own_columns
        loaded = ((sample.name, dataset.load(sample)[0]) for sample in samples)
        hashed = ((n, identity(shape_hash(m), measured_columns(m) if reads else {}, reads)) for n, m in loaded)
        return [name for name, found in hashed if found[:HASH_DIGITS] in known]
    try:
        trained = open_dataset(DataConfig.parse(checkpoint.training["data"])).split("train")
    except (KeyError, HodgeFormerError):
        return []
    files = {sample.mesh for sample in trained if isinstance(sample.mesh, Path)}
    return [sample.name for sample in samples if sample.mesh in files]


def fitting(dataset: DataSet, checkpoint: ModelInfo) -> DataSet:
    """The data set with its labels numbered as in the model; an error if its task or element differs."""
    model = checkpoint.model
    if (dataset.task, dataset.element) != (model.task, model.element):
        raise DataError(
            f"{dataset.name} is a {dataset.task} per {dataset.element}, but the model is for {model.task} per "
            f"{model.element}"
        )
    return dataset.with_classes(checkpoint.classes) if dataset.classes else dataset
