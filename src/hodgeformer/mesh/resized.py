"""A simplified mesh: transfers labels, values and columns to it, and answers back.

Answers are interpolated at places on its triangles, which are found by a walk on the surface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import ELEMENT_NAMES, KIND_OF, ElementKind
from hodgeformer.base.errors import MeshError
from hodgeformer.base.machine import for_row_ranges, thread_count
from hodgeformer.mesh.elements import heaviest_labels, mean_votes
from hodgeformer.mesh.geometry import edge_centers, face_centers, face_vectors, nearest_rows, norms, unit, vertex_sums
from hodgeformer.mesh.mesh import Column, FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import MeshComplex, incidence_lists, is_used, sparse_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_TINY = np.finfo(np.float64).tiny  # elements without size still need a weight
_TILT = 0.1  # the penalty for a face with another orientation, relative to its size
_MOST_STEPS = 32


@dataclass(frozen=True, eq=False)
class Places:
    """Points on a mesh: a face for each, and barycentric coordinates (n, 3) in it."""

    face: IntArray
    weights: FloatArray

    def interpolate(
        self, values: NDArray[Any], kind: ElementKind, vertices: FloatArray, topology: MeshComplex
    ) -> NDArray[Any]:
        """Values of the mesh's elements at the places: continuous, and equal to each element's value at its center.

        Vertices get the mean of the elements around them. A face is cut into three triangles around its center, or, for
        values of edges, into four between the centers of its sides, and values are linear in each.
        """
        corners, weights = topology.faces[self.face], self.weights
        flat = values.reshape(len(values), -1)
        flat = flat if flat.dtype.kind == "f" else flat.astype(np.float64)
        if kind == "v":
            return _mix(weights, corners, flat).reshape(-1, *values.shape[1:])
        if kind == "f":
            sizes, members = norms(face_vectors(vertices, topology.faces)), topology.faces
            least = weights.min(axis=1)
            own, at_corners = 3 * least[:, None], weights - least[:, None]
            elements = self.face[:, None]
        else:
            ends = vertices[topology.edges]
            sizes, members = norms(ends[:, 1] - ends[:, 0]), topology.edges
            at_corners = np.maximum(2 * weights - 1, 0)
            is_at = at_corners > 0
            # Side i joins corners i and i + 1; in the triangle at one of them, its weight is twice the other's.
            by_end = 2 * (is_at * np.roll(weights, -1, axis=1) + np.roll(is_at, -1, axis=1) * weights)
            own = np.where(is_at.any(axis=1, keepdims=True), by_end, 1 - 2 * np.roll(weights, 1, axis=1))
            elements = topology.face_edges[self.face]
        around = (_means(members, sizes, topology.n.v) @ flat).astype(flat.dtype)
        mixed: NDArray[Any] = _mix(own, elements, flat) + _mix(at_corners, corners, around)
        return mixed.reshape(-1, *values.shape[1:])


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
        array = per_element(labels, self.original, kind)
        if self.mesh is self.original:
            return array.astype(np.int64)
        source, target, weights = self.votes(kind)
        return heaviest_labels(array[source], target, weights, self.mesh.count(kind))

    def values_over(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """(n, columns) values of the original elements, averaged over each small one by area or length."""
        array = per_element(values, self.original, kind)
        return mean_votes(array, *self.votes(kind), self.mesh.count(kind))

    def values_back(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """Values of the small elements, interpolated at every original one: borders run through the small triangles."""
        array = per_element(values, self.mesh, kind)
        if self.mesh is self.original:
            return array
        return self.places(kind).interpolate(array, kind, self._at_size_one[1], self.mesh.topology)

    def places(self, kind: ElementKind) -> Places:
        """The place of the center of each original element on the smaller mesh, without faces that repeat a vertex."""
        vertices, points = self._at_size_one
        if kind == "f":
            members, normals = self.whole, face_vectors(vertices, self.whole)
        else:
            around = vertex_sums(face_vectors(vertices, self.original.faces), self.original.faces, len(vertices))
            members = np.arange(len(vertices))[:, None] if kind == "v" else self.original.topology.edges
            normals = around[members].sum(axis=1)
        centers = vertices[members].mean(axis=1)
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


def columns_over(mesh: Mesh, values_over: Callable[[NDArray[Any], ElementKind], NDArray[Any]]) -> dict[str, Column]:
    """The columns of a mesh, transferred to another mesh."""
    return {
        name: Column(element, values_over(values[:, None], KIND_OF[element])[:, 0])
        for name, (element, values) in mesh.columns.items()
    }


def box(mesh: Mesh) -> tuple[FloatArray, float]:
    """Lowest corner and longest side: thresholds are absolute and squares may overflow, so meshes are scaled to one."""
    used = mesh.vertices[is_used(mesh.faces, mesh.n_vertices)]
    low = used.min(axis=0)
    return low, float((used.max(axis=0) - low).max()) or 1.0


def at_size_one(vertices: FloatArray, low: FloatArray, scale: float) -> FloatArray:
    """Scaled to size one. Vertices that no face uses may be anywhere; they are moved near, to keep squares finite."""
    return (np.clip(vertices, low - 4 * scale, low + 4 * scale) - low) / scale


def per_element(values: ArrayLike, mesh: Mesh, kind: ElementKind) -> NDArray[Any]:
    array, n = np.asarray(values), mesh.count(kind)
    if array.ndim == 0 or len(array) != n:
        raise MeshError(f"expected one value per {ELEMENT_NAMES[kind]} ({n}), got an array of shape {array.shape}")
    return array


def locate(
    points: FloatArray, normals: FloatArray, starts: IntArray, *, vertices: FloatArray, faces: IntArray
) -> Places:
    """The nearest place on a mesh, found by a walk from the faces at the vertices `starts` (n, k).

    A walk on the surface, unlike a search in space, never jumps to another sheet that is close. Of two faces at about
    the same distance, the one that faces the same way as the point's normal (n, 3) is chosen.
    """
    vertices, faces = vertices.copy(), faces.copy()  # read-only arrays would be compiled separately
    vectors = face_vectors(vertices, faces)
    offsets, incident = incidence_lists(faces, len(vertices))
    face, weights = np.empty(len(points), dtype=np.int64), np.empty((len(points), 3))
    directions, tilt = unit(vectors), _TILT * norms(vectors)

    def fill(first: int, last: int) -> None:
        _walk(
            first, last, points, normals, starts, vertices, faces, directions, tilt, offsets, incident, face, weights,
        )  # fmt: skip

    for_row_ranges(fill, len(points), n_threads=thread_count())
    return Places(face, weights)


def _mix(weights: FloatArray, members: IntArray, values: NDArray[Any]) -> NDArray[Any]:
    """Row i is the sum of weights[i, j] values[members[i, j]]."""
    n, k = members.shape
    csr = weights.astype(values.dtype).ravel(), members.ravel(), np.arange(0, n * k + 1, k)
    rows = sparse_matrix(csr, shape=(n, len(values)))
    return np.asarray(rows @ values)


def _means(members: IntArray, sizes: FloatArray, n_vertices: int) -> csr_array:
    """For each vertex the mean over the elements that contain it, weighted by size."""
    offsets, rows = incidence_lists(members, n_vertices)
    owner = np.repeat(np.arange(n_vertices), np.diff(offsets))
    size = sizes[rows] + _TINY
    shares = size / np.bincount(owner, size, n_vertices)[owner]
    return sparse_matrix((shares, rows, offsets), shape=(n_vertices, len(members)))


@njit(cache=True, nogil=True)
def _walk(
    begin: int,
    end: int,
    points: FloatArray,
    normals: FloatArray,
    starts: IntArray,
    vertices: FloatArray,
    faces: IntArray,
    directions: FloatArray,
    tilt: FloatArray,
    offsets: IntArray,
    incident: NDArray[np.int32],
    out_face: IntArray,
    out_weights: FloatArray,
) -> None:
    weights = np.empty(3)
    for i in range(begin, end):
        best, least = -1, np.inf
        around = starts[i]
        for _ in range(_MOST_STEPS):
            before = best
            for k in range(len(around)):
                v = around[k]
                if k > 0 and v == around[k - 1]:
                    continue
                for at in range(offsets[v], offsets[v + 1]):
                    f = incident[at]
                    a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
                    distance = _nearest(points[i], vertices[a], vertices[b], vertices[c], weights)
                    cosine = 0.0
                    for axis in range(3):
                        cosine += normals[i, axis] * directions[f, axis]
                    distance += tilt[f] * max(0.0, -cosine)
                    if distance < least:
                        best, least = f, distance
                        out_weights[i] = weights
            # From inside a face no neighbor is nearer; from its rim one may be.
            if best == before or out_weights[i].min() > 0:
                break
            around = faces[best]
        out_face[i] = best


@njit(cache=True, nogil=True)
def _nearest(p: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, weights: FloatArray) -> float:
    """Squared distance of p from the triangle a b c; `weights` are the barycentric coordinates of the nearest point."""
    abab = abac = acac = abap = acap = 0.0
    for i in range(3):
        ab, ac, ap = b[i] - a[i], c[i] - a[i], p[i] - a[i]
        abab += ab * ab
        abac += ab * ac
        acac += ac * ac
        abap += ab * ap
        acap += ac * ap
    v, w = acac * abap - abac * acap, abab * acap - abac * abap
    area = abab * acac - abac * abac
    if v >= 0 and w >= 0 and v + w <= area and area > 0:
        v, w = v / area, w / area
    else:  # the nearest of the three sides
        least = np.inf
        bcbc, bcbp = abab + acac - 2 * abac, abab - abac - abap + acap
        best_v = best_w = 0.0
        for side in range(3):
            along, length = (abap, abab) if side == 0 else (acap, acac) if side == 1 else (bcbp, bcbc)
            t = min(max(along / length, 0.0), 1.0) if length > 0 else 0.0
            sv, sw = (t, 0.0) if side == 0 else (0.0, t) if side == 1 else (1 - t, t)
            # |a p|² without the terms that do not depend on the place
            distance = sv * sv * abab + 2 * sv * sw * abac + sw * sw * acac - 2 * (sv * abap + sw * acap)
            if distance < least:
                least, best_v, best_w = distance, sv, sw
        v, w = best_v, best_w
    weights[0], weights[1], weights[2] = 1 - v - w, v, w
    distance = 0.0
    for i in range(3):
        distance += (weights[0] * a[i] + v * b[i] + w * c[i] - p[i]) ** 2
    return distance
