"""Pictures of predictions beside the truth, for the report of a run."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hodgeformer.data.dataset import DataSet
from hodgeformer.draw.page import embedded_page, labeled_scene
from hodgeformer.draw.render import render
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.mesh.mesh import IntArray
from hodgeformer.palette import UNLABELLED_COLOR
from hodgeformer.train.evaluate import Answer
from hodgeformer.train.report import Figure

_WIDTH = 900


def paint_answers(dataset: DataSet, answers: Sequence[Answer]) -> list[Figure]:
    """One picture for each answer: the shape with its class, or predicted above true labels."""
    if dataset.task == "regression":
        return []
    return [_whole(dataset, a) if dataset.kind is None else _labelled(dataset, a) for a in answers]


def _whole(dataset: DataSet, answer: Answer) -> Figure:
    predicted = int(answer.output.argmax(axis=1)[0])
    true = int(answer.target[0])
    color = np.tile(dataset.colors[predicted], (answer.mesh.n_faces, 1))
    picture = render(answer.mesh, face_colors=color, views=3, width=_WIDTH)
    names = dataset.classes
    truth = "unlabelled" if true < 0 else names[true]
    caption = f"{answer.mesh.name}: predicted {names[predicted]} ({answer.output[0, predicted]:.0%}), true {truth}"
    return Figure(caption, _png(picture))


def _labelled(dataset: DataSet, answer: Answer) -> Figure:
    predicted = answer.output.argmax(axis=1)
    known = answer.target >= 0
    accuracy = float((predicted == answer.target)[known].mean()) if known.any() else float("nan")
    pictures = [
        render(answer.mesh, face_colors=_face_colors(dataset, answer, labels), views=3, width=_WIDTH, title=title)
        for title, labels in (("predicted", predicted), ("true", answer.target))
    ]
    caption = f"{answer.mesh.name}: {dataset.element} accuracy {accuracy:.1%}"
    return Figure(caption, _png(np.concatenate(pictures)), _page(dataset, answer))


def _page(dataset: DataSet, answer: Answer) -> str:
    """The mesh to turn, with prediction, truth, error and confidence as layers; edges are not drawn on such a page."""
    if dataset.element not in ("face", "vertex"):
        return ""
    scene = labeled_scene(
        answer.mesh,
        labels=answer.output.argmax(axis=1),
        classes=dataset.classes,
        colors=dataset.colors,
        element="face" if dataset.element == "face" else "vertex",
        probabilities=answer.output,
        truth=answer.target,
    )
    return embedded_page([scene])


def _face_colors(dataset: DataSet, answer: Answer, labels: IntArray) -> NDArray[np.int64]:
    assert dataset.kind is not None
    faces = convert_labels(labels, answer.mesh, source=dataset.kind, to="f")
    return np.array([*dataset.colors, UNLABELLED_COLOR])[faces]


def _png(picture: NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, format="PNG")
    return stream.getvalue()
