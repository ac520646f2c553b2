"""The vertices and polygons of a file, and how polygons are cut into triangles."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.formats.source import LineOf
from hodgeformer.mesh.mesh import Attributes, Column, FloatArray, IntArray
from hodgeformer.mesh.topology import is_used

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
