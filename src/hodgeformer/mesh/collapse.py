"""Edge collapse that preserves the topology of a surface.

Quadrics only grow, so an old cost is a lower bound of the current one, and an edge needs to be evaluated again only
when it reaches the top of the heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.geometry import face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.quadrics import minimum, vertex_quadrics
from hodgeformer.mesh.topology import MeshComplex, component_numbers, sorted_by

Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

_SPREAD = 1.5  # a seed multiplies costs by 1 to 1 + this
_LEAST_COSINE = 0.2  # between the normals of a face before and after


class Surface(NamedTuple):
    """A mesh that is simplified in place, as plain arrays for compiled code.

    `points` and `faces` are current, `alive` marks the faces that are left, `into[v]` is the vertex that v was merged
    into. `edges` and `face_edges` are those of a MeshComplex, `gone` marks collapsed edges. `first` and `following`
    are linked lists of the corners 3 f + i of each vertex, ended by -1. `rim` marks vertices on a border.
    """

    points: FloatArray
    faces: Int32Array
    alive: BoolArray
    into: Int32Array
    edges: Int32Array
    face_edges: Int32Array
    gone: BoolArray
    first: Int32Array
    following: Int32Array
    rim: BoolArray
    quadrics: FloatArray
    closed: bool

    @classmethod
    def from_mesh(cls, points: FloatArray, faces: IntArray, evenness: float) -> Surface:
        """From positions of size one and faces that do not repeat a vertex. Equal costs are ordered by number.

        `evenness` is the weight of the distance to points, relative to that to planes.
        """
        topology = MeshComplex.from_faces(faces, len(points))
        n_sides = np.bincount(topology.face_edges.ravel(), minlength=topology.n.e)
        rim = np.zeros(len(points), dtype=bool)
        rim[topology.edges[n_sides == 1]] = True
        first, following = _corner_lists(topology.faces, len(points))
        return cls(
            points=points.copy(),
            faces=faces.astype(np.int32),
            alive=np.ones(len(faces), dtype=bool),
            into=np.arange(len(points), dtype=np.int32),
            edges=topology.edges.astype(np.int32),
            face_edges=topology.face_edges.astype(np.int32),
            gone=np.zeros(topology.n.e, dtype=bool),
            first=first,
            following=following,
            rim=rim,
            quadrics=vertex_quadrics(points, topology, n_sides == 1, evenness),
            closed=bool((n_sides == 2).all()),
        )

    @property
    def n_faces(self) -> int:
        return int(self.alive.sum())

    def reduce(self, n_faces: int, seed: int | None) -> None:
        """Collapse edges until at most n_faces are left; of a closed surface, the topology only loses small pieces."""
        how = np.uint64(seed or 0), 0.0 if seed is None else _SPREAD
        _collapse_edges(self, n_faces, *how, unfolded=True, linked=True)
        if self.n_faces > n_faces:
            self._remove_small_pieces(n_faces)
        if self.n_faces > n_faces:
            _collapse_edges(self, n_faces, *how, unfolded=False, linked=True)
        if self.n_faces > n_faces and not self.closed:
            _collapse_edges(self, n_faces, *how, unfolded=False, linked=False)

    def merged_into(self) -> IntArray:
        """For each vertex the one at the end of its chain of collapses."""
        into = self.into.astype(np.int64)
        while not np.array_equal(into, into[into]):
            into = into[into]
        return into

    def _remove_small_pieces(self, n_faces: int) -> None:
        """Remove pieces smaller than an average face of the result, the smallest first, as many as needed."""
        faces = self.faces[self.alive].astype(np.int64)
        piece = component_numbers(faces, len(self.points))[faces[:, 0]]
        _, piece, sizes = np.unique(piece, return_inverse=True, return_counts=True)
        areas = np.bincount(piece, norms(face_vectors(self.points, faces)))
        order = np.argsort(areas, kind="stable")
        before = np.cumsum(sizes[order]) - sizes[order]
        chosen = (len(faces) - before > n_faces) & (areas[order] * n_faces < areas.sum())
        chosen[-1] = False
        out = np.zeros(len(order), dtype=bool)
        out[order[chosen]] = True
        self.alive[np.flatnonzero(self.alive)[out[piece]]] = False


def _corner_lists(faces: IntArray, n_vertices: int) -> tuple[Int32Array, Int32Array]:
    """The first corner of each vertex, and the one that follows each corner, in ascending order."""
    offsets, corners = sorted_by(faces.ravel(), n_vertices)
    following, has_corners = np.full(faces.size, -1, dtype=np.int32), np.diff(offsets) > 0
    following[corners[:-1]] = corners[1:]
    following[corners[offsets[1:][has_corners] - 1]] = -1
    first = np.full(n_vertices, -1, dtype=np.int32)
    first[has_corners] = corners[offsets[:-1][has_corners]]
    return first, following


@njit(cache=True, nogil=True)
def _cost(surface: Surface, edge: int | np.int64, seed: np.uint64, spread: float, at: FloatArray) -> float:
    """The cost of collapsing an edge; the new position is written to `at`. A seed varies it by a hash of the ends."""
    a, b = surface.edges[edge, 0], surface.edges[edge, 1]
    least = minimum(surface.quadrics[a], surface.quadrics[b], at)
    if spread == 0.0:
        return least
    mixed = (seed << np.uint64(32)) ^ (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(b)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (1.0 + spread * float(mixed >> np.uint64(40)) / float(1 << 24)) * least


@njit(cache=True, nogil=True)
def _collapse_edges(
    surface: Surface, n_wanted: int, seed: np.uint64, spread: float, unfolded: bool, linked: bool
) -> None:
    """Collapse the cheapest edge, until the number is reached or no collapse is allowed.

    `unfolded` forbids flipping a face, `linked` forbids changing the topology.
    """
    edges, gone = surface.edges, surface.gone
    n_alive = surface.alive.sum()
    at = np.empty(3)
    mark, stamp = np.zeros(len(surface.points), dtype=np.int32), 0
    twin = np.empty(len(edges), dtype=np.int32)
    queued = np.ones(len(edges), dtype=np.bool_)
    heap: list[tuple[float, Any]] = [(0.0, np.int64(0)) for _ in range(0)]
    for i in range(len(edges)):
        if not gone[i]:
            heap.append((_cost(surface, i, seed, spread, at), np.int64(i)))
    heapify(heap)
    while n_alive > n_wanted and len(heap) > 0:
        lower_bound, e = heappop(heap)
        if gone[e]:
            continue
        cost = _cost(surface, e, seed, spread, at)
        if cost > lower_bound:
            heappush(heap, (cost, e))
            continue
        a, b = edges[e, 0], edges[e, 1]
        queued[e] = False
        stamp += 2
        n_shared = _n_shared(surface, a, b, mark, stamp, linked)
        if n_shared in (0, n_alive) or (unfolded and (_folds(surface, a, b, at) or _folds(surface, b, a, at))):
            continue
        _merge(surface, a, b, at, twin)
        n_alive -= n_shared
        # Collapses around here that were forbidden may be allowed now.
        corner = surface.first[a]
        while corner >= 0:
            for i in range(3):
                side = np.int64(surface.face_edges[corner // 3, i])
                if not queued[side]:
                    queued[side] = True
                    heappush(heap, (_cost(surface, side, seed, spread, at), side))
            corner = surface.following[corner]


@njit(cache=True, nogil=True)
def _n_shared(surface: Surface, a: int, b: int, mark: Int32Array, stamp: int, linked: bool) -> int:
    """The number of faces that vanish with the edge (a, b); 0 if the collapse would change the topology.

    The link condition: a neighbor of both a and b must share a face with them. Marks: `stamp` for neighbors of a,
    `stamp + 1` for those in a face with both.
    """
    faces, alive, following = surface.faces, surface.alive, surface.following
    n_shared = n_left = 0
    corner = surface.first[a]
    while corner >= 0:
        f = corner // 3
        v, w = faces[f, (corner + 1) % 3], faces[f, (corner + 2) % 3]
        corner = following[corner]
        if alive[f] and b in (v, w):
            n_shared += 1
            mark[w if v == b else v] = stamp + 1
        elif alive[f]:
            n_left += 1
            mark[v], mark[w] = max(mark[v], stamp), max(mark[w], stamp)
    if not linked:
        return n_shared
    if n_shared > 1 and surface.rim[a] and surface.rim[b]:
        return 0  # two borders would touch
    caps_b = False
    corner = surface.first[b]
    while corner >= 0:
        f = corner // 3
        v, w = faces[f, (corner + 1) % 3], faces[f, (corner + 2) % 3]
        corner = following[corner]
        if alive[f] and a not in (v, w):
            n_left += 1
            caps_b |= mark[v] == stamp + 1 and mark[w] == stamp + 1
            if stamp in (mark[v], mark[w]):
                return 0
    if n_left == 0:
        return 0  # a piece would vanish
    corner = surface.first[a] if caps_b else -1
    while corner >= 0:
        f = corner // 3
        if alive[f] and mark[faces[f, (corner + 1) % 3]] == mark[faces[f, (corner + 2) % 3]] == stamp + 1:
            return 0  # a tetrahedron would become flat
        corner = following[corner]
    return n_shared


@njit(cache=True, nogil=True)
def _folds(surface: Surface, a: int, b: int, at: FloatArray) -> bool:
    """Whether a face of a without b flips, or nearly, when a moves."""
    corner = surface.first[a]
    while corner >= 0:
        f = corner // 3
        v, w = surface.faces[f, (corner + 1) % 3], surface.faces[f, (corner + 2) % 3]
        corner = surface.following[corner]
        if not surface.alive[f] or b in (v, w):
            continue
        p, q, r = surface.points[a], surface.points[v], surface.points[w]
        sx, sy, sz = r[0] - q[0], r[1] - q[1], r[2] - q[2]
        ux, uy, uz = q[0] - p[0], q[1] - p[1], q[2] - p[2]
        ox, oy, oz = uy * sz - uz * sy, uz * sx - ux * sz, ux * sy - uy * sx
        ux, uy, uz = q[0] - at[0], q[1] - at[1], q[2] - at[2]
        nx, ny, nz = uy * sz - uz * sy, uz * sx - ux * sz, ux * sy - uy * sx
        old, new = ox * ox + oy * oy + oz * oz, nx * nx + ny * ny + nz * nz
        if old > 0 and ox * nx + oy * ny + oz * nz <= _LEAST_COSINE * np.sqrt(old * new):
            return True
    return False


@njit(cache=True, nogil=True)
def _merge(surface: Surface, a: int, b: int, at: FloatArray, twin: Int32Array) -> None:
    """Move a, remove the faces at the edge (a, b), and attach the other faces of b to a. `twin` is scratch memory."""
    faces, face_edges, edges, gone = surface.faces, surface.face_edges, surface.edges, surface.gone
    first, following, alive = surface.first, surface.following, surface.alive
    for axis in range(3):
        surface.points[a, axis] = at[axis]
    for i in range(10):
        surface.quadrics[a, i] += surface.quadrics[b, i]
    surface.rim[a] |= surface.rim[b]
    surface.into[b] = a
    corner = first[b]
    while corner >= 0:
        f, i = corner // 3, corner % 3
        corner = following[corner]
        v, w = faces[f, (i + 1) % 3], faces[f, (i + 2) % 3]
        if alive[f] and a in (v, w):
            # Side i starts at b, side i + 2 ends there; one of them is the edge, the other merges into side i + 1.
            leaves, comes = face_edges[f, i], face_edges[f, (i + 2) % 3]
            alive[f] = False
            gone[leaves] = gone[comes] = True
            twin[leaves] = twin[comes] = face_edges[f, (i + 1) % 3]
    last = -1
    for v in (a, b):
        corner = first[v]
        while corner >= 0:
            f, i = corner // 3, corner % 3
            if alive[f]:
                if v == b:
                    faces[f, i] = a
                    for side in (i, (i + 2) % 3):
                        e = face_edges[f, side]
                        if gone[e]:
                            face_edges[f, side] = twin[e]
                        elif edges[e, 0] == b:
                            edges[e, 0] = a
                        elif edges[e, 1] == b:
                            edges[e, 1] = a
                if last < 0:
                    first[a] = corner
                else:
                    following[last] = corner
                last = corner
            corner = following[corner]
    if last < 0:
        first[a] = -1
    else:
        following[last] = -1
    first[b] = -1
