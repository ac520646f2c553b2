"""The scores of a model on a split: its answers for the original meshes, compared with the labels of the files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.base.settings import Faces, UpName
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.measured import identity, measured_columns, shape_hash
from hodgeformer.data.memory import Pairs
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.draw.colormap import Bytes, label_colors
from hodgeformer.mesh.elements import convert_labels, element_areas
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig, to_size
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Forward
from hodgeformer.predict.inference import Network, Views, answers, make_views
from hodgeformer.predict.model_info import ModelInfo
from hodgeformer.predict.options import FaceBudget
from hodgeformer.predict.predictor import Models, Predictor
from hodgeformer.training.distributed import Processes
from hodgeformer.training.learner import DivergedError
from hodgeformer.training.metrics import Scores, Tally, regression_scores, scores_of

HASH_DIGITS = 12  # enough to distinguish the meshes of a data set
_BATCH_FACES = 12_000
_CACHED_FACES = 400_000  # about half a gigabyte of prepared meshes


@dataclass(frozen=True, eq=False)
class Comparison:
    """The answer for one mesh, probabilities or values per element of the file, and the true labels or values.

    `areas` are those of the elements after scaling.
    """

    mesh: Mesh
    target: NDArray[Any]
    output: NDArray[Any]
    areas: FloatArray | None

    @property
    def predicted(self) -> IntArray:
        """The most probable class of each element."""
        return np.asarray(self.output.argmax(axis=1))

    def accuracy(self) -> float:
        """The share of labeled elements that are correct, NaN if none is labeled."""
        right = (self.predicted == self.target)[self.target >= 0]
        return float(right.mean()) if right.size else float("nan")

    def face_colors(self, dataset: DataSet, labels: IntArray) -> Bytes:
        """Face colors for labels of the elements or of the whole mesh."""
        kind = dataset.kind
        faces = np.full(self.mesh.n_faces, labels[0])
        if kind is not None:
            faces = convert_labels(labels, self.mesh, source=kind, to="f")
        return label_colors(faces, dataset.colors)


@dataclass(frozen=True, eq=False)
class Answer(Comparison):
    """With what calibration is fitted to.

    `working` is the mesh at the working resolution, `features` are its mean encoder features, `smoothed` gives the
    output for a strength of smoothing, at temperature 1.
    """

    working: Mesh
    features: FloatArray
    smoothed: Callable[[float], FloatArray]


class Evaluator:
    """Scores a model during training and in studies. Prepared meshes are kept for the next model, as memory allows.

    `temperature` is that of the probabilities, `smooth` how strongly they follow those of neighbors.
    """

    def __init__(
        self,
        dataset: DataSet,
        samples: Sequence[Sample],
        config: PrepareConfig,
        *,
        temperature: float = 1.0,
        smooth: float = 0.0,
        processes: Processes | None = None,
    ) -> None:
        self._dataset = dataset
        self._processes = processes or Processes()
        self._samples = tuple(self._processes.share(samples))
        self._config = config
        self._temperature, self._smooth = temperature, smooth
        self._cache: dict[str, tuple[NDArray[Any], Views]] = {}
        self._faces_left = _CACHED_FACES

    def scores(self, model: HodgeFormer) -> Scores:
        """The scores over the samples of all processes."""
        return scores_over(self.answers(model), self._dataset, self._processes)

    def answers(self, model: HodgeFormer | Network) -> Iterator[Answer]:
        """The answer for every sample of this process, in order."""
        budget = FaceBudget(model.config, self._config)
        meshes = (self._views(sample, budget) for sample in self._samples)
        network = Forward(model) if isinstance(model, HodgeFormer) else model
        found = answers(network, meshes, batch_faces=_BATCH_FACES, temperature=self._temperature, smooth=self._smooth)
        for answer in found:
            views, mesh = answer.views, answer.views.mesh
            if not np.isfinite(answer.output).all():
                raise DivergedError(f"the answer for '{mesh.name}' is not finite")
            areas = _areas(mesh, self._dataset, self._config)
            yield Answer(mesh, answer.owner, answer.output, areas, views.working_mesh, answer.features, answer.smoothed)

    def _views(self, sample: Sample, budget: FaceBudget) -> tuple[NDArray[Any], Views]:
        """The target and the prepared mesh."""
        if sample.name in self._cache:
            return self._cache[sample.name]
        mesh, target = self._dataset.load(sample)
        views = make_views(mesh, self._config, budget=budget, model=budget.model)
        if views.n_faces <= self._faces_left:
            self._cache[sample.name] = target, views
            self._faces_left -= views.n_faces
        return target, views


def scores_over(answers: Iterable[Comparison], dataset: DataSet, processes: Processes | None = None) -> Scores:
    """The scores over the answers of all processes."""
    processes = processes or Processes()
    if dataset.task == "regression":
        parts = processes.collect([(answer.output, answer.target.astype(np.float64)) for answer in answers])
        pairs = [pair for part in parts for pair in part]
        predicted, true = (np.concatenate(side) for side in zip(*pairs, strict=True))
        return regression_scores(predicted=predicted, true=true, element=dataset.element)
    tally = Tally(len(dataset.classes))
    for answer in answers:
        tally.add(
            answer.mesh.name,
            predicted=answer.predicted,
            true=answer.target,
            areas=answer.areas,
            confidence=answer.output.max(axis=1),
        )
    tallies = processes.collect(tally)
    return scores_of(tallies[0].merge(tallies[1:]), element=dataset.element, classes=dataset.classes)


def _areas(mesh: Mesh, dataset: DataSet, config: PrepareConfig) -> FloatArray | None:
    if dataset.kind is None:
        return None
    return element_areas(mesh.with_vertices(to_size(mesh.vertices, mesh.faces, config.size)), dataset.kind)


def evaluate(
    model: Models,
    data: DataConfig | DataSet | str | Path | Pairs,
    *,
    split: str = "test",
    faces: Faces = "auto",
    memory: int | None = None,
    smooth: float | bool | None = None,
    tta: int = 1,
    up: UpName = "auto",
    device: str = "auto",
    report: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score a model or an ensemble on a split of a data set, or on pairs (mesh, labels).

    The answers are those of `Predictor.predict` with the same options, for the elements of the original files, whatever
    resolution the model works at. `report` is called with the number of meshes done and the total.
    """
    predictor = Predictor.load(model, device)
    if isinstance(data, DataSet):
        opened = data
    elif isinstance(data, DataConfig | str | Path | Mapping):
        opened = open_dataset(data)
    else:
        opened = open_dataset(data, split={split: 1.0}, classes=predictor.names)
    dataset = fitting(opened, predictor.info)
    samples, targets = dataset.split(split), deque[NDArray[Any]]()

    def meshes() -> Iterator[Mesh]:
        for sample in samples:
            mesh, target = dataset.load(sample)
            targets.append(target)
            yield mesh

    def compared() -> Iterator[Comparison]:
        results = predictor.predict_many(meshes(), faces=faces, memory=memory, smooth=smooth, tta=tta, up=up)
        for done, result in enumerate(results, 1):
            areas = _areas(result.mesh, dataset, predictor.info.prepare)
            yield Comparison(result.mesh, targets.popleft(), result.outputs, areas)
            if report is not None:
                report(done, len(samples))

    return scores_over(compared(), dataset)


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
