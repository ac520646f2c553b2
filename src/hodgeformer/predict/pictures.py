"""A result as a picture, as colors and as a page: the one place where prediction meets drawing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hodgeformer.draw.colormap import field_colors, field_limits, label_colors
from hodgeformer.draw.lettering import ColorBar, Legend, Picture
from hodgeformer.draw.page import FieldLayer, Scene, frame, labeled_scene, page
from hodgeformer.draw.render import render, save_png
from hodgeformer.errors import DataError

if TYPE_CHECKING:
    from hodgeformer.predict.result import Result


def picture_of(result: Result, **look: Any) -> Picture:
    """The mesh in the colors of its classes, with those that occur in the legend; `look` goes to `render`."""
    look = {"title": _title(result), **look}
    if result.element == "mesh":
        return render(result.mesh, **look)
    shown = painted(result)
    paint = "face_colors" if shown.element == "face" else "vertex_colors"
    if result.task == "regression":
        values = shown.values[:, 0]
        bar = ColorBar(field_limits(values), label="value")
        return render(result.mesh, **{"key": bar, paint: field_colors(values), **look})
    present = np.unique(shown.labels)
    legend = Legend.of([result.names[i] for i in present], [result.colors[i] for i in present])
    colors = label_colors(shown.labels, result.colors)
    return render(result.mesh, **{"key": legend, "blend": False, paint: colors, **look})


def save_picture(result: Result, path: Path, **look: Any) -> Picture:
    """The picture, also written as PNG."""
    picture = picture_of(result, **look)
    save_png(picture, path)
    return picture


def page_of(result: Result) -> str:
    """The page that shows this result."""
    return page([scene_of(result)], title=result.mesh.name)


def frame_of(result: Result) -> str:
    """The page as an element of a notebook."""
    return frame([scene_of(result)])


def colors_of(shown: Result) -> NDArray[np.uint8]:
    """One color per row: of the class, or of the first value of a regression."""
    if shown.task == "regression":
        return field_colors(shown.values[:, 0])
    return label_colors(shown.labels, shown.colors)


def painted(result: Result) -> Result:
    """The result on faces or vertices, which can be painted; edges cannot."""
    return result.on("face") if result.element == "edge" else result


def scene_of(result: Result, truth: NDArray[Any] | None = None) -> Scene:
    """Prediction, ground truth, error and confidence as layers; for whole meshes the best classes as scores."""
    caption = "; ".join(result.warnings)
    if result.task == "classification":
        order = np.argsort(-result.probabilities[0], kind="stable")
        scores = tuple((result.names[i], float(result.probabilities[0, i])) for i in order)
        return Scene(result.mesh, caption=" · ".join(filter(None, [result.label, caption])), scores=scores)
    if result.element == "mesh":
        values = ", ".join(f"{value:.4g}" for value in result.values[0])
        return Scene(result.mesh, caption=" · ".join(filter(None, [values, caption])))
    if truth is not None and (result.element == "edge" or len(truth) != len(result.outputs)):
        raise DataError(
            f"{result.mesh.name}: expected one true label for each of {len(result.outputs)} {result.element} elements, "
            f"got {len(truth)}; edges cannot be painted"
        )
    shown = painted(result)
    element: Literal["face", "vertex"] = "vertex" if shown.element == "vertex" else "face"
    if result.task == "regression":
        layers = tuple(FieldLayer(f"value {i + 1}", shown.values[:, i], element) for i in range(shown.outputs.shape[1]))
        return Scene(result.mesh, layers, caption)
    return labeled_scene(
        result.mesh,
        labels=shown.labels,
        classes=result.names,
        colors=result.colors,
        element=element,
        probabilities=shown.probabilities,
        truth=truth,
        caption=caption,
    )


def _title(result: Result) -> str:
    if result.task == "classification":
        return f"{result.mesh.name}: {result.label} ({result.confidence[0]:.0%})"
    return result.mesh.name
