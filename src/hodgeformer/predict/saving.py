"""Results as files that other programs open."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hodgeformer.errors import ConfigError
from hodgeformer.files import write_atomically
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.pictures import colors_of, page_of, painted

if TYPE_CHECKING:
    from hodgeformer.predict.result import Result

COLORED = (".ply", ".glb", ".obj", ".off")
_HOLDS_VERTEX_LABELS = (".ply", ".glb")
_HOLDS_FACE_LABELS = (".ply", ".glb", ".obj")


def save_result(result: Result, path: Path) -> None:
    """Write a result in the format of the suffix."""
    suffix = path.suffix.lower()
    if suffix in COLORED:
        _save_colored(result, path, suffix)
    elif suffix == ".png":
        result.render(path)
    elif suffix in _TEXTS:
        write_atomically(path, _TEXTS[suffix](result))
    else:
        raise ConfigError(f"{path}: a result cannot be written as '{suffix}'; use one of {', '.join(FORMATS)}")


def _save_colored(result: Result, path: Path, suffix: str) -> None:
    """The original mesh with the class of each face or vertex as color and, where the format holds it, as label."""
    if result.element == "mesh":
        save_mesh(result.mesh, path)
        return
    shown = painted(result)
    given: dict[str, Any] = {f"{shown.element}_colors": colors_of(shown)}
    holds_labels = _HOLDS_FACE_LABELS if shown.element == "face" else _HOLDS_VERTEX_LABELS
    if result.task != "regression" and suffix in holds_labels:
        given[f"{shown.element}_labels"] = shown.labels
    save_mesh(result.mesh, path, **given)


def as_dict(result: Result) -> dict[str, Any]:
    """Everything but the mesh itself, in plain types."""
    content: dict[str, Any] = {
        "mesh": result.mesh.name,
        "file": str(result.path) if result.path else None,
        "task": result.task,
        "element": result.element,
        "n_vertices": result.mesh.n_vertices,
        "n_faces": result.mesh.n_faces,
        "notes": list(result.mesh.notes),
        "warnings": list(result.warnings),
    }
    rows = [[round(float(value), 5) for value in row] for row in result.outputs]
    if result.task == "regression":
        return content | {"values": rows}
    content |= {"classes": list(result.names), "colors": [list(color) for color in result.colors]}
    if result.task == "classification":
        content["label"] = result.label
    content["labels"] = result.labels.tolist()
    if result.polygon_labels is not None:
        content["polygon_labels"] = result.polygon_labels.tolist()
    return content | {"probabilities": rows}


def _json(result: Result) -> bytes:
    return json.dumps(as_dict(result), allow_nan=False).encode()


def _npz(result: Result) -> bytes:
    stream = io.BytesIO()
    if result.task == "regression":
        np.savez_compressed(stream, values=result.values)
    else:
        classes = np.array(result.names, dtype=np.str_)
        np.savez_compressed(stream, labels=result.labels, probabilities=result.probabilities, classes=classes)
    return stream.getvalue()


def _txt(result: Result) -> bytes:
    """One label number per line, in the order of the file: what `labels` of a data set reads."""
    if result.task == "regression":
        lines = [" ".join(f"{value:.7g}" for value in row) for row in result.values]
    else:
        lines = [str(label) for label in result.labels]
    return ("\n".join(lines) + "\n").encode()


def _html(result: Result) -> bytes:
    return page_of(result).encode()


_TEXTS: dict[str, Callable[[Result], bytes]] = {".json": _json, ".npz": _npz, ".txt": _txt, ".html": _html}
FORMATS = (*COLORED, ".png", *_TEXTS)
