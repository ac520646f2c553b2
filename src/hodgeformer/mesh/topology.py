"""The oriented simplicial complex of a mesh: vertices, edges, faces and the signed incidences between them.

Orientation is defined here and only here: an edge points from the vertex with the smaller number (tail) to the one
with the larger (head).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from hodgeformer.containers import PerElement
from hodgeformer.errors import MeshError
from hodgeformer.mesh.mesh import IntArray


@dataclass(frozen=True, eq=False)
class MeshComplex:
    """Edges and incidences, from faces alone, so positions may change under it.

    `faces` (n_f, 3) corners; `edges` (n_e, 2) tail and head, sorted; `face_edges` (n_f, 3) the edges of the sides
    (0, 1), (1, 2), (2, 0); `face_signs` (n_f, 3) +1 where the face walks that edge from tail to head, else -1.
    """

    n: PerElement[int]
    faces: IntArray
    edges: IntArray
    face_edges: IntArray
    face_signs: NDArray[np.int8]

    @classmethod
    def from_faces(cls, faces: IntArray, n_vertices: int) -> MeshComplex:
        repeats = np.flatnonzero(repeats_a_vertex(faces))
        if repeats.size:
            raise MeshError(
                f"face {repeats[0]} repeats a vertex ({faces[repeats[0]].tolist()}) and has no place in a complex; "
                f"set such faces aside first ({repeats.size} of {len(faces)})"
            )
        start, end = faces, np.roll(faces, -1, axis=1)
        keys = np.minimum(start, end) * n_vertices + np.maximum(start, end)
        unique_keys, face_edges = np.unique(keys.ravel(), return_inverse=True)
        return cls(
            n=PerElement(n_vertices, len(unique_keys), len(faces)),
            faces=faces,
            edges=np.stack(np.divmod(unique_keys, n_vertices), axis=1),
            face_edges=face_edges.reshape(faces.shape).astype(np.int64, copy=False),
            face_signs=np.where(start < end, 1, -1).astype(np.int8),
        )

    def d0_matrix(self) -> csr_array:
        """d_0 (n_e, n_v): -1 at the tail of an edge, +1 at its head."""
        rows = np.repeat(np.arange(self.n.e), 2)
        signs = np.tile(np.array([-1, 1], dtype=np.int8), self.n.e)
        return csr_array((signs, (rows, self.edges.ravel())), shape=(self.n.e, self.n.v))

    def d1_matrix(self) -> csr_array:
        """d_1 (n_f, n_e): +1 where a face walks an edge from tail to head, -1 where it walks it back."""
        rows = np.repeat(np.arange(self.n.f), 3)
        return csr_array((self.face_signs.ravel(), (rows, self.face_edges.ravel())), shape=(self.n.f, self.n.e))


def repeats_a_vertex(faces: IntArray) -> NDArray[np.bool_]:
    a, b, c = faces.T
    return np.asarray((a == b) | (b == c) | (c == a), np.bool_)


def pieces(links: IntArray, n_vertices: int) -> IntArray:
    """For each vertex the number of its piece: faces or edges (n, k) hang their vertices together."""
    first, others = np.broadcast_arrays(links[:, :1], links[:, 1:])
    graph = csr_array((np.ones(first.size, dtype=np.int8), (first.ravel(), others.ravel())), shape=(n_vertices,) * 2)
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def corner_fans(faces: IntArray) -> IntArray:
    """(n_f, 3) a number for each corner: the same for corners of one vertex that sides of faces lead around.

    A vertex at which sheets of a surface touch has several. They are numbered by first appearance.
    """
    start = np.arange(faces.size)
    end = np.roll(start.reshape(-1, 3), -1, axis=1).ravel()
    ahead = faces.ravel()[start] <= faces.ravel()[end]
    low, high = np.where(ahead, start, end), np.where(ahead, end, start)
    side = faces.ravel()[low] * (int(faces.max()) + 1) + faces.ravel()[high]
    order = np.argsort(side, kind="stable")
    same = np.flatnonzero(side[order[1:]] == side[order[:-1]])
    one, other = order[same], order[same + 1]
    links = np.stack([np.concatenate([low[one], high[one]]), np.concatenate([low[other], high[other]])], axis=1)
    return pieces(links, faces.size).reshape(-1, 3)


def edges_by_first_appearance(face_edges: IntArray, n_edges: int) -> IntArray:
    """Edge numbers in the order a walk over faces and their sides (0, 1), (1, 2), (2, 0) first meets them.

    This is the edge order of label files with one label per edge.
    """
    sides = face_edges.ravel()
    first = np.empty(n_edges, dtype=np.int64)
    first[sides[::-1]] = np.arange(len(sides) - 1, -1, -1)  # the last write is the first appearance
    return np.argsort(first, kind="stable")


def incidence_lists(members: IntArray, n_targets: int) -> tuple[IntArray, NDArray[Any]]:
    """CSR lists of the rows of `members` (n, k) that contain each target: (offsets, rows), rows ascending."""
    counts = np.bincount(members.ravel(), minlength=n_targets)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    rows = np.argsort(members.ravel(), kind="stable") // members.shape[1]
    return offsets, rows.astype(np.int32)
