"""The scores of a trained model on mutated meshes: the paper's robustness table, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values
from hodgeformer.draw.camera import View
from hodgeformer.draw.lettering import Legend, Picture, key_band, title_band
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.lab.study.mutations import ORIGINAL, Mutation
from hodgeformer.mesh.elements import element_centers
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.training.evaluate import Answer, Evaluator, scores_over
from hodgeformer.training.metrics import Scores

_COLUMNS = 6
_PANEL = 260
_TEXT = 15


@dataclass(frozen=True, eq=False)
class Robustness:
    """One row: the scores with labels of the nearest original element, and the first answer as an example.

    `well` and `badly` are the answers for the two meshes that were answered best and worst before any change.
    If faces keep their identity, `own_accuracy` compares with the label of the face itself instead: noise can move a
    face next to an original face of another part.
    """

    mutation: Mutation
    scores: Scores
    own_accuracy: float | None
    n_faces: float
    example: Answer
    well: Answer
    badly: Answer

    def row(self, original: Robustness) -> dict[str, Any]:
        """For tables, in percent."""
        accuracy, paper = 100 * self.scores.main, self.mutation.paper
        low, high = (round(100 * end, 2) for end in self.scores.interval) if self.scores.interval else (None, None)
        return {
            "mutation": self.mutation.name,
            "mean_faces": round(self.n_faces, 1),
            "accuracy": round(accuracy, 2),
            "interval_low": low,
            "interval_high": high,
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
    smooth: float = 0.0,
) -> Iterator[Robustness]:
    """Score the unchanged samples first, then every mutation of them."""
    if dataset.task == "regression":
        raise DataError(f"{dataset.name}: robustness is measured in accuracy, and a regression has none")
    shown: tuple[int, int] | None = None
    for mutation in (ORIGINAL, *mutations):
        mutated = [mutated_sample(dataset, sample, mutation, seed) for sample in samples]
        changed = dataset.with_splits({"test": [sample for sample, _ in mutated]})
        found = list(Evaluator(changed, changed.split("test"), prepare, smooth=smooth).answers(model))
        if shown is None:
            accuracies = [answer.accuracy() for answer in found]
            shown = int(np.nanargmax(accuracies)), int(np.nanargmin(accuracies))
        pairs = [(answer, labels) for answer, (_, labels) in zip(found, mutated, strict=True) if labels is not None]
        own = [(answer.predicted == labels)[labels >= 0] for answer, labels in pairs]
        yield Robustness(
            mutation=mutation,
            scores=scores_over(found, changed),
            own_accuracy=float(np.concatenate(own).mean()) if own else None,
            n_faces=float(np.mean([answer.mesh.n_faces for answer in found])),
            example=found[0],
            well=found[shown[0]],
            badly=found[shown[1]],
        )


def mutated_sample(
    dataset: DataSet, sample: Sample, mutation: Mutation, seed: int
) -> tuple[Sample, NDArray[Any] | None]:
    """The changed mesh with its labels; and the labels of its own faces, if these are known."""
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


UpOf = Callable[[Mesh], FloatArray]
"""Which way is up in a mesh. It is asked of whole meshes: the rest of a cut body may have another stable position."""


def save_robustness_picture(results: Sequence[Robustness], dataset: DataSet, path: Path, up_of: UpOf) -> Path:
    """The example of every row in a grid, with its accuracy, and a legend of the classes."""
    up = up_of(results[0].example.mesh)
    panels = [_panel(result, result.example, dataset, up) for result in results]
    save_png(_grid([panels[i : i + _COLUMNS] for i in range(0, len(panels), _COLUMNS)], dataset), path)
    return path


def save_incomplete_picture(results: Sequence[Robustness], dataset: DataSet, path: Path, up_of: UpOf) -> Path:
    """The mesh that was answered best and the one answered worst, whole and with parts cut away."""
    shown = [result for result in results if result.mutation is ORIGINAL or result.mutation.takes_parts]
    rows = []
    for which in ("well", "badly"):
        up = up_of(getattr(shown[0], which).mesh)
        rows.append([_panel(result, getattr(result, which), dataset, up) for result in shown])
    save_png(_grid(rows, dataset), path)
    return path


def _grid(rows: Sequence[Sequence[Picture]], dataset: DataSet) -> Picture:
    """Panels in rows, and a legend of the classes below them."""
    height, columns = max(len(panel) for row in rows for panel in row), max(map(len, rows))
    blank = np.full((height, _PANEL, 3), 255, dtype=np.uint8)
    bands = []
    for row in rows:
        cells = [_of_height(panel, height) for panel in row]
        bands.append(np.concatenate([*cells, *[blank] * (columns - len(cells))], axis=1))
    if len(dataset.classes) <= 40:
        bands.append(key_band(Legend(tuple(zip(dataset.classes, dataset.colors, strict=True))), columns * _PANEL, 20))
    return stacked(bands)


def _panel(result: Robustness, answer: Answer, dataset: DataSet, up: FloatArray) -> Picture:
    lines = [result.mutation.name, f"{100 * answer.accuracy():.1f} %, {answer.mesh.n_faces} faces"]
    bands = [title_band(line, _PANEL, _TEXT) for line in lines]
    colors = answer.face_colors(dataset, answer.predicted)
    seen = render(answer.mesh, face_colors=colors, views=[View(20)], width=_PANEL, up=up, edges=0.35)
    return np.concatenate([*bands, seen])


def _of_height(panel: Picture, height: int) -> Picture:
    return np.pad(panel, ((0, height - len(panel)), (0, 0), (0, 0)), constant_values=255)
