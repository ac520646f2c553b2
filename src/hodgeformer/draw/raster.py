"""Triangles to pixels: a z-buffer, corner normals and shading, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.geometry import face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import incidence_lists

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def corner_normals(vertices: FloatArray, faces: IntArray, crease: float) -> Floats:
    """Unit normals (n_f, 3, 3): the mean over the faces around a corner, without those beyond a crease.

    `crease` is the cosine of the angle beyond which an edge stays sharp. This and the lights are arguments, since
    numba's cache on disk contains the values of constants.
    """
    vectors = face_vectors(vertices, faces)
    offsets, around = incidence_lists(faces, len(vertices))
    return _corner_normals(vectors, norms(vectors), faces, offsets, around, crease)


@njit(cache=True, nogil=True)
def _corner_normals(
    vectors: FloatArray, lengths: FloatArray, faces: IntArray, offsets: IntArray, around: Ints, crease: float
) -> Floats:
    out = np.zeros((len(faces), 3, 3), dtype=np.float32)
    for f in range(len(faces)):
        for c in range(3):
            x, y, z = 0.0, 0.0, 0.0
            for at in range(offsets[faces[f, c]], offsets[faces[f, c] + 1]):
                g = around[at]
                dot = vectors[f, 0] * vectors[g, 0] + vectors[f, 1] * vectors[g, 1] + vectors[f, 2] * vectors[g, 2]
                if abs(dot) > crease * lengths[f] * lengths[g]:
                    # The normal of a neighbor with opposite winding is reversed.
                    sign = 1.0 if dot > 0 else -1.0
                    x, y, z = x + sign * vectors[g, 0], y + sign * vectors[g, 1], z + sign * vectors[g, 2]
            length = np.sqrt(x * x + y * y + z * z)
            if length > 0:
                out[f, c, 0], out[f, c, 1], out[f, c, 2] = x / length, y / length, z / length
    return out


@njit(cache=True, nogil=True)
def rasterize(points: Floats, faces: IntArray, owner: Ints, depth: Floats, weights: Floats) -> None:
    """Write, for each pixel, the nearest face (-1: none), its nearness and the weights of its first two corners.

    `points` (n_v, 3): column, row and nearness; the buffers must be empty (-1, -inf, any).
    """
    height, width = owner.shape
    for f in range(len(faces)):
        i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
        ax, ay, bx, by, cx, cy = points[i, 0], points[i, 1], points[j, 0], points[j, 1], points[k, 0], points[k, 1]
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0:
            continue
        first_row = max(0, int(np.ceil(min(ay, by, cy) - 0.5)))
        last_row = min(height - 1, int(np.floor(max(ay, by, cy) - 0.5)))
        first = max(0, int(np.ceil(min(ax, bx, cx) - 0.5)))
        last = min(width - 1, int(np.floor(max(ax, bx, cx) - 0.5)))
        inverse = np.float32(1.0) / area
        for row in range(first_row, last_row + 1):
            y = np.float32(row) + np.float32(0.5)
            for column in range(first, last + 1):
                x = np.float32(column) + np.float32(0.5)
                w0 = ((bx - x) * (cy - y) - (by - y) * (cx - x)) * inverse
                w1 = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) * inverse
                w2 = np.float32(1.0) - w0 - w1
                if w0 < 0 or w1 < 0 or w2 < 0:
                    continue
                near = w0 * points[i, 2] + w1 * points[j, 2] + w2 * points[k, 2]
                if near > depth[row, column]:
                    depth[row, column] = near
                    owner[row, column] = f
                    weights[row, column, 0] = w0
                    weights[row, column, 1] = w1


@njit(cache=True, nogil=True)
def shade(
    owner: Ints,
    weights: Floats,
    normals: Floats,
    colors: Floats,
    facing: Floats,
    lamps: Floats,
    doublings: int,
    edge_heights: Floats,
    edge_strength: float,
    nearest: bool,
    samples: int,
    out: Floats,
    lit: Floats,
) -> None:
    """Average `samples` x `samples` shaded pixels into each pixel of `out` (rows, columns, 3), in squared color.

    `normals` and `colors` (n_f, 3, 3) belong to corners; normals are in the frame of the view, `facing` (n_f) is -1
    if a face is seen from behind. `lamps` and `doublings` are those of `_light`. `edge_heights` (n_f, 3), the heights
    of corners over the opposite sides in pixels, convert weights to distances from the edges. With `nearest` a pixel
    gets the color of the nearest corner instead of the mean. `lit` counts covered samples; it and `out` must be zero.
    """
    rows, columns = lit.shape
    for row in range(rows):
        for column in range(columns):
            for i in range(samples * samples):
                y, x = row * samples + i // samples, column * samples + i % samples
                f = owner[y, x]
                if f < 0:
                    continue
                lit[row, column] += 1
                w0, w1 = weights[y, x, 0], weights[y, x, 1]
                w2 = np.float32(1.0) - w0 - w1
                light, gloss = _light(normals[f], w0, w1, w2, facing[f], lamps, doublings)
                if edge_strength > 0:
                    near = min(w0 * edge_heights[f, 0], w1 * edge_heights[f, 1], w2 * edge_heights[f, 2])
                    if near < 0.5 * samples:
                        light *= 1 - edge_strength
                if nearest:
                    w0, w1, w2 = _only_largest(w0, w1, w2)
                for k in range(3):
                    color = colors[f, 0, k] * w0 + colors[f, 1, k] * w1 + colors[f, 2, k] * w2
                    value = min(np.float32(1.0), color * light + gloss)
                    out[row, column, k] += value * value


@njit(cache=True, nogil=True)
def _light(
    n: Floats, w0: np.float32, w1: np.float32, w2: np.float32, facing: np.float32, lamps: Floats, doublings: int
) -> tuple[np.float32, np.float32]:
    """Diffuse light and gloss at a point of a face, from the normals of its corners (3, 3).

    `lamps` (4, 4): direction and strength of the ambient light, which increases along its direction, of key and fill
    light, and of the gloss, squared `doublings` times.
    """
    nx = n[0, 0] * w0 + n[1, 0] * w1 + n[2, 0] * w2
    ny = n[0, 1] * w0 + n[1, 1] * w1 + n[2, 1] * w2
    nz = n[0, 2] * w0 + n[1, 2] * w1 + n[2, 2] * w2
    size = np.sqrt(nx * nx + ny * ny + nz * nz)
    scale = facing / size if size > 0 else np.float32(0.0)
    nx, ny, nz = nx * scale, ny * scale, nz * scale
    light = lamps[0, 3] + lamps[0, 0] * nx + lamps[0, 1] * ny + lamps[0, 2] * nz
    for i in (1, 2):
        light += lamps[i, 3] * max(np.float32(0.0), lamps[i, 0] * nx + lamps[i, 1] * ny + lamps[i, 2] * nz)
    gloss = max(np.float32(0.0), lamps[3, 0] * nx + lamps[3, 1] * ny + lamps[3, 2] * nz)
    for _ in range(doublings):
        gloss *= gloss
    return light, lamps[3, 3] * gloss


@njit(cache=True, nogil=True)
def _only_largest(w0: np.float32, w1: np.float32, w2: np.float32) -> tuple[np.float32, np.float32, np.float32]:
    one, zero = np.float32(1), np.float32(0)
    if w0 >= w1 and w0 >= w2:
        return one, zero, zero
    return (zero, one, zero) if w1 >= w2 else (zero, zero, one)
