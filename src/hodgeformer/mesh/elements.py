"""Labels of one element kind carried to another: vertex <-> edge <-> face.

The rule is a vote. An element takes the label that most of its incident elements of the other kind carry; a tie goes to
the smaller label; unlabelled elements (-1) do not vote; an element nobody votes for is unlabelled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.containers import ELEMENT_NAMES, ElementKind, PerElement
from hodgeformer.errors import DataError
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.mesh.order import inverse
from hodgeformer.mesh.topology import MeshComplex, edges_by_first_appearance, repeats_a_vertex

UNLABELLED = -1


def convert_labels(labels: IntArray, mesh: Mesh, *, source: ElementKind, to: ElementKind) -> IntArray:
    """Labels per element of kind `source` as labels per element of kind `to`, both in the file's order."""
    n = element_counts(mesh)
    if len(labels) != n[source]:
        raise DataError(
            f"{mesh.name}: expected one label for each of {n[source]} {ELEMENT_NAMES[source]} elements, "
            f"found {len(labels)}"
        )
    if source == to:
        return labels
    voters, receivers = _incidences(mesh, source, to)
    return majority(labels[voters], receivers, n[to])


def majority(labels: IntArray, receivers: IntArray, n_receivers: int) -> IntArray:
    """For each receiver the most frequent of the labels sent to it; ties to the smaller, -1 does not vote."""
    valid = labels >= 0
    labels, receivers = labels[valid], receivers[valid]
    result = np.full(n_receivers, UNLABELLED, dtype=np.int64)
    if not labels.size:
        return result
    n_labels = int(labels.max()) + 1
    ballots, counts = np.unique(receivers * n_labels + labels, return_counts=True)
    # Written from the least to the most frequent, and among equals from the largest label to the smallest.
    order = np.lexsort((-ballots, counts))
    receiver, label = np.divmod(ballots[order], n_labels)
    result[receiver] = label
    return result


def element_counts(mesh: Mesh) -> PerElement[int]:
    """Vertices, edges and faces of the file. A face that repeats a vertex counts, but its sides are no edges."""
    return PerElement(mesh.n_vertices, _complex(mesh)[1].n.e, mesh.n_faces)


def file_edges(mesh: Mesh) -> IntArray:
    """(n_e, 2) vertices of the edges in the order a walk over the faces of the file first meets them."""
    _, topology = _complex(mesh)
    return topology.edges[edges_by_first_appearance(topology.face_edges, topology.n.e)]


def _complex(mesh: Mesh) -> tuple[NDArray[np.intp], MeshComplex]:
    kept = np.flatnonzero(~repeats_a_vertex(mesh.faces))
    if not kept.size:
        raise DataError(f"{mesh.name}: every face repeats a vertex, so there is no surface to label")
    return kept, MeshComplex.from_faces(mesh.faces[kept], mesh.n_vertices)


def _incidences(mesh: Mesh, source: ElementKind, to: ElementKind) -> tuple[IntArray, IntArray]:
    """All incident pairs as (elements of kind source, elements of kind to)."""
    kept, topology = _complex(mesh)
    edge_number = inverse(edges_by_first_appearance(topology.face_edges, topology.n.e))
    sides = {
        "v": (mesh.faces[kept], topology.edges),
        "f": (kept[:, None], None),
        "e": (edge_number[topology.face_edges], edge_number[:, None]),
    }
    use_edges = {source, to} == {"v", "e"}
    pair = [np.asarray(sides[kind][1 if use_edges else 0]) for kind in (source, to)]
    voters, receivers = np.broadcast_arrays(*pair)
    return voters.ravel(), receivers.ravel()


def mirrored_edge_order(mesh: Mesh) -> IntArray:
    """`order[i]` is the number in the file of edge i after all faces are turned over to corners (0, 2, 1)."""
    _, topology = _complex(mesh)
    edge_number = inverse(edges_by_first_appearance(topology.face_edges, topology.n.e))
    # The sides (0, 2), (2, 1), (1, 0) of a turned face are its old ones from last to first.
    return edges_by_first_appearance(edge_number[topology.face_edges][:, ::-1], topology.n.e)
