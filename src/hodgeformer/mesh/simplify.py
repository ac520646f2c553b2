"""Simplify a mesh, and transfer labels and values to the smaller mesh and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.collapse import Surface
from hodgeformer.mesh.elements import proper_complex
from hodgeformer.mesh.geometry import edge_centers, face_centers, face_vectors, norms, unit, vertex_sums
from hodgeformer.mesh.io import MeshLike, as_mesh
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.order import canonical_faces, canonical_order, inverse
from hodgeformer.mesh.subdivision import subdivided, undo_subdivision
from hodgeformer.mesh.topology import MeshComplex, corner_fans, is_used, repeats_a_vertex, sparse_matrix
from hodgeformer.mesh.transfer import Places, heaviest_labels, locate

EVENNESS = (1e-2, 1e-4)
"""Triangles of similar size, or larger ones where the surface is flat. Training meshes are in between; the mean of the
answers for both is best."""
_FIRST_STEP = 16  # times the target number of faces: the first of two steps, shared by all triangulations
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
        array = _per(labels, self.count(self.original, kind), kind)
        if self.mesh is self.original:
            return array.astype(np.int64)
        source, target, weights = self.votes(kind)
        return heaviest_labels(array[source], target, weights, self.count(self.mesh, kind))

    def values_over(self, values: ArrayLike, kind: ElementKind) -> NDArray[np.float32]:
        """(n, columns) values of the original elements, averaged over each small one by area or length."""
        array = _per(values, self.count(self.original, kind), kind)
        return _means(array, *self.votes(kind), self.count(self.mesh, kind)).astype(np.float32)

    def values_back(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """Probabilities or other values of the small elements, interpolated at every original element.

        Interpolation lets a border between labels run through the small triangles, as smoothly as the edges of the
        original allow.
        """
        array = _per(values, self.count(self.mesh, kind), kind)
        if self.mesh is self.original:
            return array
        return self.places(kind).interpolate(array, kind, self._at_size_one[1], self._small)

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
            members, centers = self._fine.edges, edge_centers(vertices, self._fine.edges)
            normals = normals[members[:, 0]] + normals[members[:, 1]]
        return locate(centers, unit(normals), self.vertex_map[members], vertices=points, faces=self._small.faces)

    @property
    def _at_size_one(self) -> tuple[FloatArray, FloatArray]:
        """Vertices of the original and of the smaller mesh."""
        low, scale = _box(self.original)
        return _at_size_one(self.original.vertices, low, scale), _at_size_one(self.mesh.vertices, low, scale)

    @cached_property
    def _fine(self) -> MeshComplex:
        return proper_complex(self.original)[1]

    @cached_property
    def _small(self) -> MeshComplex:
        return proper_complex(self.mesh)[1]

    def count(self, mesh: Mesh, kind: ElementKind) -> int:
        """The number of elements of a kind in the original or the smaller mesh."""
        if kind == "e":
            return (self._fine if mesh is self.original else self._small).n.e
        return mesh.n_faces if kind == "f" else mesh.n_vertices

    def votes(self, kind: ElementKind) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs of an original element and the small one it votes for, and weights. Each small one gets a vote."""
        vertices, points = self._at_size_one
        areas = norms(face_vectors(vertices, self.original.faces)) + _TINY
        if kind == "v":
            weights = vertex_sums(areas[:, None], self.original.faces, len(vertices))[:, 0] + _TINY
            return np.arange(len(vertices)), self.vertex_map, weights
        if self.mesh is self.original:
            target = np.arange(self.count(self.mesh, kind))
        elif kind == "f":
            target = np.flatnonzero(~repeats_a_vertex(self.mesh.faces))[self.places(kind).face]
        else:
            places = self.places(kind)
            side = (places.weights.argmin(axis=1) + 1) % 3  # opposite the corner with the least weight
            target = self._small.face_edges[places.face, side]
        if kind == "f":
            weights, centers = areas, face_centers(vertices, self.original.faces)
            small_centers = face_centers(points, self.mesh.faces)
        else:
            ends = vertices[self._fine.edges]
            weights, centers = norms(ends[:, 1] - ends[:, 0]) + _TINY, ends.mean(axis=1)
            small_centers = edge_centers(points, self._small.edges)
        voteless = np.setdiff1d(np.arange(len(small_centers)), target)
        source = np.arange(len(centers))
        if voteless.size:
            from scipy.spatial import cKDTree

            nearest = cKDTree(centers).query(small_centers[voteless])[1]
            source, target = np.concatenate([source, nearest]), np.concatenate([target, voteless])
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
        n = self._undone.count(self.original, kind)
        return _per(labels, n, kind)[target[: self._undone.count(self.mesh, kind)]].astype(np.int64)

    def values_back(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """The mean over the pieces of each original element, weighted by size."""
        array = _per(values, self._undone.count(self.mesh, kind), kind)
        mean = _means(array, *self._undone.votes(kind), self._undone.count(self.original, kind))
        return mean.astype(array.dtype if array.dtype.kind == "f" else np.float64)

    @cached_property
    def _undone(self) -> Simplified:
        """The transfer from the finer mesh to the original."""
        return Simplified(self.mesh, self.original, self.vertex_map, self.mesh.faces)


def refine(mesh: Mesh, n_faces: int) -> Refined:
    """Cut all faces in four until there are about `n_faces`; the surface does not change."""
    fine, origin = mesh, np.arange(mesh.n_faces)
    while 2 * fine.n_faces < n_faces:
        traced = subdivided(fine)
        fine, origin = traced.mesh, origin[traced.origin]
    of_vertex = np.zeros(fine.n_vertices, dtype=np.int64)
    of_vertex[fine.faces] = origin[:, None]
    corners = mesh.faces[of_vertex]
    nearest = np.linalg.norm(mesh.vertices[corners] - fine.vertices[:, None], axis=2).argmin(axis=1)
    vertex_map = corners[np.arange(len(corners)), nearest]
    vertex_map[: mesh.n_vertices] = np.arange(mesh.n_vertices)
    return Refined(mesh, fine, vertex_map)


def triangulations(mesh: Mesh, n_faces: int, n: int) -> tuple[Simplified, ...]:
    """The mesh simplified in up to n different ways, from even triangles to those that follow the shape."""
    coarse = simplify(mesh, _FIRST_STEP * n_faces)
    ways = tuple(simplify(coarse.mesh, n_faces, evenness=evenness) for evenness in EVENNESS[:n])
    if coarse.mesh is mesh:
        return ways
    return tuple(Simplified(mesh, way.mesh, way.vertex_map[coarse.vertex_map], coarse.whole) for way in ways)


def simplify(mesh: MeshLike, n_faces: int, *, seed: int | None = None, evenness: float = EVENNESS[0]) -> Simplified:
    """Collapse edges, those with the smallest error first, until at most `n_faces` faces are left.

    A mesh that has no more than that is returned unchanged. A closed manifold remains one, even if more faces are left
    than requested; to reach the number, only pieces smaller than a face of the result are removed. The result does not
    depend on the numbering of vertices and faces, nor on whether the mesh was subdivided. Each `seed` gives another
    triangulation of the same surface; `evenness` weighs triangles of even size against a close fit.
    """
    mesh = as_mesh(mesh)
    if n_faces < 1:
        raise MeshError(f"{mesh.name}: cannot simplify to {n_faces} faces; set at least 1")
    if n_faces >= mesh.n_faces:
        return Simplified(mesh, mesh, np.arange(mesh.n_vertices), mesh.faces)
    low, scale = _box(mesh)
    positions = _at_size_one(mesh.vertices, low, scale)
    proper = np.flatnonzero(~repeats_a_vertex(mesh.faces))
    if not proper.size:
        raise MeshError(f"{mesh.name}: every face repeats a vertex, so there is no surface to simplify")
    used, dense = np.unique(mesh.faces[proper], return_inverse=True)
    order = canonical_order(positions[used], dense.reshape(-1, 3))
    points, faces, into = positions[used][order], inverse(order)[dense.reshape(-1, 3)], np.arange(len(order))
    quarter_of = np.arange(len(faces))
    while seed is None and len(faces) > n_faces and (undone := undo_subdivision(points, faces)) is not None:
        faces, into, quarter_of = undone.faces, undone.into[into], undone.quarter_of[quarter_of]
    whole = mesh.faces.copy()
    whole[proper] = used[order][faces[quarter_of]]
    points, faces, into = _apart(points, canonical_faces(faces)[0], into)
    surface, joined = _joined_surface(points, faces, evenness)
    surface.reduce(n_faces, seed)
    kept, small_faces = np.unique(surface.faces[surface.alive], return_inverse=True)
    number = np.full(len(points), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    small = replace(
        mesh,
        vertices=surface.points[kept] * scale + low,
        faces=small_faces.reshape(-1, 3),
        polygons=None,
        attributes={},
        notes=(*mesh.notes, f"simplified from {mesh.n_faces} to {surface.n_faces} faces"),
    )
    vertex_map = np.full(mesh.n_vertices, -1, dtype=np.int64)
    vertex_map[used[order]] = number[surface.merged_into()[joined[into]]]
    # Vertices of removed pieces, and those that no face uses, are mapped to the nearest.
    lost = np.flatnonzero(vertex_map < 0)
    if lost.size:
        from scipy.spatial import cKDTree

        vertex_map[lost] = cKDTree(surface.points[kept]).query(positions[lost])[1]
    return Simplified(mesh, small, vertex_map, whole)


def _apart(points: FloatArray, faces: IntArray, into: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Give sheets that touch in a vertex a separate vertex each: a collapse there would join them."""
    fans = corner_fans(faces).ravel()
    if fans.max() + 1 == is_used(faces, len(points)).sum():
        return points, faces, into
    _, corner, split = np.unique(faces.ravel() * faces.size + fans, return_index=True, return_inverse=True)
    owner = faces.ravel()[corner]
    return points[owner], split.reshape(-1, 3), np.searchsorted(owner, into)


def _joined_surface(points: FloatArray, faces: IntArray, evenness: float) -> tuple[Surface, IntArray]:
    """The surface, and for each vertex the one that it was joined with.

    Border vertices at the same position are joined: in some files a surface is cut along the seams of its texture, or
    into single triangles.
    """
    surface, joined = Surface.from_mesh(points, faces, evenness), np.arange(len(points))
    rim = np.flatnonzero(surface.rim)
    _, first, place = np.unique(points[rim], axis=0, return_index=True, return_inverse=True)
    joined[rim] = rim[first[place.ravel()]]
    whole = ~repeats_a_vertex(joined[faces])
    if len(first) == len(rim) or not whole.any():
        return surface, np.arange(len(points))
    return Surface.from_mesh(points, joined[faces[whole]], evenness), joined


def _box(mesh: Mesh) -> tuple[FloatArray, float]:
    """Lowest corner and longest side: thresholds are absolute and squares may overflow, so meshes are scaled to one."""
    used = mesh.vertices[is_used(mesh.faces, mesh.n_vertices)]
    low = used.min(axis=0)
    return low, float((used.max(axis=0) - low).max()) or 1.0


def _at_size_one(vertices: FloatArray, low: FloatArray, scale: float) -> FloatArray:
    """Scaled to size one. Vertices that no face uses may be anywhere; they are moved near, to keep squares finite."""
    return (np.clip(vertices, low - 4 * scale, low + 4 * scale) - low) / scale


def _means(values: NDArray[Any], source: IntArray, target: IntArray, weights: FloatArray, n: int) -> NDArray[Any]:
    """For each of n targets the weighted mean of the rows that vote for it."""
    shares = weights / np.bincount(target, weights, n)[target]
    return np.asarray(sparse_matrix((shares, (target, source)), shape=(n, len(values))) @ values)


def _per(values: ArrayLike, n: int, kind: ElementKind) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n:
        raise MeshError(f"expected one value per {ELEMENT_NAMES[kind]} ({n}), got an array of shape {array.shape}")
    return array
