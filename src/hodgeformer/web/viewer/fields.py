"""Scalar fields on an open mesh, and the way from a click to an element and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import ElementKind
from hodgeformer.mesh.geometry import edge_centers, face_centers
from hodgeformer.mesh.mesh import IntArray
from hodgeformer.mesh.subdivision import Refined
from hodgeformer.mesh.topology import repeats_a_vertex
from hodgeformer.predict.inference import Views
from hodgeformer.web.server.intake import Refusal


@dataclass(frozen=True, eq=False)
class ScalarField:
    """One value per vertex or face, NaN for none; `signed` ones are drawn around zero, `note` describes them."""

    values: NDArray[np.float32]
    element: Literal["vertex", "face"]
    signed: bool
    note: str


@dataclass(frozen=True)
class Choice:
    """One choice of the user, with its options as value and text."""

    key: str
    title: str
    options: tuple[tuple[str, str], ...]

    def answer(self, chosen: Mapping[str, str]) -> str:
        """The chosen value, which must be an option; by default the first."""
        value = chosen.get(self.key, self.options[0][0])
        if value not in dict(self.options):
            raise Refusal(400, f"{self.title} '{value[:40]}' is not an option; reload the page.")
        return value


@dataclass(frozen=True)
class Pick:
    """The clicked face and the clicked point on it."""

    face: int
    point: tuple[float, float, float]


def nearest_element(views: Views, pick: Pick, kind: ElementKind) -> int:
    """The face below the clicked one, or its corner or side that is nearest to the click, numbered as prepared."""
    prepared, working = views.prepared[0], views.working_mesh
    of_file, of_working = _face_pairs(views)
    below = of_working[of_file == pick.face]
    # A face of the file that was subdivided lies above several.
    centers = face_centers(working.vertices, working.faces[below])
    face = int(prepared.face_source[below[np.linalg.norm(centers - pick.point, axis=1).argmin()]])
    if kind == "f":
        return face
    corners = prepared.topology.faces[face]
    vertices = working.vertices[prepared.order.v[corners]]
    if kind == "v":
        return int(corners[np.linalg.norm(vertices - pick.point, axis=1).argmin()])
    sides = prepared.topology.face_edges[face]
    # Ends of the sides as places among the three corners.
    ends = (prepared.topology.edges[sides][:, :, None] == corners).argmax(axis=2)
    return int(sides[np.linalg.norm(edge_centers(vertices, ends) - pick.point, axis=1).argmin()])


def on_faces(views: Views, weights: NDArray[np.float64], kind: ElementKind) -> NDArray[np.float32]:
    """On each face of the file the largest weight at the corners or sides of the working faces below it.

    Unlike interpolated ones, single elements stay visible, and NaN stays where it is.
    """
    prepared = views.prepared[0]
    if kind != "f":
        members = prepared.topology.faces if kind == "v" else prepared.topology.face_edges
        weights = np.fmax.reduce(weights[members], axis=1)
    of_file, of_working = _face_pairs(views)
    values = np.full(views.mesh.n_faces, np.nan)
    np.fmax.at(values, of_file, prepared.to_file_order(weights, "f")[of_working])
    return values.astype(np.float32)


def _face_pairs(views: Views) -> tuple[IntArray, IntArray]:
    """Faces of the file, each at least once, and the faces of the working mesh below them."""
    own = np.arange(views.mesh.n_faces)
    if not views.sized:
        return own, own
    way = views.sized[0]
    if isinstance(way, Refined):
        return way.labels_over(own, "f"), np.arange(way.mesh.n_faces)
    return own, np.flatnonzero(~repeats_a_vertex(way.mesh.faces))[way.places("f").face]
