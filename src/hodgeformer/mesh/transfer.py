"""Transfer labels and values between two meshes of the same surface: places on triangles, votes and interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import ElementKind
from hodgeformer.base.machine import for_row_ranges, thread_count
from hodgeformer.mesh.geometry import face_vectors, norms, unit
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex, incidence_lists, sparse_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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


def heaviest_labels(labels: NDArray[Any], target: IntArray, weights: FloatArray, n_targets: int) -> NDArray[np.int64]:
    """The label of greatest total weight for each target, the smaller on a tie; no label from zero up is lost."""
    values, label = np.unique(labels, return_inverse=True)
    pairs, pair = np.unique(target * len(values) + label, return_inverse=True)
    total = np.bincount(pair, weights)
    owner, choice = np.divmod(pairs, len(values))
    order = np.lexsort((choice, -total, owner))
    winner = choice[order][np.searchsorted(owner[order], np.arange(n_targets))]
    share = total / np.bincount(owner, total, n_targets)[owner]
    count = np.bincount(winner, minlength=len(values))
    # The rarest first: it has the fewest candidates.
    for lost in sorted(np.flatnonzero((count == 0) & (values >= 0)), key=lambda i: total[choice == i].sum()):
        here = np.flatnonzero((choice == lost) & (count[winner[owner]] > 1))
        if here.size:
            place = owner[here[np.argmax(share[here])]]
            count[winner[place]] -= 1
            winner[place] = lost
            count[lost] = 1
    return np.asarray(values[winner].astype(np.int64))


def mean_votes(values: NDArray[Any], source: IntArray, target: IntArray, weights: FloatArray, n: int) -> NDArray[Any]:
    """For each of n targets the weighted mean of the rows that vote for it; values that are not fractions become so."""
    shares = weights / np.bincount(target, weights, n)[target]
    mean = sparse_matrix((shares, (target, source)), shape=(n, len(values))) @ values
    return np.asarray(mean, dtype=values.dtype if values.dtype.kind == "f" else np.float64)


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
    size = sizes[rows] + np.finfo(np.float64).tiny  # elements without size still need a weight
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
            if side == 0:
                t = _clamped(abap, abab)
                sv, sw = t, 0.0
            elif side == 1:
                t = _clamped(acap, acac)
                sv, sw = 0.0, t
            else:
                t = _clamped(bcbp, bcbc)
                sv, sw = 1 - t, t
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


@njit(cache=True, nogil=True)
def _clamped(along: float, length: float) -> float:
    return min(max(along / length, 0.0), 1.0) if length > 0 else 0.0
