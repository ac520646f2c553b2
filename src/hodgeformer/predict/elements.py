"""Values per face, vertex or edge carried to another kind of element, as means over incident elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from hodgeformer.containers import ElementKind
from hodgeformer.data.convert import element_counts, file_edges
from hodgeformer.mesh.geometry import edge_centers, face_centers
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.topology import MeshComplex, edges_by_first_appearance, repeats_a_vertex

Values = NDArray[Any]


def carry(values: Values, mesh: Mesh, *, source: ElementKind, to: ElementKind) -> Values:
    """Rows per element of kind `source` as rows per element of kind `to`, both in the file's order.

    An element without incident elements (a vertex that no face uses, a face that repeats a vertex) takes the row of the
    nearest one that has some.
    """
    if source == to:
        return values
    incidence = _incidence(mesh, source, to)
    counts = np.diff(incidence.indptr)
    carried = (incidence @ values) / np.maximum(counts, 1)[:, None]
    lonely = np.flatnonzero(counts == 0)
    if lonely.size:
        others = np.flatnonzero(counts)
        centers = _centers(mesh, to)
        nearest = cKDTree(centers[others]).query(centers[lonely])[1]
        carried[lonely] = carried[others[nearest]]
    result: Values = carried.astype(values.dtype)
    return result


def neighbors(mesh: Mesh, kind: ElementKind) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Pairs of adjacent elements (first, second), each once, and for faces the vertices (n, 2) of the shared edge.

    Faces are adjacent across an edge of exactly two faces, edges within a face, vertices along an edge.
    """
    kept, topology, number = _numbered(mesh)
    if kind == "v":
        return topology.edges[:, 0], topology.edges[:, 1], None
    if kind == "e":
        sides = number[topology.face_edges]
        return sides.ravel(), np.roll(sides, -1, axis=1).ravel(), None
    order = np.argsort(topology.face_edges.ravel(), kind="stable")
    counts = np.bincount(topology.face_edges.ravel(), minlength=topology.n.e)
    starts = (np.cumsum(counts) - counts)[counts == 2]
    return kept[order[starts] // 3], kept[order[starts + 1] // 3], topology.edges[counts == 2]


def _numbered(mesh: Mesh) -> tuple[NDArray[Any], MeshComplex, NDArray[Any]]:
    """Faces that have edges, their complex, and the file's number of each of its edges."""
    kept = np.flatnonzero(~repeats_a_vertex(mesh.faces))
    topology = MeshComplex.from_faces(mesh.faces[kept], mesh.n_vertices)
    number = np.empty(topology.n.e, dtype=np.int64)
    number[edges_by_first_appearance(topology.face_edges, topology.n.e)] = np.arange(topology.n.e)
    return kept, topology, number


def _incidence(mesh: Mesh, source: ElementKind, to: ElementKind) -> csr_array:
    kept, topology, number = _numbered(mesh)
    pairs = {
        ("f", "v"): (np.repeat(kept, 3), mesh.faces[kept].ravel()),
        ("f", "e"): (np.repeat(kept, 3), number[topology.face_edges].ravel()),
        ("v", "e"): (topology.edges.ravel(), np.repeat(number, 2)),
    }
    columns, rows = pairs[source, to] if (source, to) in pairs else pairs[to, source][::-1]
    n = element_counts(mesh)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(n[to], n[source]))


def _centers(mesh: Mesh, kind: ElementKind) -> FloatArray:
    if kind == "v":
        return mesh.vertices
    return face_centers(mesh.vertices, mesh.faces) if kind == "f" else edge_centers(mesh.vertices, file_edges(mesh))
