"""Fewer faces, and the way back: quadric decimation that remembers what became of every face and vertex."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from hodgeformer.errors import MeshError
from hodgeformer.mesh.geometry import face_centers, face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import incidence_lists, repeats_a_vertex

# The decimator keeps its mesh in one place for the whole process.
_DECIMATOR = threading.Lock()


@dataclass(frozen=True, eq=False)
class Simplified:
    """A smaller mesh; `face_map` and `vertex_map` give, for each original, the one that stands for it."""

    original: Mesh
    mesh: Mesh
    face_map: IntArray
    vertex_map: IntArray

    def carry_face_labels_down(self, labels: ArrayLike) -> NDArray[np.int64]:
        """For each small face the label that covers most area of the original faces it stands for."""
        scale = float(np.abs(self.original.vertices).max()) or 1.0
        areas = norms(face_vectors(self.original.vertices / scale, self.original.faces))
        # Faces without area still count among themselves.
        weights = areas + np.finfo(np.float64).tiny
        return _majority(_per(labels, self.original.n_faces, "face"), self.face_map, weights, self.mesh.n_faces)

    def carry_vertex_labels_down(self, labels: ArrayLike) -> NDArray[np.int64]:
        """For each small vertex the most frequent label among the original vertices it stands for."""
        labels = _per(labels, self.original.n_vertices, "vertex")
        return _majority(labels, self.vertex_map, np.ones(len(labels)), self.mesh.n_vertices)

    def project_face_values_up(self, values: ArrayLike) -> NDArray[Any]:
        """Labels, probabilities or colors of the small faces onto the original faces."""
        return _per(values, self.mesh.n_faces, "face")[self.face_map]

    def project_vertex_values_up(self, values: ArrayLike) -> NDArray[Any]:
        return _per(values, self.mesh.n_vertices, "vertex")[self.vertex_map]


def simplify(mesh: Mesh, n_faces: int) -> Simplified:
    """Collapse edges, the least damage first, until about `n_faces` faces are left.

    A mesh that has no more than that comes back as it is. The result can have more faces than asked where no
    collapse is possible without folding the surface over. The same mesh always gives the same result.
    """
    if n_faces < 1:
        raise MeshError(f"{mesh.name}: cannot simplify to {n_faces} faces; at least 1 is needed")
    if n_faces >= mesh.n_faces:
        return Simplified(mesh, mesh, np.arange(mesh.n_faces), np.arange(mesh.n_vertices))
    proper = np.flatnonzero(~repeats_a_vertex(mesh.faces))
    used, dense = np.unique(mesh.faces[proper], return_inverse=True)
    dense = dense.reshape(-1, 3)
    if n_faces >= len(dense):
        points, stands_for = mesh.vertices[used], np.arange(len(used))
    else:
        points, stands_for = _decimate(mesh, mesh.vertices[used], dense, n_faces)
    moved = stands_for[dense]
    survives = ~repeats_a_vertex(moved) & (moved >= 0).all(axis=1)
    small = replace(
        mesh,
        vertices=points,
        faces=moved[survives],
        polygons=None,
        attributes={},
        notes=(*mesh.notes, f"simplified from {mesh.n_faces} to {int(survives.sum())} faces"),
    )
    vertex_map = _vertex_map(mesh, small, used, stands_for)
    return Simplified(mesh, small, _face_map(mesh, small, vertex_map, proper[survives]), vertex_map)


def _decimate(mesh: Mesh, points: FloatArray, faces: IntArray, n_faces: int) -> tuple[FloatArray, IntArray]:
    """New points, and for each old one the new one it went into, -1 where all its faces are gone."""
    import fast_simplification

    low, high = points.min(axis=0), points.max(axis=0)
    # Its error thresholds are absolute, so the size of the mesh must not matter.
    scale = float((high - low).max()) or 1.0
    with _DECIMATOR:
        reduced, triangles, collapses = fast_simplification.simplify(
            (points - low) / scale, faces.astype(np.int32), target_count=n_faces, return_collapses=True
        )
    if len(triangles) == 0:
        raise MeshError(f"{mesh.name}: nothing is left of {mesh.n_faces} faces at {n_faces}; ask for more faces")
    into = np.arange(len(points))
    into[collapses[:, 1]] = collapses[:, 0]
    # Follow the chains of collapses to their ends, doubling the step each time.
    while not np.array_equal(into, into[into]):
        into = into[into]
    moved = into[faces]
    kept = np.unique(moved[~repeats_a_vertex(moved)])
    number = np.full(len(points), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    if len(kept) != len(reduced):
        raise MeshError(f"{mesh.name}: the decimator lost track of its vertices; try another number of faces")
    return reduced * scale + low, number[into]


def _vertex_map(mesh: Mesh, small: Mesh, used: IntArray, stands_for: IntArray) -> IntArray:
    """Vertices that went down with their component, and those that no face uses, take the nearest."""
    vertex_map = np.full(mesh.n_vertices, -1, dtype=np.int64)
    vertex_map[used] = stands_for
    lost = np.flatnonzero(vertex_map < 0)
    if lost.size:
        vertex_map[lost] = cKDTree(small.vertices).query(mesh.vertices[lost])[1]
    return vertex_map


def _face_map(mesh: Mesh, small: Mesh, vertex_map: IntArray, survivors: IntArray) -> IntArray:
    """A surviving face is itself; a collapsed one takes the nearest small face at the vertices it went into.

    Only faces at those vertices are asked, so that a label cannot jump to another sheet that happens to be near.
    """
    face_map = np.empty(mesh.n_faces, dtype=np.int64)
    face_map[survivors] = np.arange(small.n_faces)
    lost = np.setdiff1d(np.arange(mesh.n_faces), survivors)
    if lost.size == 0:
        return face_map
    offsets, incident = incidence_lists(small.faces, small.n_vertices)
    corners = vertex_map[mesh.faces[lost]].ravel()
    counts = np.diff(offsets)[corners]
    begin = np.repeat(offsets[corners] - (np.cumsum(counts) - counts), counts)
    candidate = incident[begin + np.arange(int(counts.sum()))]
    row = np.repeat(np.repeat(np.arange(len(lost)), 3), counts)
    to = face_centers(small.vertices, small.faces)[candidate]
    distance = norms(face_centers(mesh.vertices, mesh.faces[lost])[row] - to)
    order = np.lexsort((candidate, distance, row))
    first = np.searchsorted(row[order], np.arange(len(lost)))
    face_map[lost] = candidate[order][first]
    return face_map


def _majority(labels: NDArray[Any], target: IntArray, weights: FloatArray, n_targets: int) -> NDArray[np.int64]:
    """Label of greatest total weight for each target, the smaller label on a tie."""
    values, label = np.unique(labels, return_inverse=True)
    pairs, pair = np.unique(target * len(values) + label, return_inverse=True)
    total = np.bincount(pair, weights)
    owner, choice = np.divmod(pairs, len(values))
    order = np.lexsort((choice, -total, owner))
    first = np.searchsorted(owner[order], np.arange(n_targets))
    winners: NDArray[np.int64] = values[choice[order][first]].astype(np.int64)
    return winners


def _per(values: ArrayLike, n: int, element: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n:
        raise MeshError(f"expected one value per {element} ({n}), got an array of shape {array.shape}")
    return array
