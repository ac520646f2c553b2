"""Input features x_in of vertices, edges and faces: those of the paper, distances along the surface, own columns.

Distances along the edges of a surface hardly change when a body changes its pose.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.containers import KINDS, ElementKind, PerElement
from hodgeformer.base.machine import for_row_ranges, thread_count
from hodgeformer.mesh.geometry import LEAST_AREA, around_vertices, edge_quads, face_centers, face_vectors, norms, unit
from hodgeformer.mesh.mesh import COLOR, FloatArray, IntArray, exact_parts, is_word
from hodgeformer.mesh.topology import MeshComplex, neighbor_lists

GROUPS = ("coords", "normals", "areas", "distances")
PAPER_GROUPS = ("coords", "normals", "areas")
OWN = "ply:"
"""Before the name of a column of the mesh, as opposed to a group of features that follow from its shape."""
OnElements = tuple[ElementKind, FloatArray]
"""(n,) values in the order of the complex, and the kind of element that they belong to."""

N_POINTS = 48
RADII = (0.15, 0.25, 0.4, 0.6)
"""In units of the root of the surface area. The points are about 0.14 apart."""
N_DISTANCES = 2 + len(RADII)
TYPICAL = np.array([0.6, 1.2, 0.05, 0.13, 0.28, 0.46])
SPREAD = np.array([0.2, 0.4, 0.02, 0.05, 0.1, 0.13])
"""Mean and deviation over the vertices of animals and people. Shapes differ by a few hundredths in these columns, which
a network would learn slowly next to coordinates of size one."""

_WORTH_THREADS = 10_000  # vertices
_AT_ONCE = 4096  # of them, whose distances fit into the cache

_WIDTHS = {
    "coords": PerElement(3, 12, 9),
    "normals": PerElement(3, 3, 3),
    "areas": PerElement(1, 6, 1),
    "distances": PerElement(N_DISTANCES, N_DISTANCES, N_DISTANCES),
}


def canonical_features(features: tuple[str, ...]) -> tuple[str, ...]:
    """The groups in their order, then `color` and `ply:NAME`, whose prefix may be omitted."""
    known = f"{', '.join(GROUPS)}, {COLOR} and {OWN}NAME, a column of the mesh"
    if not features:
        raise ValueError(f"set at least one of {known}")
    own = dict.fromkeys(
        name if name == COLOR else OWN + name.removeprefix(OWN) for name in features if name not in GROUPS
    )
    for name in features:
        # A prefix distinguishes a column from a misspelled group.
        close = [] if name.startswith(OWN) else difflib.get_close_matches(name, (*GROUPS, COLOR), 1, 0.75)
        if close not in ([], [name]) or not is_word(name.removeprefix(OWN)):
            raise ValueError(f"unknown feature '{name[:80]}'; use {close[0] if close else f'one of {known}'}")
    return (*(group for group in GROUPS if group in features), *own)


def feature_widths(groups: tuple[str, ...]) -> PerElement[int]:
    """Columns of x_in for the chosen groups and own columns."""
    own = len(own_parts(groups))
    return PerElement.build(lambda kind: own + sum(_WIDTHS[group][kind] for group in groups if group in GROUPS))


def own_names(groups: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the columns of the mesh among the features."""
    return tuple(group.removeprefix(OWN) for group in groups if group not in GROUPS)


def own_parts(groups: tuple[str, ...]) -> tuple[str, ...]:
    """The same, with the three parts of a color."""
    return tuple(part for name in own_names(groups) for part in exact_parts(name))


def reversed_edge_columns(groups: tuple[str, ...]) -> list[int]:
    """The columns of x_in of an edge in the order that they have once its direction is reversed.

    Tail and head change places, and so do left and right, in the coordinates and in the distances between them.
    """
    ends = {"coords": [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8], "areas": [0, 4, 3, 2, 1, 5]}
    columns: list[int] = []
    for group in GROUPS:
        if group in groups:
            first = len(columns)
            columns += [first + at for at in ends.get(group, range(_WIDTHS[group].e))]
    return [*columns, *range(len(columns), feature_widths(groups).e)]


def input_features(
    vertices: FloatArray,
    topology: MeshComplex,
    groups: tuple[str, ...] = PAPER_GROUPS,
    kinds: tuple[ElementKind, ...] = KINDS,
    own: Sequence[OnElements] = (),
) -> PerElement[NDArray[np.float32]]:
    """x_in, with the columns of the groups in the order coords, normals, areas, distances, then the own ones.

    vertex: position, unit normal, a third of its faces' area. edge: tail, head, left and right opposite vertex; mean
    of the two vertex normals; the six distances between those four points. face: its corners in winding order, unit
    normal, area. Beyond the paper: distances along the surface of a vertex, and their means over the corners of an edge
    or face. Own columns become means over the elements in it or around it. Kinds not in `kinds` get rows of NaN that
    use no memory.
    """
    faces, (tails, heads) = topology.faces, topology.edges.T
    double_areas, vertex_areas, normals = around_vertices(vertices, faces)
    within = distance_features(vertices, topology.edges, vertex_areas) if "distances" in groups else np.empty((0, 0))

    def columns(kind: ElementKind) -> dict[str, FloatArray]:
        if kind == "v":
            return {"coords": vertices, "normals": normals, "areas": vertex_areas[:, None], "distances": within}
        if kind == "e":
            points, lengths = edge_quads(vertices, topology, double_areas)
            found: dict[str, FloatArray] = {"coords": points.reshape(-1, 12), "areas": lengths}
            found["normals"] = unit(normals[tails] + normals[heads])
            return found if not within.size else found | {"distances": (within[tails] + within[heads]) / 2}
        found = {"coords": vertices[faces].reshape(-1, 9), "areas": double_areas[:, None] / 2}
        found["normals"] = unit(face_vectors(vertices, faces))
        return found if not within.size else found | {"distances": face_centers(within, faces)}

    def features(kind: ElementKind) -> NDArray[np.float32]:
        if kind not in kinds:
            return np.broadcast_to(np.float32(np.nan), (topology.n[kind], feature_widths(groups)[kind]))
        found = columns(kind)
        stacked = [found[group] for group in GROUPS if group in groups]
        stacked += [_carried(values, source, kind, topology)[:, None] for source, values in own]
        return np.concatenate(stacked, axis=1, dtype=np.float32)

    return PerElement.build(features)


def _carried(values: FloatArray, source: ElementKind, to: ElementKind, topology: MeshComplex) -> FloatArray:
    """The means over the elements of kind `source` that an element contains or is contained in; 0 if there are none."""
    if source == to:
        return values
    members = {("v", "e"): topology.edges, ("v", "f"): topology.faces, ("e", "f"): topology.face_edges}
    if (source, to) in members:
        return np.asarray(values[members[source, to]].mean(axis=1))
    of = members[to, source]
    sums = np.bincount(of.ravel(), np.repeat(values, of.shape[1]), topology.n[to])
    return np.asarray(sums / np.maximum(np.bincount(of.ravel(), minlength=topology.n[to]), 1))


@dataclass(frozen=True, eq=False)
class EdgeGraph:
    """Neighbors of vertex i: indices[offsets[i]:offsets[i + 1]], at `lengths`."""

    offsets: IntArray
    indices: NDArray[np.int32]
    lengths: FloatArray

    @classmethod
    def from_edges(cls, vertices: FloatArray, edges: IntArray) -> EdgeGraph:
        """Edges are pairs of vertices, in any direction; an edge may be repeated."""
        lengths = norms(vertices[edges[:, 1]] - vertices[edges[:, 0]])
        offsets, neighbors, numbers = neighbor_lists(edges, len(vertices))
        return cls(offsets, neighbors, lengths[numbers])

    def spread_points(self, start: int, n_points: int) -> tuple[IntArray, FloatArray]:
        """Points as far apart as possible, beginning with `start`, and the distances from each, (n, n_v).

        A part of the surface that no point reaches is infinitely far away, and comes next.
        """
        n = len(self.offsets) - 1
        points, distances = np.full(n_points, start), np.empty((n_points, n))
        graph = self.offsets, self.indices, self.lengths
        _spread(*graph, np.full((n, 1), np.inf), np.zeros(n, np.bool_), points)

        def fill(first: int, last: int) -> None:
            near, nearer = np.full((n, last - first), np.inf), np.zeros(n, np.bool_)
            near[points[first:last], np.arange(last - first)], nearer[points[first:last]] = 0.0, True
            _relax(*graph, near, nearer)
            distances[first:last] = near.T

        for_row_ranges(fill, n_points, n_threads=thread_count() if n > _WORTH_THREADS else 1, min_rows=1)
        return points, distances


def distance_features(vertices: FloatArray, edges: IntArray, vertex_areas: FloatArray) -> FloatArray:
    """Features of each vertex from its distances to the rest of the surface, (n_v, N_DISTANCES).

    Mean and maximum of the distances, in units of the root of the area, and how much of the surface is near: the mean
    of exp(-(d / r)²) for every radius r. Means are integrals over the surface: each of some points spread over it
    represents the area that is nearest to it; parts that no point reaches count as zero. All columns are standardized.
    """
    graph = EdgeGraph.from_edges(vertices, edges)
    # The start must not depend on the file, nor on the rotation of the mesh.
    used = np.diff(graph.offsets) > 0
    start = int(np.argmax(np.where(used, norms(vertices), -1.0)))
    _, distances = graph.spread_points(start, min(N_POINTS, int(used.sum())))
    area = vertex_areas.sum()
    distances /= np.sqrt(area if area > LEAST_AREA else 1.0)
    # The share of the surface that is nearest to each point.
    shares = vertex_areas / (area or 1.0)
    weights = np.asarray(np.bincount(distances.argmin(axis=0), shares, len(distances)), np.float64)
    summary = np.empty((len(vertices), N_DISTANCES))

    def summarize(first: int, last: int) -> None:
        for start in range(first, last, _AT_ONCE):
            here = slice(start, min(start + _AT_ONCE, last))
            summary[here] = _summary(distances[:, here], weights[:, None]).T

    for_row_ranges(summarize, len(vertices), n_threads=thread_count(), min_rows=_WORTH_THREADS // 2)
    return np.asarray((summary - TYPICAL) / SPREAD, np.float64)


def _summary(distances: FloatArray, weights: FloatArray) -> FloatArray:
    """(N_DISTANCES, n): mean and maximum of the distances that are finite, and the mean nearness for every radius."""
    finite = np.isfinite(distances)
    found = np.where(finite, distances, 0.0)
    reached = (weights * finite).sum(axis=0)
    mean = (weights * found).sum(axis=0) / np.where(reached > 0, reached, 1.0)
    near = [(weights * np.exp(-((distances / radius) ** 2))).sum(axis=0) for radius in RADII]
    return np.stack([mean, found.max(axis=0), *near])


@njit(cache=True, nogil=True)
def _spread(
    offsets: IntArray,
    indices: NDArray[np.int32],
    lengths: FloatArray,
    nearest: FloatArray,
    nearer: NDArray[np.bool_],
    points: IntArray,
) -> None:
    """After the first, points that are each the farthest from those before.

    The search from a point ends where another point is nearer: beyond such a vertex that point is always nearer, to the
    bit.
    """
    point = points[0]
    for i in range(len(points)):
        points[i], nearest[point, 0], nearer[point] = point, 0.0, True
        _relax(offsets, indices, lengths, nearest, nearer)
        farthest = -1.0
        for j in range(len(nearer)):
            # Vertices without a face are not part of the surface.
            if nearest[j, 0] > farthest and offsets[j] < offsets[j + 1]:
                farthest, point = nearest[j, 0], j


@njit(cache=True, nogil=True)
def _relax(
    offsets: IntArray, indices: NDArray[np.int32], lengths: FloatArray, distances: FloatArray, nearer: NDArray[np.bool_]
) -> None:
    """Update the neighbors of vertices that are now nearer to some point, to and fro along the order, until none are.

    The result is that of Dijkstra's algorithm, to the bit, in any order of the vertices. Along a space-filling curve a
    few rounds suffice, and the distances to many points are one vector.
    """
    n, n_points = distances.shape
    changed = True
    while changed:
        changed = False
        for to_and_fro in range(2 * n):
            vertex = to_and_fro if to_and_fro < n else 2 * n - 1 - to_and_fro
            if not nearer[vertex]:
                continue
            nearer[vertex] = False
            for k in range(offsets[vertex], offsets[vertex + 1]):
                neighbor, length, came_nearer = indices[k], lengths[k], False
                for i in range(n_points):
                    distance = distances[vertex, i] + length
                    came_nearer |= distance < distances[neighbor, i]
                    distances[neighbor, i] = min(distances[neighbor, i], distance)
                nearer[neighbor] |= came_nearer
                changed |= came_nearer
