"""The content of a mesh file before it becomes a `Mesh`: numbers are checked, and polygons are cut into triangles."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.errors import MeshError, MeshFormatError
from hodgeformer.mesh.elements import edge_rows
from hodgeformer.mesh.formats.source import LineOf, Source
from hodgeformer.mesh.mesh import Attributes, Column, FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import is_used, repeats_a_vertex

# Ear clipping costs up to the cube of the number of corners; after a few seconds per file, only fans are used.
_MOST_EFFORT = 10**9
_MOST_CLIPPED = 1000  # corners; the cube root of the effort
# A fan from one of the first corners covers every quad and most small polygons.
_MOST_TURNS = 8


@dataclass(frozen=True, eq=False)
class Content:
    """Vertices, and polygons as one array of corners with the number of corners of each.

    Attributes and columns of faces belong to polygons here. `vertex_line` and `face_line` give the line of an element
    in the file; a binary file has none. `edges` (n, 2) are the ends of the edges that columns of edges belong to.
    """

    vertices: FloatArray
    corners: IntArray
    n_corners: IntArray
    attributes: Attributes = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    vertex_line: LineOf | None = None
    face_line: LineOf | None = None
    columns: dict[str, Column] = field(default_factory=dict)
    edges: IntArray | None = None

    def to_mesh(self, path: Path, source: Source | None = None) -> Mesh:
        """Check every number, cut the polygons into triangles, and copy face attributes to the triangles.

        The memory of a file is limited by the budget of its `source`.
        """
        self._check(path)
        if source is not None:
            self._count(source)
        notes = list(self.notes)
        attributes, columns = dict(self.attributes), dict(self.columns)
        polygons: IntArray | None = None
        if (self.n_corners == 3).all():
            faces = self.corners.reshape(-1, 3)
        else:
            faces, polygons, cut = triangulate(self.vertices, self.corners, self.n_corners)
            notes.extend(cut)
            for kind in [kind for kind in attributes if kind.startswith("face")]:
                attributes[kind] = attributes[kind][polygons]
            for column, (element, values) in columns.items():
                columns[column] = Column(element, values[polygons] if element == "face" else values)
        notes.extend(_notes_on(faces, len(self.vertices)))
        # The name of a file need not be valid text; that of a mesh is written to pages and files.
        name = os.fsencode(path.stem).decode("utf-8", "replace")
        of_edges = {column: columns.pop(column) for column in list(columns) if columns[column].element == "edge"}
        mesh = Mesh(self.vertices, faces, name, polygons, tuple(notes), attributes, columns)
        return mesh if self.edges is None or not of_edges else _with_edges(mesh, of_edges, self.edges)

    def _count(self, source: Source) -> None:
        """Count the arrays of the mesh; polygons also become triangles, with the attributes of their polygon."""
        n_triangles = len(self.corners) - 2 * len(self.n_corners)
        source.reserve(
            24 * (len(self.vertices) + n_triangles), f"{len(self.vertices):,} vertices, {n_triangles:,} faces"
        )
        if n_triangles != len(self.n_corners):
            carried = sum(values[:1].nbytes for kind, values in self.attributes.items() if kind.startswith("face"))
            carried += sum(values.itemsize for element, values in self.columns.values() if element == "face")
            source.reserve((32 + carried) * n_triangles, f"{n_triangles:,} triangles, which its polygons are cut into,")

    def _check(self, path: Path) -> None:
        if len(self.n_corners) == 0:
            raise MeshError(f"{path}: the file has no faces; a surface of triangles or polygons is needed")
        bad = np.flatnonzero(~np.isfinite(self.vertices).all(axis=1))
        if bad.size:
            raise MeshError(
                f"{where(path, self.vertex_line, bad[0])}: vertex {bad[0]} has coordinates "
                f"{self.vertices[bad[0]].tolist()} that are not finite ({bad.size} such vertices); "
                "repair or remove them"
            )
        small = np.flatnonzero(self.n_corners < 3)
        if small.size:
            raise MeshFormatError(
                f"{where(path, self.face_line, small[0])}: face {small[0]} has {self.n_corners[small[0]]} "
                f"corners, at least 3 are needed ({small.size} such faces); remove it"
            )
        wrong = np.flatnonzero((self.corners < 0) | (self.corners >= len(self.vertices)))
        if wrong.size:
            face = int(np.searchsorted(np.cumsum(self.n_corners), wrong[0], side="right"))
            raise MeshError(
                f"{where(path, self.face_line, face)}: face {face} refers to vertex {self.corners[wrong[0]]}"
                f", but the file has {len(self.vertices)} vertices (numbered from 0); "
                "the file is truncated or its faces are wrong: export it again"
            )


def where(path: Path, line_of: LineOf | None, element: int) -> str:
    """`file:line` for text, `file` for binary."""
    return str(path) if line_of is None else f"{path}:{line_of(int(element))}"


def _with_edges(mesh: Mesh, columns: dict[str, Column], ends: IntArray) -> Mesh:
    """The mesh with columns of the edges between these ends, which are in any order."""
    if not repeats_a_vertex(mesh.faces).all() and ends.min() >= 0 and ends.max() < mesh.n_vertices:
        number = edge_rows(mesh, ends)
        rows = np.full(len(mesh.topology.edges), -1)
        rows[number[number >= 0]] = np.flatnonzero(number >= 0)
        if (rows >= 0).all():
            return mesh.with_columns({name: ("edge", values[rows]) for name, (_, values) in columns.items()})
    ignored = "columns of edges ignored: the file does not list every edge of its faces"
    return replace(mesh, notes=(*mesh.notes, ignored))


def _notes_on(faces: IntArray, n_vertices: int) -> list[str]:
    """Remarks about things that are allowed."""
    repeating, unused = repeats_a_vertex(faces).sum(), n_vertices - is_used(faces, n_vertices).sum()
    notes = [f"{repeating} faces repeat a vertex"] if repeating else []
    return [*notes, f"{unused} vertices are not used by any face"] if unused else notes


def triangulate(vertices: FloatArray, corners: IntArray, n_corners: IntArray) -> tuple[IntArray, IntArray, list[str]]:
    """Triangles in the order of their polygons, the polygon of each, and notes.

    A polygon of k corners becomes k - 2 triangles of the same winding. Convex polygons are cut as a fan from their
    first corner; others as a fan from another corner or by ear clipping, so that no triangle is flipped.
    """
    # Products of very large or small coordinates are outside the range of float64.
    largest = float(np.abs(vertices[is_used(corners, len(vertices))]).max())
    vertices = vertices / (largest or 1.0)
    first = np.cumsum(n_corners) - n_corners
    n_triangles = n_corners - 2
    faces = np.empty((int(n_triangles.sum()), 3), dtype=np.int64)
    turn = np.empty(len(n_corners), dtype=np.int8)
    _cut_as_fans(vertices, corners, n_corners, faces, turn)
    n_forced, effort = 0, _MOST_EFFORT
    for i in np.flatnonzero(turn < 0):
        k, begin = int(n_corners[i]), int(first[i])
        polygon, clipped = corners[begin : begin + k], np.empty((min(k, _MOST_CLIPPED) - 2, 3), dtype=np.int64)
        effort -= k**3
        if effort > 0 and _clip_ears(_in_plane(vertices[polygon]), clipped):
            faces[begin - 2 * i : begin - 2 * i + k - 2] = polygon[clipped]
        else:
            n_forced += 1
    n_concave = int((turn != 0).sum())
    notes = [f"{int((n_corners > 3).sum())} polygons cut into triangles"]
    if n_concave:
        notes.append(f"{n_concave} of them are not convex")
    if n_forced:
        notes.append(f"{n_forced} of them intersect themselves or are too large; their triangles may overlap")
    return faces, np.repeat(np.arange(len(n_corners)), n_triangles), notes


@njit(cache=True, nogil=True)
def _cut_as_fans(
    vertices: FloatArray, corners: IntArray, n_corners: IntArray, faces: IntArray, turn: NDArray[np.int8]
) -> None:
    """The triangles of each polygon as a fan, and the corner it starts from: -1 if no fan covers the polygon."""
    begin = row = 0
    for i in range(len(n_corners)):
        k = n_corners[i]
        polygon = corners[begin : begin + k]
        turn[i] = 0
        if k > 3:
            turn[i] = -1
            for start in range(min(k, _MOST_TURNS)):
                if _fan_fits(vertices, polygon, start):
                    turn[i] = start
                    break
        start = max(turn[i], 0)
        for side in range(1, k - 1):
            faces[row, 0] = polygon[start]
            faces[row, 1] = polygon[(start + side) % k]
            faces[row, 2] = polygon[(start + side + 1) % k]
            row += 1
        begin += k


@njit(cache=True, nogil=True)
def _fan_fits(vertices: FloatArray, polygon: IntArray, start: int) -> bool:
    """Whether no triangle of the fan is opposed to the normal of the polygon."""
    n_sides = len(polygon) - 1
    x = y = z = 0.0
    for side in range(1, n_sides):
        normal = _normal(vertices, polygon, start, side)
        x, y, z = x + normal[0], y + normal[1], z + normal[2]
    tolerance, fits = 1e-12 * (x * x + y * y + z * z), True
    for side in range(1, n_sides):
        normal = _normal(vertices, polygon, start, side)
        fits &= normal[0] * x + normal[1] * y + normal[2] * z >= -tolerance
    return fits


@njit(cache=True, nogil=True)
def _normal(vertices: FloatArray, polygon: IntArray, start: int, side: int) -> tuple[float, float, float]:
    """The normal of one triangle of the fan, times twice its area."""
    k = len(polygon)
    a, b, c = vertices[polygon[start]], vertices[polygon[(start + side) % k]], vertices[polygon[(start + side + 1) % k]]
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


def _in_plane(points: FloatArray) -> FloatArray:
    """Coordinates in the plane of the polygon, counterclockwise."""
    following = np.roll(points, -1, axis=0)
    normal = np.cross(points - points[0], following - points[0]).sum(axis=0)
    axis = int(np.argmax(np.abs(normal)))
    kept = points[:, [(axis + 1) % 3, (axis + 2) % 3]]
    return np.ascontiguousarray(kept if normal[axis] >= 0 else kept[:, ::-1])


@njit(cache=True, nogil=True)
def _clip_ears(flat: FloatArray, triangles: IntArray) -> bool:
    """Fill in the triangles of a simple polygon as corner numbers; False if the polygon intersects itself."""
    n, left = len(flat), np.arange(len(flat))
    for row in range(len(triangles) - 1):
        at = 0
        while at < n and not _is_ear(flat, left[at - 1 if at else n - 1], left[at], left[(at + 1) % n], left[:n]):
            at += 1
        if at == n:
            return False
        triangles[row] = left[at - 1 if at else n - 1], left[at], left[(at + 1) % n]
        n -= 1
        left[at:n] = left[at + 1 : n + 1].copy()
    triangles[-1] = left[:3]
    return True


@njit(cache=True, nogil=True)
def _is_ear(flat: FloatArray, a: int, b: int, c: int, left: IntArray) -> bool:
    """Whether corner b turns left and no other remaining corner is in its triangle."""
    if _turn(flat, a, b, c) <= 0:
        return False
    for p in left:
        # A corner at the same position as one of the ear's (a slit) does not block it.
        if _turn(flat, a, b, p) >= 0 and _turn(flat, b, c, p) >= 0 and _turn(flat, c, a, p) >= 0:
            at_corner = False
            for q in (a, b, c):
                at_corner |= flat[p, 0] == flat[q, 0] and flat[p, 1] == flat[q, 1]
            if not at_corner:
                return False
    return True


@njit(cache=True, nogil=True)
def _turn(flat: FloatArray, a: int, b: int, c: int) -> float:
    """Twice the signed area of the triangle a, b, c in the plane."""
    ux, uy = flat[b, 0] - flat[a, 0], flat[b, 1] - flat[a, 1]
    area: float = ux * (flat[c, 1] - flat[a, 1]) - uy * (flat[c, 0] - flat[a, 0])
    return area
