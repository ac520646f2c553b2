"""The surface where a sampled field is zero, by marching tetrahedra: closed and manifold by construction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.mesh import FloatArray, IntArray

# Six tetrahedra around the diagonal of a cell; corner c of a cell is at offset (c & 1, c >> 1 & 1, c >> 2 & 1).
_TETRAHEDRA = np.array(
    [[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]], dtype=np.int64
)
_CORNERS = np.array([[c & 1, c >> 1 & 1, c >> 2 & 1] for c in range(8)], dtype=np.int64)


def isosurface(field: NDArray[np.floating], *, origin: FloatArray, spacing: float) -> tuple[FloatArray, IntArray]:
    """Vertices and faces of field = 0, with normals toward positive values.

    `field[i, j, k]` is the value at origin + spacing * (i, j, k) and must be positive on the border.
    """
    shape = field.shape
    strides = np.array([shape[1] * shape[2], shape[2], 1], dtype=np.int64)
    values = np.where(field == 0, np.finfo(field.dtype).tiny, field).ravel()
    cells = _crossed_cells(values.reshape(shape) < 0) @ strides
    corners = cells[:, None, None] + (_CORNERS @ strides)[_TETRAHEDRA]
    segments = _crossing_segments(corners.reshape(-1, 4), values < 0)
    ends, faces = np.unique(segments.reshape(-1, 2) @ np.array([len(values), 1]), return_inverse=True)
    a, b = np.divmod(ends, len(values))
    share = (values[a] / (values[a] - values[b]))[:, None]
    points = (1 - share) * _positions(a, shape) + share * _positions(b, shape)
    return origin + spacing * points, faces.reshape(-1, 3).astype(np.int64)


def _crossed_cells(inside: NDArray[np.bool_]) -> IntArray:
    """(n, 3) cells whose eight corners are not all on one side."""
    count = inside.astype(np.int8)
    for axis in range(3):
        count = np.take(count, range(1, count.shape[axis]), axis) + np.take(count, range(count.shape[axis] - 1), axis)
    return np.argwhere((count > 0) & (count < 8))


def _crossing_segments(tetrahedra: IntArray, inside: NDArray[np.bool_]) -> IntArray:
    """(n, 3, 2) triangles, each corner on a grid segment (a, b), a < b, whose ends are on different sides."""
    signs = inside[tetrahedra]
    n_inside = signs.sum(axis=1)
    # Inside corners first. An odd permutation mirrors the tetrahedron and its triangles.
    order = np.argsort(~signs, axis=1, kind="stable")
    odd = _is_odd(order)
    sorted_corners = np.take_along_axis(tetrahedra, order, axis=1)
    parts = []
    for number, corners in _TRIANGLES.items():
        chosen = n_inside == number
        triangles = sorted_corners[chosen][:, corners]
        flip = odd[chosen]
        triangles[flip] = triangles[flip][:, :, ::-1]
        parts.append(triangles.reshape(-1, 3, 2))
    return np.sort(np.concatenate(parts), axis=2)


# Triangles for 1, 2, 3 inside corners, as segments between the sorted corners of a tetrahedron.
_TRIANGLES = {
    1: np.array([[[0, 1], [0, 2], [0, 3]]]),
    2: np.array([[[0, 2], [0, 3], [1, 2]], [[1, 2], [0, 3], [1, 3]]]),
    3: np.array([[[0, 3], [1, 3], [2, 3]]]),
}


def _is_odd(order: IntArray) -> NDArray[np.bool_]:
    i, j = np.triu_indices(4, 1)
    return np.asarray((order[:, i] > order[:, j]).sum(axis=1) % 2 == 1, np.bool_)


def _positions(points: IntArray, shape: tuple[int, ...]) -> FloatArray:
    return np.stack(np.unravel_index(points, shape), axis=1).astype(np.float64)
