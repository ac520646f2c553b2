"""What a trained model scores on mutated meshes: the paper's robustness table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hodgeformer.containers import ElementKind
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values
from hodgeformer.errors import DataError
from hodgeformer.mesh.elements import element_centers
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.study.mutations import ORIGINAL, Mutation
from hodgeformer.train.evaluate import Answer, Evaluator
from hodgeformer.train.metrics import Scores, Tally, scores_of


@dataclass(frozen=True, eq=False)
class Robustness:
    """One row: the scores with labels of the nearest original element, and some answers to look at.

    `own_accuracy` counts, where faces keep their identity, against the label of the very face instead: noise can move a
    face next to an original face of another part.
    """

    mutation: Mutation
    scores: Scores
    own_accuracy: float | None
    n_faces: float
    pictured: tuple[Answer, ...]

    def row(self, original: Robustness) -> dict[str, Any]:
        """For tables, in percent."""
        accuracy, paper = 100 * self.scores.main, self.mutation.paper
        low, high = self.scores.interval or (float("nan"), float("nan"))
        return {
            "mutation": self.mutation.name,
            "mean_faces": round(self.n_faces, 1),
            "accuracy": round(accuracy, 2),
            "interval_low": round(100 * low, 2),
            "interval_high": round(100 * high, 2),
            "drop": round(100 * original.scores.main - accuracy, 2),
            "accuracy_own_labels": None if self.own_accuracy is None else round(100 * self.own_accuracy, 2),
            "paper_accuracy": paper,
            "paper_drop": None if paper is None or ORIGINAL.paper is None else round(ORIGINAL.paper - paper, 1),
        }


def robustness(
    model: HodgeFormer,
    dataset: DataSet,
    samples: Sequence[Sample],
    prepare: PrepareConfig,
    mutations: Iterable[Mutation],
    *,
    seed: int = 0,
    n_pictured: int = 1,
) -> Iterator[Robustness]:
    """Score the unchanged samples first, then every mutation of them."""
    if dataset.task == "regression":
        raise DataError(f"{dataset.name}: robustness is counted in right answers, which a regression has none of")
    for mutation in (ORIGINAL, *mutations):
        mutated = [mutated_sample(dataset, sample, mutation, seed) for sample in samples]
        changed = dataset.with_splits({"test": [sample for sample, _ in mutated]})
        own_labels = {sample.name: labels for sample, labels in mutated}
        yield _scored(model, changed, prepare, mutation, own_labels, n_pictured)


def mutated_sample(
    dataset: DataSet, sample: Sample, mutation: Mutation, seed: int
) -> tuple[Sample, NDArray[Any] | None]:
    """The changed mesh with its labels; and the labels of the very faces, where these are known."""
    mesh, target = dataset.load(sample)
    mutated = mutation(mesh, seed=seed)
    changed = replace(mutated.mesh, name=sample.name)
    kind = dataset.kind
    if kind is None:
        return replace(sample, mesh=changed), None
    nearest = nearest_labels(mesh, target, changed.with_vertices(mutated.in_place), kind)
    own = target[mutated.origin] if kind == "f" and mutated.origin is not None else None
    return Sample(sample.name, changed, Values(nearest)), own


def nearest_labels(original: Mesh, labels: IntArray, mesh: Mesh, kind: ElementKind) -> IntArray:
    """For each element of a mesh the label of the original element of its kind whose center is nearest."""
    nearest = cKDTree(element_centers(original, kind)).query(element_centers(mesh, kind))[1]
    result: IntArray = labels[nearest]
    return result


def _scored(
    model: HodgeFormer,
    dataset: DataSet,
    prepare: PrepareConfig,
    mutation: Mutation,
    own_labels: dict[str, NDArray[Any] | None],
    n_pictured: int,
) -> Robustness:
    tally, own, sizes = Tally(len(dataset.classes)), [0, 0], []
    pictured: list[Answer] = []
    for answer in Evaluator(dataset, dataset.split("test"), prepare).answers(model):
        predicted = answer.output.argmax(axis=1)
        tally.add(answer.mesh.name, predicted=predicted, true=answer.target, areas=answer.areas)
        labels = own_labels[answer.mesh.name]
        if labels is not None:
            own[0] += int((predicted == labels)[labels >= 0].sum())
            own[1] += int((labels >= 0).sum())
        sizes.append(answer.mesh.n_faces)
        if len(pictured) < n_pictured:
            pictured.append(answer)
    return Robustness(
        mutation=mutation,
        scores=scores_of(tally, element=dataset.element, classes=dataset.classes),
        own_accuracy=own[0] / own[1] if own[1] else None,
        n_faces=float(np.mean(sizes)),
        pictured=tuple(pictured),
    )
