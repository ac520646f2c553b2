"""One mesh in all its mutations, painted with what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hodgeformer.data.dataset import DataSet
from hodgeformer.draw.camera import UpAxis, View
from hodgeformer.draw.colormap import Bytes, label_colors
from hodgeformer.draw.lettering import Legend, Picture, key_band, title_band
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.study.robustness import Robustness
from hodgeformer.train.evaluate import Answer

_COLUMNS = 6
_PANEL = 260
_TEXT = 15


def save_robustness_picture(results: Sequence[Robustness], dataset: DataSet, path: Path, *, up: UpAxis = "y") -> Path:
    """The first answer of every row in a grid, with its accuracy, and a legend of the classes."""
    panels = [_panel(result, dataset, up) for result in results if result.pictured]
    height = max(len(panel) for panel in panels)
    blank = np.full((height, _PANEL, 3), 255, dtype=np.uint8)
    cells = [_of_height(panel, height) for panel in panels]
    cells += [blank] * (-len(cells) % _COLUMNS)
    rows = [np.concatenate(cells[i : i + _COLUMNS], axis=1) for i in range(0, len(cells), _COLUMNS)]
    if len(dataset.classes) <= 40:
        rows.append(key_band(Legend.of(dataset.classes, dataset.colors), _COLUMNS * _PANEL, 20))
    save_png(stacked(rows), path)
    return path


def _panel(result: Robustness, dataset: DataSet, up: UpAxis) -> Picture:
    answer = result.pictured[0]
    predicted = answer.output.argmax(axis=1)
    right = float((predicted == answer.target)[answer.target >= 0].mean())
    lines = [result.mutation.name, f"{100 * right:.1f} %, {answer.mesh.n_faces} faces"]
    bands = [title_band(line, _PANEL, _TEXT) for line in lines]
    colors = _face_colors(answer, dataset)
    seen = render(answer.mesh, face_colors=colors, views=[View(20)], width=_PANEL, up=up, edges=0.35)
    return np.concatenate([*bands, seen])


def _face_colors(answer: Answer, dataset: DataSet) -> Bytes:
    labels = answer.output.argmax(axis=1)
    if dataset.kind is None:
        return label_colors(np.full(answer.mesh.n_faces, labels[0]), dataset.colors)
    return label_colors(convert_labels(labels, answer.mesh, source=dataset.kind, to="f"), dataset.colors)


def _of_height(panel: Picture, height: int) -> Picture:
    return np.pad(panel, ((0, height - len(panel)), (0, 0), (0, 0)), constant_values=255)
