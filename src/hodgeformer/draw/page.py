"""A self-contained HTML page that shows meshes with labels and fields, without a network or a server."""

from __future__ import annotations

import base64
import html
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshError
from hodgeformer.base.palette import RGB, hex_color
from hodgeformer.draw.camera import Up, centered, upright
from hodgeformer.draw.colormap import ColormapName, field_limits
from hodgeformer.mesh.geometry import in_range
from hodgeformer.mesh.mesh import Mesh

PaintedElement = Literal["face", "vertex"]
_RIGHT, _WRONG = (203, 208, 216), (208, 32, 56)
_SHOWN_SCORES = 5


@dataclass(frozen=True, eq=False)
class LabelLayer:
    """Classes on faces or vertices. `probabilities` (n, n_classes), if given, are shown under the pointer."""

    name: str
    labels: NDArray[Any]
    classes: tuple[str, ...]
    colors: tuple[RGB, ...]
    element: PaintedElement = "face"
    probabilities: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class FieldLayer:
    """Numbers on faces or vertices, through a color map."""

    name: str
    values: NDArray[Any]
    element: PaintedElement = "face"
    colormap: ColormapName = "sequential"
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Scene:
    """A mesh with its layers. `scores` are (name, share) pairs of the whole mesh, best first; `up` is the direction
    that is up in its file."""

    mesh: Mesh
    layers: tuple[LabelLayer | FieldLayer, ...] = ()
    caption: str = ""
    scores: tuple[tuple[str, float], ...] = ()
    up: Up = "auto"


def labeled_scene(
    mesh: Mesh,
    *,
    labels: NDArray[Any],
    classes: tuple[str, ...],
    colors: tuple[RGB, ...],
    element: PaintedElement = "face",
    probabilities: NDArray[Any] | None = None,
    truth: NDArray[Any] | None = None,
    caption: str = "",
    up: Up = "auto",
) -> Scene:
    """Prediction and, if available, ground truth, error and confidence, as layers of one scene."""
    layers: list[LabelLayer | FieldLayer] = [LabelLayer("prediction", labels, classes, colors, element, probabilities)]
    if truth is not None:
        if truth.shape != labels.shape:
            raise MeshError(f"{mesh.name}: expected {len(labels)} true labels, one per {element}, got {len(truth)}")
        wrong = np.where(truth < 0, -1, (labels != truth).astype(np.int64))
        layers.append(LabelLayer("ground truth", truth, classes, colors, element))
        layers.append(LabelLayer("error", wrong, ("right", "wrong"), (_RIGHT, _WRONG), element))
    if probabilities is not None:
        lowest = 1 / max(2, probabilities.shape[1])
        layers.append(FieldLayer("confidence", probabilities.max(axis=1), element, limits=(lowest, 1.0)))
    return Scene(mesh, tuple(layers), caption, up=up)


def page(scenes: Sequence[Scene], *, title: str = "hodgeformer") -> str:
    """The page as text: rotate, zoom, pan, switch layers and classes, read class and probability under the pointer."""
    if not scenes:
        raise MeshError("a page needs at least one mesh")
    data = json.dumps([_scene_data(scene) for scene in scenes], separators=(",", ":"), allow_nan=False)
    template = (resources.files("hodgeformer.draw") / "page.html").read_text(encoding="utf-8")  # from web/page.html
    head, rest = template.split("@TITLE@")
    middle, tail = rest.split("@DATA@")
    # "</" would end the script element that contains the data, and "<!--<script" would keep it from ending.
    return "".join([head, html.escape(title), middle, data.replace("<", "\\u003c"), tail])


def in_notebook() -> bool:
    """Whether this code runs in the kernel of a notebook, where objects can be displayed."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def embedded_page(scenes: Sequence[Scene], *, height: int = 480) -> str:
    """The page as an element of a notebook or of another page."""
    text = html.escape(page(scenes), quote=True)
    return f'<iframe srcdoc="{text}" style="width:100%;height:{height}px;border:0" title="mesh"></iframe>'


def _scene_data(scene: Scene) -> dict[str, Any]:
    mesh = in_range(scene.mesh)
    return {
        "name": mesh.name,
        "caption": scene.caption,
        "nVertices": mesh.n_vertices,
        "nFaces": mesh.n_faces,
        "positions": _encoded(centered(mesh) @ upright(mesh, scene.up).T, np.float32),
        "faces": _encoded(mesh.faces, np.uint32),
        "layers": [_layer_data(layer, mesh) for layer in scene.layers],
        "scores": [[name, round(float(share), 4)] for name, share in scene.scores[:_SHOWN_SCORES]],
    }


def _layer_data(layer: LabelLayer | FieldLayer, mesh: Mesh) -> dict[str, Any]:
    values = layer.labels if isinstance(layer, LabelLayer) else layer.values
    n = mesh.n_faces if layer.element == "face" else mesh.n_vertices
    if values.shape != (n,):
        raise MeshError(
            f"{mesh.name}: layer '{layer.name}' must have one value for each {layer.element}, shape ({n},), "
            f"got {values.shape}"
        )
    common = {"name": layer.name, "element": layer.element}
    if isinstance(layer, LabelLayer):
        return common | _label_data(layer)
    low, high = field_limits(layer.values, layer.colormap) if layer.limits is None else layer.limits
    return common | {
        "kind": "field",
        "values": _encoded(layer.values, np.float32),
        "limits": [low, high],
        "colormap": layer.colormap,
    }


def _label_data(layer: LabelLayer) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kind": "labels",
        "labels": _encoded(layer.labels, np.int16),
        "classes": list(layer.classes),
        "colors": [hex_color(color) for color in layer.colors],
    }
    if layer.probabilities is not None:
        best = np.argsort(-layer.probabilities, axis=1, kind="stable")[:, :3]
        shares = np.take_along_axis(layer.probabilities, best, axis=1)
        data |= {
            "nBest": best.shape[1],
            "best": _encoded(best, np.int16),
            "shares": _encoded(np.round(255 * shares), np.uint8),
        }
    return data


def _encoded(array: NDArray[Any], dtype: type) -> str:
    little = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")
