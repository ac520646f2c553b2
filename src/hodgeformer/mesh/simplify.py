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
        low, scale = _box(self.original.vertices)
        areas = norms(face_vectors((self.original.vertices - low) / scale, self.original.faces))
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
    low, scale = _box(mesh.vertices)
    positions = (mesh.vertices - low) / scale
    proper = np.flatnonzero(~repeats_a_vertex(mesh.faces))
    used, dense = np.unique(mesh.faces[proper], return_inverse=True)
    dense = dense.reshape(-1, 3)
    if n_faces >= len(dense):
        points, stands_for = positions[used], np.arange(len(used))
    else:
        points, stands_for = _decimate(mesh.name, positions[used], dense, n_faces)
    moved = stands_for[dense]
    survives = ~repeats_a_vertex(moved) & (moved >= 0).all(axis=1)
    faces = moved[survives]
    small = replace(
        mesh,
        vertices=points * scale + low,
        faces=faces,
        polygons=None,
        attributes={},
        notes=(*mesh.notes, f"simplified from {mesh.n_faces} to {len(faces)} faces"),
    )
    vertex_map = np.full(mesh.n_vertices, -1, dtype=np.int64)
    vertex_map[used] = stands_for
    # Vertices that went down with their component, and those that no face uses, take the nearest.
    lost = np.flatnonzero(vertex_map < 0)
    if lost.size:
        vertex_map[lost] = cKDTree(points).query(positions[lost])[1]
    face_map = np.full(mesh.n_faces, -1, dtype=np.int64)
    face_map[proper[survives]] = np.arange(len(faces))
    lost = np.flatnonzero(face_map < 0)
    if lost.size:
        centers = face_centers(positions, mesh.faces[lost])
        face_map[lost] = _nearest_at(centers, vertex_map[mesh.faces[lost]], points=points, faces=faces)
    return Simplified(mesh, small, face_map, vertex_map)


def _box(vertices: FloatArray) -> tuple[FloatArray, float]:
    """Corner and longest side: thresholds are absolute and squares overflow, so all work is done at size one."""
    low = vertices.min(axis=0)
    return low, float((vertices.max(axis=0) - low).max()) or 1.0


def _decimate(name: str, points: FloatArray, faces: IntArray, n_faces: int) -> tuple[FloatArray, IntArray]:
    """New points, and for each old one the new one it went into, -1 where all its faces are gone."""
    import fast_simplification

    with _DECIMATOR:
        reduced, triangles, collapses = fast_simplification.simplify(
            points, faces.astype(np.int32), target_count=n_faces, return_collapses=True
        )
    if len(triangles) == 0:
        raise MeshError(f"{name}: nothing is left of {len(faces)} faces at {n_faces}; ask for more faces")
    into = np.arange(len(points))
    into[collapses[:, 1]] = collapses[:, 0]
    # Follow the chains of collapses to their ends, doubling the step each time.
    while not np.array_equal(into, into[into]):
        into = into[into]
    moved = into[faces]
    kept = np.unique(moved[~repeats_a_vertex(moved)])
    if len(kept) != len(reduced):
        raise MeshError(f"{name}: the decimator lost track of its vertices; try another number of faces")
    number = np.full(len(points), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    return reduced, number[into]


def _nearest_at(centers: FloatArray, corners: IntArray, *, points: FloatArray, faces: IntArray) -> IntArray:
    """For each center the face with the nearest center among the faces at its three corners.

    Only faces at those corners are asked, so that a label cannot jump to another sheet that happens to be near.
    """
    offsets, incident = incidence_lists(faces, len(points))
    counts = np.diff(offsets)[corners.ravel()]
    begin = np.repeat(offsets[corners.ravel()] - (np.cumsum(counts) - counts), counts)
    candidate = incident[begin + np.arange(int(counts.sum()))]
    per_row = counts.reshape(-1, 3).sum(axis=1)
    start = np.cumsum(per_row) - per_row
    row = np.repeat(np.arange(len(corners)), per_row)
    distance = norms(centers[row] - face_centers(points, faces)[candidate])
    # Of equally near faces the one with the smallest number.
    near = distance == np.repeat(np.minimum.reduceat(distance, start), per_row)
    nearest: IntArray = np.minimum.reduceat(np.where(near, candidate, len(faces)), start).astype(np.int64)
    return nearest


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
