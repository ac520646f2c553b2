"""A mesh as a model saw it when it predicted: from a clicked place to an element of it, and from its values back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import ElementKind
from hodgeformer.mesh.geometry import edge_centers, face_centers
from hodgeformer.mesh.mesh import IntArray
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.mesh.resized import Refined
from hodgeformer.mesh.topology import repeats_a_vertex
from hodgeformer.predict.inference import Views
from hodgeformer.web.viewer.fields import Pick


@dataclass(frozen=True, eq=False)
class Sight:
    """The first view of a mesh, at the resolution and in the pose of a prediction."""

    seen: Views

    @property
    def prepared(self) -> PreparedMesh:
        return self.seen.views[0]

    def nearest(self, pick: Pick, kind: ElementKind) -> int:
        """The face under the clicked one, or its corner or side that is nearest to the click, numbered as prepared."""
        prepared, working = self.prepared, self.seen.working_mesh
        of_file, of_working = self._pairs
        under = of_working[of_file == pick.face]
        # A face of the file that was cut up lies under several.
        centers = face_centers(working.vertices, working.faces[under])
        face = int(prepared.face_source[under[np.linalg.norm(centers - pick.point, axis=1).argmin()]])
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

    def on_faces(self, weights: NDArray[np.float64], kind: ElementKind) -> NDArray[np.float64]:
        """On each face of the file the largest weight at the corners or sides of what lies under it.

        Unlike interpolated ones, single elements stay visible, and NaN stays where it is.
        """
        prepared = self.prepared
        if kind != "f":
            members = prepared.topology.faces if kind == "v" else prepared.topology.face_edges
            weights = np.fmax.reduce(weights[members], axis=1)
        of_file, of_working = self._pairs
        values = np.full(self.seen.mesh.n_faces, np.nan)
        np.fmax.at(values, of_file, prepared.to_file_order(weights, "f")[of_working])
        return values

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """Faces of the file, each at least once, and faces of the working mesh that lie on them."""
        own = np.arange(self.seen.mesh.n_faces)
        if not self.seen.sized:
            return own, own
        way = self.seen.sized[0]
        if isinstance(way, Refined):
            return way.labels_over(own, "f"), np.arange(way.mesh.n_faces)
        return own, np.flatnonzero(~repeats_a_vertex(way.mesh.faces))[way.places("f").face]
