"""Values and labels on vertices, edges and faces, in the order of the file: converted to another kind, smoothed.

A face that repeats a vertex counts as a face, but has no edges and no neighbors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.base.errors import DataError
from hodgeformer.mesh.geometry import (
    edge_centers,
    face_centers,
    face_vectors,
    in_range,
    nearest_rows,
    norms,
    size_exponent,
    to_unit_sphere,
    unit,
)
from hodgeformer.mesh.mesh import Column, FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import edges_by_first_appearance, sparse_matrix

Values = NDArray[Any]

UNLABELED = -1
_ROUNDS = 25
_SHARPNESS = 0.15  # 1 - cosine of the bend at which the weight of an edge falls to 1/e


def edge_rows(mesh: Mesh, ends: IntArray) -> IntArray:
    """The numbers in the file of the edges with these ends (n, 2), in any direction; -1 for those that it lacks."""
    keys, wanted = (np.sort(pairs, axis=1) @ [mesh.n_vertices, 1] for pairs in (mesh.topology.edges, ends))
    order = np.argsort(keys)
    rows = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[rows] == wanted, rows, -1)


def selected(mesh: Mesh, vertices: IntArray, faces: IntArray, rows: IntArray) -> Mesh:
    """Some vertices of a mesh and `faces` between them, which are its faces `rows`; with its columns."""
    part = mesh.with_surface(mesh.vertices[vertices], faces)
    if not mesh.columns:
        return part
    numbers = {"vertex": vertices, "face": rows}
    if any(element == "edge" for element, _ in mesh.columns.values()):
        numbers["edge"] = edge_rows(mesh, vertices[part.topology.edges])
    columns = {name: Column(element, values[numbers[element]]) for name, (element, values) in mesh.columns.items()}
    return replace(part, columns=columns)


def mirrored_edge_order(mesh: Mesh) -> IntArray:
    """`order[i]` is the number in the file of edge i after all faces are flipped to corners (0, 2, 1)."""
    topology = mesh.topology
    # The sides (0, 2), (2, 1), (1, 0) of a flipped face are its old ones from last to first.
    return edges_by_first_appearance(topology.face_edges[:, ::-1], topology.n.e)


def element_centers(mesh: Mesh, kind: ElementKind) -> FloatArray:
    """Vertices, midpoints of edges, or centers of faces."""
    if kind == "e":
        return edge_centers(mesh.vertices, mesh.topology.edges)
    return mesh.vertices if kind == "v" else face_centers(mesh.vertices, mesh.faces)


def element_areas(mesh: Mesh, kind: ElementKind) -> FloatArray:
    """The area that belongs to each element: a third of the faces around it for a vertex or an edge."""
    areas: FloatArray = norms(face_vectors(mesh.vertices, mesh.faces)) / 2
    if kind == "f":
        return areas
    faces, owners = incidences(mesh, "f", kind)
    sums = np.bincount(owners, weights=areas[faces] / 3, minlength=mesh.count(kind))
    return np.asarray(sums, dtype=np.float64)


def radius(mesh: Mesh) -> float:
    """The distance from the mean corner to the farthest, in the units of the file."""
    used = in_range(mesh).vertices[mesh.faces.ravel()]
    with np.errstate(over="ignore"):
        return float(np.ldexp(norms(used - used.mean(axis=0)).max(), size_exponent(mesh)))


def unit_edge_lengths(mesh: Mesh) -> FloatArray:
    """The length of each edge, after scaling the mesh to the unit sphere."""
    tail, head = mesh.topology.edges.T
    vertices = to_unit_sphere(mesh.vertices, mesh.faces)
    return norms(vertices[head] - vertices[tail])


def incidences(mesh: Mesh, source: ElementKind, to: ElementKind) -> tuple[IntArray, IntArray]:
    """All incident pairs of two kinds as (elements of kind `source`, elements of kind `to`)."""
    topology = mesh.topology
    if {source, to} == {"v", "e"}:
        columns = {"v": topology.edges, "e": np.arange(topology.n.e)[:, None]}
    else:
        columns = {"v": topology.faces, "e": topology.face_edges, "f": mesh.proper_faces[:, None]}
    sources, receivers = np.broadcast_arrays(columns[source], columns[to])
    return sources.ravel(), receivers.ravel()


def convert_values(values: Values, mesh: Mesh, *, source: ElementKind, to: ElementKind) -> Values:
    """Convert rows per element of kind `source` to rows per element of kind `to`: means over incident elements.

    An element without incident elements (a vertex that no face uses, a face that repeats a vertex) gets the row of the
    nearest one that has some.
    """
    if source == to:
        return values
    columns, rows = incidences(mesh, source, to)
    shape = mesh.count(to), mesh.count(source)
    incidence = sparse_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts = np.diff(incidence.indptr)
    converted = (incidence @ values) / np.maximum(counts, 1)[:, None]
    lonely = np.flatnonzero(counts == 0)
    if lonely.size:
        others, centers = np.flatnonzero(counts), element_centers(mesh, to)
        converted[lonely] = converted[others[nearest_rows(centers[lonely], centers[others])]]
    return np.asarray(converted.astype(values.dtype))


def convert_labels(labels: IntArray, mesh: Mesh, *, source: ElementKind, to: ElementKind) -> IntArray:
    """Convert labels per element of kind `source` to labels per element of kind `to`: a vote of incident elements.

    A tie goes to the smaller label; unlabeled elements (-1) do not vote; an element without votes is unlabeled.
    """
    if len(labels) != mesh.count(source):
        raise DataError(
            f"{mesh.name}: expected one label for each of {mesh.count(source)} {ELEMENT_NAMES[source]} elements, "
            f"found {len(labels)}"
        )
    if source == to:
        return labels
    voters, receivers = incidences(mesh, source, to)
    return majority(labels[voters], receivers, mesh.count(to))


def majority(labels: IntArray, receivers: IntArray, n_receivers: int) -> IntArray:
    """For each receiver the most frequent of its labels; a tie goes to the smaller, -1 does not vote."""
    valid = labels >= 0
    labels, receivers = labels[valid], receivers[valid]
    result = np.full(n_receivers, UNLABELED, dtype=np.int64)
    if not labels.size:
        return result
    n_labels = int(labels.max()) + 1
    ballots, counts = np.unique(receivers * n_labels + labels, return_counts=True)
    # The last write wins: sorted from the least to the most frequent, then from the largest label to the smallest.
    order = np.lexsort((-ballots, counts))
    receiver, label = np.divmod(ballots[order], n_labels)
    result[receiver] = label
    return result


def heaviest_labels(labels: NDArray[Any], target: IntArray, weights: FloatArray, n_targets: int) -> NDArray[np.int64]:
    """The label of greatest total weight for each target, the smaller on a tie; no label from zero up is lost."""
    values, label = np.unique(labels, return_inverse=True)
    pairs, pair = np.unique(target * len(values) + label, return_inverse=True)
    total = np.bincount(pair, weights)
    owner, choice = np.divmod(pairs, len(values))
    order = np.lexsort((choice, -total, owner))
    winner = choice[order][np.searchsorted(owner[order], np.arange(n_targets))]
    share = total / np.bincount(owner, total, n_targets)[owner]
    count = np.bincount(winner, minlength=len(values))
    # The rarest first: it has the fewest candidates.
    for lost in sorted(np.flatnonzero((count == 0) & (values >= 0)), key=lambda i: total[choice == i].sum()):
        here = np.flatnonzero((choice == lost) & (count[winner[owner]] > 1))
        if here.size:
            place = owner[here[np.argmax(share[here])]]
            count[winner[place]] -= 1
            winner[place] = lost
            count[lost] = 1
    return np.asarray(values[winner].astype(np.int64))


def mean_votes(values: NDArray[Any], source: IntArray, target: IntArray, weights: FloatArray, n: int) -> NDArray[Any]:
    """For each of n targets the weighted mean of the rows that vote for it; values that are not fractions become so."""
    shares = weights / np.bincount(target, weights, n)[target]
    mean = sparse_matrix((shares, (target, source)), shape=(n, len(values))) @ values
    return np.asarray(mean, dtype=values.dtype if values.dtype.kind == "f" else np.float64)


def smoothed(probabilities: Values, mesh: Mesh, *, kind: ElementKind, strength: float) -> Values:
    """p <- (1 - strength) p_0 + strength W p, repeated; the rows of W are means over adjacent elements.

    Between faces the weight is the length of the shared edge, reduced where the surface bends. Rows still sum to one.
    An element without neighbors keeps its row.
    """
    first, second, weight = _adjacent(mesh, kind)
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    n = len(probabilities)
    weights = sparse_matrix((np.concatenate([weight, weight]), (rows, columns)), shape=(n, n))
    weights.eliminate_zeros()
    totals = np.asarray(weights.sum(axis=1)).ravel()
    weights.data /= np.repeat(totals, np.diff(weights.indptr))
    has_neighbors = (np.diff(weights.indptr) > 0)[:, None]
    current = start = probabilities.astype(np.float64)
    for _ in range(_ROUNDS):
        current = np.where(has_neighbors, (1 - strength) * start + strength * (weights @ current), start)
    return np.asarray(current.astype(probabilities.dtype))


def _adjacent(mesh: Mesh, kind: ElementKind) -> tuple[IntArray, IntArray, FloatArray]:
    """Pairs of adjacent elements (first, second), and their weights.

    Vertices are adjacent along an edge, edges within a face, faces across an edge of exactly two faces.
    """
    mesh = in_range(mesh)
    proper, topology = mesh.proper_faces, mesh.topology
    if kind == "v":
        first, second = topology.edges.T
        return first, second, np.ones(len(first))
    if kind == "e":
        sides = topology.face_edges
        return sides.ravel(), np.roll(sides, -1, axis=1).ravel(), np.ones(sides.size)
    side, other = topology.paired_sides()
    first, second = proper[side // 3], proper[other // 3]
    normals = unit(face_vectors(mesh.vertices, mesh.faces))
    # The absolute value, since neighbors may have opposite winding.
    bend = 1 - np.abs(np.einsum("ij,ij->i", normals[first], normals[second]))
    tail, head = topology.edges[topology.face_edges.ravel()[side]].T
    lengths = norms(mesh.vertices[head] - mesh.vertices[tail])
    scale = lengths.mean() if lengths.size and lengths.mean() > 0 else 1.0
    return first, second, lengths / scale * np.exp(-bend / _SHARPNESS) + 1e-9
