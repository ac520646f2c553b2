"""Orient faces so that neighbors agree and normals point outward."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.geometry import face_vector
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex

_HOLLOW = 1e-3  # volume over area ** 1.5; below this a piece encloses nothing


def outward(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Faces flipped so that neighbors agree and normals point outward, piece by piece, across edges with two faces.

    Outward means that the volume about the center of the piece is positive, even if the piece is open. A piece that
    encloses nothing keeps the winding of most of its area; one that cannot be oriented keeps that of the file.
    """
    topology = MeshComplex.from_faces(faces, len(vertices))
    turned = _inside_out(vertices, faces, *_agreeing(topology.face_edges, topology.face_signs, topology.n.e))
    return np.where(turned[:, None], faces[:, [0, 2, 1]], faces)


@njit(cache=True, nogil=True)
def _inside_out(
    vertices: FloatArray,
    faces: IntArray,
    piece: IntArray,
    turned: NDArray[np.bool_],
    orientable: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """The faces to flip: `turned`, or in some pieces all the others."""
    n = len(orientable)
    area, turned_area, moment, volume = np.zeros(n), np.zeros(n), np.zeros((n, 3)), np.zeros(n)
    vectors, centers = np.empty((len(faces), 3)), np.zeros((len(faces), 3))
    for f in range(len(faces)):
        x, y, z = face_vector(vertices, faces[f])
        vectors[f, 0], vectors[f, 1], vectors[f, 2] = x, y, z
        share = np.sqrt(x * x + y * y + z * z) / 2
        area[piece[f]] += share
        turned_area[piece[f]] += share * turned[f]
        for axis in range(3):
            for corner in faces[f]:
                centers[f, axis] += vertices[corner, axis] / 3
            moment[piece[f], axis] += share * centers[f, axis]
    for f in range(len(faces)):
        p = piece[f]
        for axis in range(3):
            height = centers[f, axis] - (moment[p, axis] / area[p] if area[p] > 0 else 0.0)
            volume[p] += height * vectors[f, axis] / (-6 if turned[f] else 6)
    out = np.empty(len(faces), dtype=np.bool_)
    for f in range(len(faces)):
        p = piece[f]
        hollow = abs(volume[p]) > _HOLLOW * area[p] ** 1.5
        inside_out = volume[p] < 0 if hollow else turned_area[p] > area[p] / 2
        out[f] = orientable[p] and turned[f] != inside_out
    return out


@njit(cache=True, nogil=True)
def _agreeing(
    face_edges: IntArray, face_signs: NDArray[np.int8], n_edges: int
) -> tuple[IntArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """The piece of each face, whether it must be flipped to agree with the first, and which pieces are orientable."""
    n = len(face_edges)
    count, pair = np.zeros(n_edges, dtype=np.int64), np.zeros((n_edges, 2), dtype=np.int64)
    for f in range(n):
        for side in range(3):
            e = face_edges[f, side]
            if count[e] < 2:
                pair[e, count[e]] = 3 * f + side
            count[e] += 1
    piece, turned = np.full(n, -1), np.zeros(n, dtype=np.bool_)
    orientable, stack = np.ones(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    n_pieces = 0
    for start in range(n):
        if piece[start] >= 0:
            continue
        piece[start] = n_pieces
        stack[0], height = start, 1
        while height > 0:
            height -= 1
            f = stack[height]
            for side in range(3):
                e = face_edges[f, side]
                if count[e] != 2:
                    continue
                other = pair[e, 0] if pair[e, 1] == 3 * f + side else pair[e, 1]
                g = other // 3
                turn = turned[f] ^ (face_signs[f, side] == face_signs[g, other % 3])
                if piece[g] < 0:
                    piece[g], turned[g] = n_pieces, turn
                    stack[height] = g
                    height += 1
                elif turned[g] != turn:
                    orientable[n_pieces] = False
        n_pieces += 1
    return piece, turned, orientable[:n_pieces]
