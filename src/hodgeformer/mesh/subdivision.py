"""Midpoint subdivision: cut faces in four, transfer answers back, and undo it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import ElementKind
from hodgeformer.mesh.elements import mean_votes
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.resized import Simplified, columns_over, per_element
from hodgeformer.mesh.topology import MeshComplex, repeats_a_vertex

_CORNERS = np.arange(3)
_ROUNDING = 1e-6  # of coordinates at size one, as in a file in float32
_UNKNOWN, _OLD, _NEW = 0, 1, 2


class Traced(NamedTuple):
    """A changed mesh, and for each of its faces the original face that it is a piece of."""

    mesh: Mesh
    origin: IntArray


def subdivided(mesh: Mesh, chosen: NDArray[np.bool_] | None = None) -> Traced:
    """Split every side of the chosen faces (default: all) at its midpoint; neighbors are split to match.

    A face with three split sides becomes four, with two three, with one two, so there are no cracks.
    """
    proper = ~repeats_a_vertex(mesh.faces)
    origin = np.flatnonzero(proper)
    topology = MeshComplex.from_faces(mesh.faces[origin], mesh.n_vertices)
    chosen = np.ones(mesh.n_faces, dtype=bool) if chosen is None else chosen
    split = np.zeros(topology.n.e, dtype=bool)
    split[topology.face_edges[chosen[origin]]] = True
    middle = np.full(topology.n.e, -1)
    middle[split] = mesh.n_vertices + np.arange(int(split.sum()))
    ends = topology.edges[split]
    vertices = np.concatenate([mesh.vertices, (mesh.vertices[ends[:, 0]] + mesh.vertices[ends[:, 1]]) / 2])
    pieces, owners = _pieces(topology.faces, middle[topology.face_edges])
    return Traced(mesh.with_surface(vertices, np.concatenate(pieces)), origin[np.concatenate(owners)])


def _pieces(faces: IntArray, middles: IntArray) -> tuple[list[IntArray], list[IntArray]]:
    """The triangles of faces whose sides may have a vertex at the midpoint (-1: none)."""
    count = (middles >= 0).sum(axis=1)
    numbers = np.arange(len(faces))
    whole = count == 0
    pieces, owners = [faces[whole]], [numbers[whole]]
    for n_split in (1, 2, 3):
        rows = np.flatnonzero(count == n_split)
        # Rotate the face so that its split sides come first: (0, 1), then (1, 2).
        is_split = middles[rows] >= 0
        start = is_split.argmax(axis=1) if n_split == 1 else ((~is_split).argmax(axis=1) + 1) % 3
        turn = (start[:, None] + _CORNERS) % 3
        a, b, c = np.take_along_axis(faces[rows], turn, axis=1).T
        ab, bc, ca = np.take_along_axis(middles[rows], turn, axis=1).T
        parts = {
            1: [(a, ab, c), (ab, b, c)],
            2: [(ab, b, bc), (a, ab, bc), (a, bc, c)],
            3: [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)],
        }[n_split]
        for part in parts:
            pieces.append(np.stack(part, axis=1))
            owners.append(rows)
    return pieces, owners


@dataclass(frozen=True, eq=False)
class Refined:
    """A finer mesh; transfers labels to it and values back, both in the order of the file."""

    original: Mesh
    mesh: Mesh
    vertex_map: IntArray

    def labels_over(self, labels: ArrayLike, kind: ElementKind) -> NDArray[np.int64]:
        """Every piece of an element gets its label; a new element between two gets that of one of them."""
        target = self._undone.votes(kind)[1]
        return per_element(labels, self.original, kind)[target[: self.mesh.count(kind)]].astype(np.int64)

    def values_over(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """(n, columns) values of the original elements, interpolated at every finer one."""
        return self._undone.values_back(values, kind)

    def values_back(self, values: ArrayLike, kind: ElementKind) -> NDArray[Any]:
        """The mean over the pieces of each original element, weighted by size."""
        array = per_element(values, self.mesh, kind)
        return mean_votes(array, *self._undone.votes(kind), self.original.count(kind))

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
    refined = Refined(mesh, fine, vertex_map)
    return replace(refined, mesh=replace(fine, columns=columns_over(mesh, refined.values_over)))


class Undone(NamedTuple):
    """The faces before subdivision; for each face the one that it is a quarter of; for each vertex an old one.

    A midpoint is mapped to one of the two ends of its edge.
    """

    faces: IntArray
    quarter_of: IntArray
    into: IntArray


def undo_subdivision(points: FloatArray, faces: IntArray) -> Undone | None:
    """None if not every face was cut in four. Positions are those of size one."""
    # Three quarters of the vertices would be midpoints, with six faces, or three on a border.
    valence = np.bincount(faces.ravel(), minlength=len(points))
    if len(faces) % 4 or 2 * np.isin(valence, (3, 6)).sum() < (valence > 0).sum():
        return None
    topology = MeshComplex.from_faces(faces, len(points))
    n_faces = np.bincount(topology.face_edges.ravel(), minlength=topology.n.e)
    if n_faces.max() > 2:
        return None
    of_new = np.full(len(points), 6)
    of_new[topology.edges[n_faces == 1]] = 3
    seeds = np.flatnonzero((valence != of_new) & (valence > 0))  # certainly old
    corners, quarter_of = _old_corners(faces.copy(), _across(topology), seeds, len(points))
    if len(corners) != len(faces) // 4:
        return None
    old, new = corners[:, :3], corners[:, 3:]
    middle = (points[old] + points[np.roll(old, -1, axis=1)]) / 2
    if np.abs(points[new] - middle).max() > _ROUNDING:
        return None
    into = np.arange(len(points))
    into[new] = np.minimum(old, np.roll(old, -1, axis=1))
    return Undone(old, quarter_of, into)


def _across(topology: MeshComplex) -> IntArray:
    """(n_f, 3) the neighbor across each side, -1 if there is none; no side has more than two faces."""
    across, (first, second) = np.full(topology.face_edges.size, -1), topology.paired_sides()
    across[first], across[second] = second // 3, first // 3
    return across.reshape(-1, 3)


@njit(cache=True, nogil=True)
def _old_corners(faces: IntArray, across: IntArray, seeds: IntArray, n_vertices: int) -> tuple[IntArray, IntArray]:
    """Rows of three old vertices and the three midpoints of their sides, as far as the seeds reach; for each face its
    row.

    A face has either one old vertex and two midpoints, or three midpoints.
    """
    state = np.zeros(n_vertices, dtype=np.int8)
    state[seeds] = _OLD
    begun = np.zeros(len(faces), dtype=np.bool_)
    rows = np.empty((len(faces) // 4, 6), dtype=np.int64)
    row_of = np.empty(len(faces), dtype=np.int64)
    queue = np.empty(len(faces), dtype=np.int64)
    n_rows = n_queued = 0
    for f in range(len(faces)):
        for i in range(3):
            if state[faces[f, i]] == _OLD and not begun[f]:
                begun[f] = True
                queue[n_queued] = f
                n_queued += 1
    done = 0
    while done < n_queued:
        f = queue[done]
        done += 1
        place = -1
        for i in range(3):
            if state[faces[f, i]] == _OLD:
                if place >= 0:
                    return rows[:0], row_of
                place = i
        for i in (place, (place + 2) % 3):  # around the old vertex
            beside = across[f, i]
            if beside >= 0 and not begun[beside]:
                begun[beside] = True
                queue[n_queued] = beside
                n_queued += 1
        center = across[f, (place + 1) % 3]
        if center < 0:
            return rows[:0], row_of
        if begun[center]:
            continue
        begun[center] = True
        row_of[center] = n_rows
        if n_rows == len(rows):
            return rows[:0], row_of
        for i in range(3):
            beside = across[center, i]
            if beside < 0:
                return rows[:0], row_of
            # The corner of the neighbor that is not on the common side is old, the others are midpoints.
            v, w = faces[center, i], faces[center, (i + 1) % 3]
            tip = faces[beside, 0] + faces[beside, 1] + faces[beside, 2] - v - w
            if state[tip] == _NEW or state[v] == _OLD or state[w] == _OLD:
                return rows[:0], row_of
            state[tip] = _OLD
            state[v] = _NEW
            rows[n_rows, i] = tip
            rows[n_rows, 3 + i] = w
            row_of[beside] = n_rows
            if not begun[beside]:
                begun[beside] = True
                queue[n_queued] = beside
                n_queued += 1
        n_rows += 1
    return rows[:n_rows], row_of
