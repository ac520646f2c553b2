"""One winding for a surface, whatever its file says: neighbors agree, and normals point outward."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hodgeformer.mesh.geometry import face_centers, face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex

FLAT = 1e-3  # volume over area ** 1.5 below which a piece has no inside


def outward(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Faces turned where needed, piece by piece; pieces hang together over edges with two faces.

    Outward is where the volume about the center of the piece is positive, also for one that is cut open. A piece that
    encloses nothing keeps the winding of most of its area; one that cannot be oriented keeps the file's.
    """
    topology = MeshComplex.from_faces(faces, len(vertices))
    piece, turned, orientable = _agreeing(topology.face_edges, topology.face_signs, topology.n.e)
    vectors = face_vectors(vertices, faces) * np.where(turned, -1.0, 1.0)[:, None]
    areas, centers, n = norms(vectors) / 2, face_centers(vertices, faces), len(orientable)

    def sums(values: FloatArray) -> FloatArray:
        return np.bincount(piece, weights=values, minlength=n).astype(np.float64)

    area = sums(areas)
    safe = np.where(area > 0, area, 1.0)
    middle = np.stack([sums(areas * centers[:, axis]) / safe for axis in range(3)], axis=1)
    volume = sums(np.einsum("fi,fi->f", centers - middle[piece], vectors) / 6)
    hollow = np.abs(volume) > FLAT * area**1.5
    inside_out = np.where(hollow, volume < 0, sums(areas * turned) > area / 2)
    turned = (turned ^ inside_out[piece]) & orientable[piece]
    return np.where(turned[:, None], faces[:, [0, 2, 1]], faces)


@njit(cache=True, nogil=True)
def _agreeing(
    face_edges: IntArray, face_signs: NDArray[np.int8], n_edges: int
) -> tuple[IntArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """The piece of each face, whether it must turn to agree with the first face of it, and which pieces can agree."""
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
