"""The views of a picture, and the position of each vertex in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hodgeformer.base.errors import ConfigError
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.pose import UP_AXES
from hodgeformer.mesh.up import up_from_shape

Up = str | FloatArray
"""The direction that is up in a file: an axis, any direction, or "auto", guessed from the shape."""
_DISTANCE = 4.5  # of the camera, in radii of the mesh: mild perspective
# The axis toward the camera of the front view.
_TOWARD = {"y": "z", "z": "-y", "x": "-z", "-y": "-z", "-z": "y", "-x": "-z"}


@dataclass(frozen=True)
class View:
    """A viewing direction in degrees: around the up axis from the front, and above the horizon."""

    azimuth: float
    elevation: float = 12.0


def upright(mesh: Mesh, up: Up = "auto") -> FloatArray:
    """Rows: the directions right, up and toward the camera of the front view."""
    if isinstance(up, str):
        if up != "auto" and up not in UP_AXES:
            raise ConfigError(f"up must be auto, {', '.join(UP_AXES)}, or a direction, got '{up}'")
        up = up_from_shape(mesh) if up == "auto" else np.array(UP_AXES[up], dtype=np.float64)
    direction = np.asarray(up, dtype=np.float64) / np.linalg.norm(up)
    nearest = max(UP_AXES, key=lambda name: float(np.dot(UP_AXES[name], direction)))
    toward = np.array(UP_AXES[_TOWARD[nearest]]) - direction * np.dot(UP_AXES[_TOWARD[nearest]], direction)
    toward /= np.linalg.norm(toward)
    return np.stack([np.cross(direction, toward), direction, toward])


def rotation(view: View, front: FloatArray) -> FloatArray:
    """Rows: right, up and toward the camera; `front` are those of the front view."""
    turn, tilt = np.radians([view.azimuth, view.elevation])
    around = np.array([[np.cos(turn), 0, -np.sin(turn)], [0, 1, 0], [np.sin(turn), 0, np.cos(turn)]])
    over = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    return np.asarray(over @ around @ front)


def centered(mesh: Mesh) -> FloatArray:
    """The vertices, scaled so that the used ones are in the unit sphere, where float32 is precise enough."""
    used = mesh.vertices[mesh.faces.ravel()]
    middle = (used.min(axis=0) + used.max(axis=0)) / 2
    return np.asarray((mesh.vertices - middle) / (np.linalg.norm(used - middle, axis=1).max() or 1.0))


def projected(mesh: Mesh, views: Sequence[View], front: FloatArray) -> FloatArray:
    """Screen positions (views, n_v, 3): right and up in radii of the mesh, and nearness, linear on the screen.

    Each view is centered at the origin. Vertices that no face uses have no influence.
    """
    used, vertices = np.unique(mesh.faces), centered(mesh)
    out = np.empty((len(views), mesh.n_vertices, 3))
    for i, view in enumerate(views):
        turned = vertices @ rotation(view, front).T
        closer = _DISTANCE / np.maximum(_DISTANCE - turned[:, 2], 0.1)
        out[i, :, :2] = turned[:, :2] * closer[:, None]
        out[i, :, 2] = closer
        shown = out[i, used, :2]
        out[i, :, :2] -= (shown.min(axis=0) + shown.max(axis=0)) / 2
    return out
