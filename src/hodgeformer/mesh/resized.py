"""A mesh at another resolution: transfers labels, values and columns to it, and answers back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.containers import ELEMENT_NAMES, KIND_OF, ElementKind
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.elements import selected
from hodgeformer.mesh.geometry import edge_centers, face_centers, face_vectors, nearest_rows, norms, unit, vertex_sums
from hodgeformer.mesh.mesh import Column, FloatArray, IntArray, Mesh
from hodgeformer.mesh.order import canonical_faces, canonical_order
from hodgeformer.mesh.topology import is_used
from hodgeformer.mesh.transfer import Places, heaviest_labels, locate, mean_votes

_TINY = np.finfo(np.float64).tiny  # elements without size still need a weight


@dataclass(frozen=True, eq=False)
class Simplified:
    """A smaller mesh; transfers labels to it and values back, both in the order of the file.

    `vertex_map` gives for each original vertex the one that it was merged into. If the mesh was subdivided, `whole` are
    the corners of the faces that the original ones are quarters of: the four quarters get one answer.
    """

    original: Mesh
    mesh: Mesh
    vertex_map: IntArray
    whole: IntArray

    def labels_over(self, labels: ArrayLike, kind: ElementKind) -> NDArray[np.int64]:
        """For each small element the label that covers most of its area, or of its length for edges.

        No label is lost: one that wins nowhere gets the element where its share is greatest. This does not apply to
        labels below zero, which mark unlabeled elements.
        """
        array = _per(labels, self.original, kind)
        if self.mesh is self.original:
            return array.astype(np.int64)
        source, target, weights = self.votes(kind)
        return heaviest_labels(array[source], target, weights, self.mesh.count(kind))

    def values_over(self, values: ArrayLike, kind: ElementKind) -> NDArray[np.float32]:
        """(n, columns) values of the original elements, averaged over each small one by area or length."""
        return self.means_over(values, kind).astype(np.float32)

    def means_over(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """The same in the precision of the values."""
        array = _per(values, self.original, kind)
        return mean_votes(array, *self.votes(kind), self.mesh.count(kind))

    def values_back(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """Probabilities or other values of the small elements, interpolated at every original element.

        Interpolation lets a border between labels run through the small triangles, as smoothly as the edges of the
        original allow.
        """
        array = _per(values, self.mesh, kind)
        if self.mesh is self.original:
            return array
        return self.places(kind).interpolate(array, kind, self._at_size_one[1], self.mesh.topology)

    def places(self, kind: ElementKind) -> Places:
        """The place of the center of each original element on the smaller mesh, without faces that repeat a vertex."""
        vertices, points = self._at_size_one
        if kind == "f":
            members, normals = self.whole, face_vectors(vertices, self.whole)
            centers = face_centers(vertices, members)
        else:
            normals = vertex_sums(face_vectors(vertices, self.original.faces), self.original.faces, len(vertices))
            members, centers = np.arange(len(vertices))[:, None], vertices
        if kind == "e":
            members, centers = self.original.topology.edges, edge_centers(vertices, self.original.topology.edges)
            normals = normals[members[:, 0]] + normals[members[:, 1]]
        return locate(centers, unit(normals), self.vertex_map[members], vertices=points, faces=self.mesh.topology.faces)

    @property
    def _at_size_one(self) -> tuple[FloatArray, FloatArray]:
        """Vertices of the original and of the smaller mesh."""
        low, scale = box(self.original)
        return at_size_one(self.original.vertices, low, scale), at_size_one(self.mesh.vertices, low, scale)

    def votes(self, kind: ElementKind) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs of an original element and the small one it votes for, and weights. Each small one gets a vote."""
        vertices, points = self._at_size_one
        areas = norms(face_vectors(vertices, self.original.faces)) + _TINY
        if kind == "v":
            weights = vertex_sums(areas[:, None], self.original.faces, len(vertices))[:, 0] + _TINY
            return np.arange(len(vertices)), self.vertex_map, weights
        if self.mesh is self.original:
            target = np.arange(self.mesh.count(kind))
        elif kind == "f":
            target = self.mesh.proper_faces[self.places(kind).face]
        else:
            places = self.places(kind)
            side = (places.weights.argmin(axis=1) + 1) % 3  # opposite the corner with the least weight
            target = self.mesh.topology.face_edges[places.face, side]
        if kind == "f":
            weights, centers = areas, face_centers(vertices, self.original.faces)
            small_centers = face_centers(points, self.mesh.faces)
        else:
            ends = vertices[self.original.topology.edges]
            weights, centers = norms(ends[:, 1] - ends[:, 0]) + _TINY, ends.mean(axis=1)
            small_centers = edge_centers(points, self.mesh.topology.edges)
        voteless = np.setdiff1d(np.arange(len(small_centers)), target)
        source = np.arange(len(centers))
        if voteless.size:
            source = np.concatenate([source, nearest_rows(small_centers[voteless], centers)])
            target = np.concatenate([target, voteless])
        return source, target, weights[source]


@dataclass(frozen=True, eq=False)
class Refined:
    """A finer mesh; transfers labels to it and values back, both in the order of the file."""

    original: Mesh
    mesh: Mesh
    vertex_map: IntArray

    def labels_over(self, labels: ArrayLike, kind: ElementKind) -> NDArray[np.int64]:
        """Every piece of an element gets its label; a new element between two gets that of one of them."""
        target = self._undone.votes(kind)[1]
        return _per(labels, self.original, kind)[target[: self.mesh.count(kind)]].astype(np.int64)

    def means_over(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """(n, columns) values of the original elements, interpolated at every finer one."""
        return self._undone.values_back(values, kind)

    def values_back(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """The mean over the pieces of each original element, weighted by size."""
        array = _per(values, self.mesh, kind)
        return mean_votes(array, *self._undone.votes(kind), self.original.count(kind))

    @cached_property
    def _undone(self) -> Simplified:
        """The transfer from the finer mesh to the original."""
        return Simplified(self.mesh, self.original, self.vertex_map, self.mesh.faces)


Resized = TypeVar("Resized", Simplified, Refined)


def with_columns(changed: Resized) -> Resized:
    """The same, with the columns of the original on the changed mesh."""
    if not changed.original.columns:
        return changed
    transfer = _renumbered(changed) if isinstance(changed, Simplified) else changed
    columns = {
        name: Column(element, transfer.means_over(values[:, None], KIND_OF[element])[:, 0])
        for name, (element, values) in transfer.original.columns.items()
    }
    return replace(changed, mesh=replace(changed.mesh, columns=columns))


def _renumbered(changed: Simplified) -> Simplified:
    """The same from an original in canonical order, so that its numbering does not decide between equal votes."""
    mesh, proper = changed.original, changed.original.proper_faces
    used, dense = np.unique(mesh.faces[proper], return_inverse=True)
    order = used[canonical_order(at_size_one(mesh.vertices[used], *box(mesh)), dense.reshape(-1, 3))]
    number = np.full(mesh.n_vertices, -1)
    number[order] = np.arange(len(order))
    faces, face_order = canonical_faces(number[mesh.faces[proper]])
    whole = number[changed.whole[proper[face_order]]]
    turn = (whole.argmin(axis=1)[:, None] + np.arange(3)) % 3
    original = selected(mesh, order, faces, proper[face_order])
    return Simplified(original, changed.mesh, changed.vertex_map[order], np.take_along_axis(whole, turn, axis=1))


def box(mesh: Mesh) -> tuple[FloatArray, float]:
    """Lowest corner and longest side: thresholds are absolute and squares may overflow, so meshes are scaled to one."""
    used = mesh.vertices[is_used(mesh.faces, mesh.n_vertices)]
    low = used.min(axis=0)
    return low, float((used.max(axis=0) - low).max()) or 1.0


def at_size_one(vertices: FloatArray, low: FloatArray, scale: float) -> FloatArray:
    """Scaled to size one. Vertices that no face uses may be anywhere; they are moved near, to keep squares finite."""
    return (np.clip(vertices, low - 4 * scale, low + 4 * scale) - low) / scale


def _per(values: ArrayLike, mesh: Mesh, kind: ElementKind) -> NDArray[Any]:
    array, n = np.asarray(values), mesh.count(kind)
    if array.ndim == 0 or len(array) != n:
        raise MeshError(f"expected one value per {ELEMENT_NAMES[kind]} ({n}), got an array of shape {array.shape}")
    return array
