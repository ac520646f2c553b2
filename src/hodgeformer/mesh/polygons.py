"""Cut polygons into triangles and remember which polygon each triangle came from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.mesh import FloatArray, IntArray

# Clipping ears takes up to the cube of the corners; beyond this a fan is cut and noted.
MAX_CLIPPED_CORNERS = 128
# A fan from some corner covers every quad and most small polygons, many at once.
MAX_TURNS = 8


def triangulate(vertices: FloatArray, corners: IntArray, n_corners: IntArray) -> tuple[IntArray, IntArray, list[str]]:
    """Triangles in the order of their polygons, the polygon of each, and notes.

    A polygon of k corners becomes k - 2 triangles of the same winding.

    Convex polygons are cut as a fan from their first corner; others as a fan from another corner or by clipping
    ears, so that no triangle is turned over.
    """
    # Products of very large or small coordinates leave the range of float64.
    vertices = vertices / (float(np.abs(vertices).max()) or 1.0)
    first = np.cumsum(n_corners) - n_corners
    n_triangles = n_corners - 2
    first_triangle = np.cumsum(n_triangles) - n_triangles
    faces = np.empty((int(n_triangles.sum()), 3), dtype=np.int64)
    n_concave = n_forced = 0
    for k in np.unique(n_corners).tolist():
        chosen = np.flatnonzero(n_corners == k)
        triangles, concave, forced = _cut_alike(vertices, corners[first[chosen, None] + np.arange(k)])
        faces[first_triangle[chosen, None] + np.arange(k - 2)] = triangles
        n_concave += concave
        n_forced += forced
    notes = [f"{int((n_corners > 3).sum())} polygons cut into triangles"]
    if n_concave:
        notes.append(f"{n_concave} of them are not convex")
    if n_forced:
        notes.append(f"{n_forced} of them cross themselves or are too large, their triangles may overlap")
    return faces, np.repeat(np.arange(len(n_corners)), n_triangles), notes


def _cut_alike(vertices: FloatArray, polygons: IntArray) -> tuple[IntArray, int, int]:
    """Triangles (m, k - 2, 3) of polygons (m, k), how many are not convex, how many could not be cut well."""
    k = polygons.shape[1]
    triangles = _fans(polygons)
    left = np.flatnonzero(~_fan_fits(vertices, triangles)) if k > 3 else np.zeros(0, dtype=np.int64)
    n_concave = len(left)
    for turn in range(1, min(k, MAX_TURNS)):
        if len(left) == 0:
            break
        fans = _fans(np.roll(polygons[left], -turn, axis=1))
        fits = _fan_fits(vertices, fans)
        triangles[left[fits]] = fans[fits]
        left = left[~fits]
    n_forced = 0
    for i in left.tolist():
        clipped = _clip_ears(vertices[polygons[i]]) if k <= MAX_CLIPPED_CORNERS else None
        if clipped is None:
            n_forced += 1
        else:
            triangles[i] = polygons[i][clipped]
    return triangles, n_concave, n_forced


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


def _clip_ears(points: FloatArray) -> list[tuple[int, int, int]] | None:
    """Triangles of a simple polygon as corner numbers; None where the polygon crosses itself."""
    flat = _in_plane(points)
    left = list(range(len(flat)))
    triangles: list[tuple[int, int, int]] = []
    while len(left) > 3:
        for at in range(len(left)):
            ear = left[at - 1], left[at], left[(at + 1) % len(left)]
            if _is_ear(flat, ear, left):
                triangles.append(ear)
                del left[at]
                break
        else:
            return None
    triangles.append((left[0], left[1], left[2]))
    return triangles


def _in_plane(points: FloatArray) -> FloatArray:
    """Coordinates in the polygon's own plane, so that it runs counter-clockwise."""
    following = np.roll(points, -1, axis=0)
    normal = np.cross(points - points[0], following - points[0]).sum(axis=0)
    axis = int(np.argmax(np.abs(normal)))
    kept = points[:, [(axis + 1) % 3, (axis + 2) % 3]]
    return kept if normal[axis] >= 0 else kept[:, ::-1]


def _is_ear(flat: FloatArray, ear: tuple[int, int, int], left: list[int]) -> bool:
    """The corner turns left and no other remaining corner lies in its triangle."""
    a, b, c = flat[list(ear)]
    if _turn(a, b, c) <= 0:
        return False
    others = flat[[corner for corner in left if corner not in ear]]
    # A corner at the same place as one of the ear's (a slit) does not block it.
    others = others[~(others[:, None] == np.stack([a, b, c])).all(axis=-1).any(axis=1)]
    inside = (_turn(a, b, others) >= 0) & (_turn(b, c, others) >= 0) & (_turn(c, a, others) >= 0)
    return not bool(np.any(inside))


def _turn(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Twice the signed area of the triangle a, b, c in the plane."""
    u, w = b - a, c - a
    return u[..., 0] * w[..., 1] - u[..., 1] * w[..., 0]
