"""The oriented simplicial complex of a mesh: vertices, edges, faces and the signed incidences between them.

Orientation is defined here and only here: an edge points from the vertex with the smaller number (tail) to the one
with the larger (head).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import MeshError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeshComplex:
    """Edges and incidences; they depend on faces only, not on positions.

    `faces` (n_f, 3) corners; `edges` (n_e, 2) tail and head, sorted; `face_edges` (n_f, 3) the edges of the sides
    (0, 1), (1, 2), (2, 0); `face_signs` (n_f, 3) +1 if the face traverses that edge from tail to head, else -1.
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
                f"face {repeats[0]} repeats a vertex ({faces[repeats[0]].tolist()}), which a complex does not allow; "
                f"remove such faces first ({repeats.size} of {len(faces)})"
            )
        edges, face_edges, face_signs = _sides(faces, n_vertices)
        return cls(PerElement(n_vertices, len(edges), len(faces)), faces, edges, face_edges, face_signs)

    @classmethod
    def in_file_order(cls, faces: IntArray, n_vertices: int) -> MeshComplex:
        """With edges in the order of their first appearance in the faces, as label files number them."""
        topology = cls.from_faces(faces, n_vertices)
        order = edges_by_first_appearance(topology.face_edges, topology.n.e)
        return replace(
            topology, edges=topology.edges[order], face_edges=inverse_permutation(order)[topology.face_edges]
        )

    def paired_sides(self) -> tuple[IntArray, IntArray]:
        """The two sides, numbered 3 f + i, at each edge of exactly two faces, in the order of the edges."""
        offsets, sides = sorted_by(self.face_edges.ravel(), self.n.e)
        first = offsets[:-1][np.diff(offsets) == 2]
        return sides[first], sides[first + 1]

    def d0_matrix(self) -> csr_array:
        """d_0 (n_e, n_v): -1 at the tail of an edge, +1 at its head."""
        rows = np.repeat(np.arange(self.n.e), 2)
        signs = np.tile(np.array([-1, 1], dtype=np.int8), self.n.e)
        return sparse_matrix((signs, (rows, self.edges.ravel())), shape=(self.n.e, self.n.v))

    def d1_matrix(self) -> csr_array:
        """d_1 (n_f, n_e): +1 if a face traverses an edge from tail to head, -1 from head to tail."""
        rows = np.repeat(np.arange(self.n.f), 3)
        return sparse_matrix((self.face_signs.ravel(), (rows, self.face_edges.ravel())), shape=(self.n.f, self.n.e))


def sparse_matrix(entries: tuple[Any, ...], shape: tuple[int, int]) -> csr_array:
    """A SciPy matrix; SciPy is slow to import and rarely needed, so it is imported here."""
    from scipy.sparse import csr_array

    return csr_array(entries, shape=shape)


def inverse_permutation(order: IntArray) -> IntArray:
    """The permutation that undoes `order`."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return back


def repeats_a_vertex(faces: IntArray) -> NDArray[np.bool_]:
    a, b, c = faces.T
    return np.asarray((a == b) | (b == c) | (c == a), np.bool_)


def is_used(faces: IntArray, n_vertices: int) -> NDArray[np.bool_]:
    """Which vertices are a corner of some face."""
    used = np.zeros(n_vertices, dtype=bool)
    used[faces.ravel()] = True
    return used


def component_numbers(links: IntArray, n_vertices: int) -> IntArray:
    """For each vertex the number of its connected piece; faces or edges (n, k) connect their vertices."""
    from scipy.sparse.csgraph import connected_components

    first, others = np.repeat(links[:, 0], links.shape[1] - 1), links[:, 1:].ravel()
    graph = sparse_matrix((np.ones(len(first), np.bool_), (first, others)), shape=(n_vertices, n_vertices))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def corner_fans(faces: IntArray) -> IntArray:
    """(n_f, 3) a number for each corner: equal for corners of one vertex that are connected by sides of faces.

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
    return component_numbers(links, faces.size).reshape(-1, 3)


def edges_by_first_appearance(face_edges: IntArray, n_edges: int) -> IntArray:
    """Edge numbers in the order of first appearance in the faces and their sides (0, 1), (1, 2), (2, 0).

    This is the edge order of label files with one label per edge.
    """
    sides = face_edges.ravel()
    first = np.empty(n_edges, dtype=np.int64)
    first[sides[::-1]] = np.arange(len(sides) - 1, -1, -1)  # the last write is the first appearance
    return np.argsort(first, kind="stable")


def unique_edges(faces: IntArray, n_vertices: int) -> IntArray:
    """(n_e, 2) the edges of faces, sorted; a face may repeat a vertex, and then has an edge of length zero."""
    return _sides(faces, n_vertices)[0]


def neighbor_lists(edges: IntArray, n_vertices: int) -> tuple[IntArray, NDArray[np.int32], NDArray[np.int32]]:
    """Neighbors of vertex i, edge by edge: neighbors[offsets[i]:offsets[i + 1]], and the numbers of these edges."""
    offsets, places = sorted_by(edges.ravel(), n_vertices)
    return offsets, edges.ravel()[places ^ 1].astype(np.int32), (places >> 1).astype(np.int32)


def incidence_lists(members: IntArray, n_targets: int) -> tuple[IntArray, NDArray[Any]]:
    """CSR lists of the rows of `members` (n, k) that contain each target: (offsets, rows), rows ascending."""
    offsets, places = sorted_by(members.ravel(), n_targets)
    return offsets, (places // members.shape[1]).astype(np.int32)


def opposite_sides(faces: NDArray[np.int32], n_vertices: int) -> tuple[IntArray, NDArray[np.int32]]:
    """For each vertex i the sides (a, b) of its faces (i, a, b): offsets, and the sides."""
    offsets, places = sorted_by(faces.ravel(), n_vertices)
    return offsets, faces[:, [[1, 2], [2, 0], [0, 1]]].reshape(-1, 2).take(places, axis=0)


def sorted_by(keys: IntArray | NDArray[np.int32], n_keys: int) -> tuple[IntArray, IntArray]:
    """Offsets of the keys 0 ... n_keys - 1, and the positions of all keys sorted by key; a stable counting sort."""
    keys = np.array(keys, np.int64)  # a copy, so that it compiles once: not again for int32 or what is read only
    offsets, places = np.zeros(n_keys + 1, np.int64), np.empty(len(keys), np.int64)
    np.cumsum(np.bincount(keys, minlength=n_keys), out=offsets[1:])
    fill_places(keys, offsets[:-1].copy(), places)
    return offsets, places


@njit(cache=True, nogil=True)
def fill_places(keys: IntArray, free: IntArray, places: IntArray) -> None:
    for place in range(len(keys)):
        key = keys[place]
        places[free[key]] = place
        free[key] += 1


def _sides(faces: IntArray, n_vertices: int) -> tuple[IntArray, IntArray, NDArray[np.int8]]:
    """Sorted edges (tail, head), those of the sides of each face, and their signs; by two counting sorts."""
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    low, high = np.minimum(start, end), np.maximum(start, end)
    by_head = sorted_by(high, n_vertices)[1]
    places = by_head[sorted_by(low[by_head], n_vertices)[1]]
    tails, heads = low[places], high[places]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = (tails[1:] != tails[:-1]) | (heads[1:] != heads[:-1])
    face_edges = np.empty(faces.shape, np.int64)
    face_edges.ravel()[places] = np.cumsum(is_first) - 1
    signs = np.where(start < end, 1, -1).astype(np.int8).reshape(faces.shape)
    return np.stack([tails[is_first], heads[is_first]], axis=1), face_edges, signs
