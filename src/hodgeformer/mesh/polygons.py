"""Cut polygons into triangles and remember which polygon each triangle came from."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hodgeformer.mesh.mesh import FloatArray, IntArray

# Clipping ears takes up to the cube of the corners of a polygon; a few seconds for all of a file, then fans are cut.
_MOST_EFFORT = 10**9
# A fan from some corner covers every quad and most small polygons, many at once.
_MOST_TURNS = 8


def triangulate(vertices: FloatArray, corners: IntArray, n_corners: IntArray) -> tuple[IntArray, IntArray, list[str]]:
    """Triangles in the order of their polygons, the polygon of each, and notes.

    A polygon of k corners becomes k - 2 triangles of the same winding.

    Convex polygons are cut as a fan from their first corner; others as a fan from another corner or by clipping
    ears, so that no triangle is turned over.
    """
    # Products of very large or small coordinates leave the range of float64.
    vertices = vertices / (float(np.abs(vertices[corners]).max()) or 1.0)
    first = np.cumsum(n_corners) - n_corners
    n_triangles = n_corners - 2
    first_triangle = np.cumsum(n_triangles) - n_triangles
    faces = np.empty((int(n_triangles.sum()), 3), dtype=np.int64)
    n_concave = n_forced = 0
    effort = _MOST_EFFORT
    for k in np.unique(n_corners).tolist():
        chosen = np.flatnonzero(n_corners == k)
        polygons = corners[first[chosen, None] + np.arange(k)]
        triangles, concave, crooked = _cut_as_fans(vertices, polygons)
        n_concave += concave
        for i in crooked.tolist():
            clipped = np.empty((k - 2, 3), dtype=np.int64)
            effort -= k**3
            if effort > 0 and _clip_ears(_in_plane(vertices[polygons[i]]), clipped):
                triangles[i] = polygons[i][clipped]
            else:
                n_forced += 1
        faces[first_triangle[chosen, None] + np.arange(k - 2)] = triangles
    notes = [f"{int((n_corners > 3).sum())} polygons cut into triangles"]
    if n_concave:
        notes.append(f"{n_concave} of them are not convex")
    if n_forced:
        notes.append(f"{n_forced} of them cross themselves or are too large, their triangles may overlap")
    return faces, np.repeat(np.arange(len(n_corners)), n_triangles), notes


def _cut_as_fans(vertices: FloatArray, polygons: IntArray) -> tuple[IntArray, int, IntArray]:
    """Triangles (m, k - 2, 3) of polygons (m, k), how many are not convex, and which of them no fan covers."""
    triangles, k = _fans(polygons), polygons.shape[1]
    left = np.flatnonzero(~_fan_fits(vertices, triangles)) if k > 3 else np.zeros(0, dtype=np.int64)
    n_concave = len(left)
    for turn in range(1, min(k, _MOST_TURNS)):
        if len(left) == 0:
            break
        fans = _fans(np.roll(polygons[left], -turn, axis=1))
        fits = _fan_fits(vertices, fans)
        triangles[left[fits]] = fans[fits]
        left = left[~fits]
    return triangles, n_concave, left


def _fans(polygons: IntArray) -> IntArray:
    """(m, k) corners to (m, k - 2, 3) triangles that share corner 0."""
    apex = np.broadcast_to(polygons[:, :1], (len(polygons), polygons.shape[1] - 2))
    return np.stack([apex, polygons[:, 1:-1], polygons[:, 2:]], axis=-1)


def _fan_fits(vertices: FloatArray, fans: IntArray) -> NDArray[np.bool_]:
    """True where no triangle of the fan turns against the polygon's own normal."""
    points = vertices[fans]
    normals = np.cross(points[:, :, 1] - points[:, :, 0], points[:, :, 2] - points[:, :, 0])
    total = normals.sum(axis=1, keepdims=True)
    along = (normals * total).sum(axis=-1)
    tolerance = 1e-12 * (total * total).sum(axis=-1)
    return np.asarray((along >= -tolerance).all(axis=1), np.bool_)


def _in_plane(points: FloatArray) -> FloatArray:
    """Coordinates in the polygon's own plane, so that it runs counter-clockwise."""
    following = np.roll(points, -1, axis=0)
    normal = np.cross(points - points[0], following - points[0]).sum(axis=0)
    axis = int(np.argmax(np.abs(normal)))
    kept = points[:, [(axis + 1) % 3, (axis + 2) % 3]]
    return np.ascontiguousarray(kept if normal[axis] >= 0 else kept[:, ::-1])


@njit(cache=True, nogil=True)
def _clip_ears(flat: FloatArray, triangles: IntArray) -> bool:
    """Fill in the triangles of a simple polygon as corner numbers; False where the polygon crosses itself."""
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
    """The corner b turns left and no other remaining corner lies in its triangle."""
    if _turn(flat, a, b, c) <= 0:
        return False
    for p in left:
        # A corner at the same place as one of the ear's (a slit) does not block it.
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
