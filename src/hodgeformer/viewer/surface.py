"""How the faces of a mesh hang together, for brushes and fills in the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.mesh import IntArray, Mesh


def face_neighbors(mesh: Mesh) -> NDArray[np.int32]:
    """(n_faces, 3): the face across side (corner i, corner i + 1), -1 where there is none.

    Vertices at the same place count as one, so that a soup of triangles hangs together too. Where more than two faces
    share a side, each leads to the next and the last to the first, so that all are reached.
    """
    faces = _welded(mesh)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    low, high = ends.min(axis=1), ends.max(axis=1)
    key = low * (faces.max() + 1) + high
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    count = np.diff(np.r_[first, len(key)])
    start = np.repeat(first, count)
    place = np.arange(len(key)) - start
    partner = order[start + (place + 1) % np.repeat(count, count)]
    neighbors = np.empty(len(key), dtype=np.int32)
    neighbors[order] = partner // 3
    neighbors[neighbors == np.arange(len(key)) // 3] = -1
    return neighbors.reshape(-1, 3)


def _welded(mesh: Mesh) -> IntArray:
    """Faces over numbers of places."""
    order = np.lexsort(mesh.vertices.T)
    moved = np.r_[True, (np.diff(mesh.vertices[order], axis=0) != 0).any(axis=1)]
    place = np.empty(mesh.n_vertices, dtype=np.int64)
    place[order] = np.cumsum(moved) - 1
    return place[mesh.faces]
