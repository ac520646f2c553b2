"""Input features x_in of vertices, edges and faces."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hodgeformer.containers import PerElement
from hodgeformer.mesh.distances import N_DISTANCES, distance_features
from hodgeformer.mesh.geometry import face_centers, face_vectors, norms, opposite_vertices, unit, vertex_sums
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.topology import MeshComplex

FeatureGroup = Literal["coords", "normals", "areas", "distances"]
GROUPS: tuple[FeatureGroup, ...] = ("coords", "normals", "areas", "distances")
PAPER_GROUPS: tuple[FeatureGroup, ...] = ("coords", "normals", "areas")

_WIDTHS: dict[FeatureGroup, PerElement[int]] = {
    "coords": PerElement(3, 12, 9),
    "normals": PerElement(3, 3, 3),
    "areas": PerElement(1, 6, 1),
    "distances": PerElement(N_DISTANCES, N_DISTANCES, N_DISTANCES),
}


def feature_widths(groups: tuple[FeatureGroup, ...]) -> PerElement[int]:
    """Columns of x_in for the chosen groups."""
    return PerElement.build(lambda kind: sum(_WIDTHS[group][kind] for group in groups))


def input_features(
    vertices: FloatArray, topology: MeshComplex, groups: tuple[FeatureGroup, ...] = PAPER_GROUPS
) -> PerElement[NDArray[np.float32]]:
    """x_in, with the columns of the groups in the order coords, normals, areas, distances.

    vertex: position, unit normal, a third of its faces' area. edge: tail, head, left and right opposite vertex; mean
    of the two vertex normals; the six distances between those four points. face: its corners in winding order, unit
    normal, area. Beyond the paper: distances along the surface of a vertex, and their means over the corners of an edge
    or face.
    """
    faces, edges = topology.faces, topology.edges
    vectors = face_vectors(vertices, faces)
    double_areas = norms(vectors)
    columns: dict[FeatureGroup, PerElement[list[FloatArray]]] = {}
    if "normals" in groups:
        vertex_normals = unit(vertex_sums(vectors, faces, topology.n.v))
        edge_normals = unit(vertex_normals[edges[:, 0]] + vertex_normals[edges[:, 1]])
        columns["normals"] = PerElement([vertex_normals], [edge_normals], [unit(vectors)])
    if "coords" in groups or "areas" in groups:
        tail, head = vertices[edges[:, 0]], vertices[edges[:, 1]]
        quad = (tail, head, *opposite_vertices(vertices, topology, double_areas))
        corners = vertices[faces].reshape(-1, 9)
        columns["coords"] = PerElement([vertices], list(quad), [corners])
    if "areas" in groups:
        vertex_areas = vertex_sums(double_areas[:, None] / 6, faces, topology.n.v)
        lengths = [norms(quad[i] - quad[j])[:, None] for i in range(4) for j in range(i + 1, 4)]
        columns["areas"] = PerElement([vertex_areas], lengths, [double_areas[:, None] / 2])
    if "distances" in groups:
        within = distance_features(vertices, edges, faces)
        edge_means = (within[edges[:, 0]] + within[edges[:, 1]]) / 2
        columns["distances"] = PerElement([within], [edge_means], [face_centers(within, faces)])
    return PerElement.build(
        lambda kind: np.concatenate(
            [column for group in GROUPS if group in groups for column in columns[group][kind]],
            axis=1,
            dtype=np.float32,
        )
    )
