"""Overlapping patches of a prepared mesh that is too large for the memory, to be predicted one by one and blended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KINDS, PerElement
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.patterns import patterns_of
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh
from hodgeformer.mesh.topology import MeshComplex, incidence_lists


def patches(
    whole: PreparedMesh, config: PrepareConfig, most_faces: int
) -> Iterator[tuple[PreparedMesh, PerElement[FloatArray]]]:
    """Overlapping patches of at most about `most_faces` faces that cover a mesh, and the weights of their elements.

    Faces are ordered along a space-filling curve, so that a range of them is connected in space. Rings of faces are
    added around it until the patch is twice as large; their weight falls with the distance. `order` of a patch are
    numbers in the whole mesh, whose features, position and size it keeps.
    """
    n, faces = whole.n, whole.topology.faces
    incident = incidence_lists(faces, n.v)
    unused = np.setdiff1d(np.arange(n.v), faces)
    n_pieces = -(-2 * n.f // most_faces)
    ends = np.linspace(0, n.f, n_pieces + 1).astype(np.int64)
    for first, last in pairwise(ends):
        chosen, fading = _with_rings(first, last, faces, incident, most_faces)
        corners = faces[chosen]
        vertices = np.union1d(corners, unused if first == 0 else unused[:0])
        topology = MeshComplex.from_faces(np.searchsorted(vertices, corners), len(vertices))
        edges = np.empty(topology.n.e, dtype=np.int64)
        edges[topology.face_edges] = whole.topology.face_edges[chosen]
        order = PerElement(vertices, edges, chosen)
        rising = np.argsort(fading, kind="stable")  # the last write is the largest
        counts = PerElement(np.ones(len(vertices)), np.ones(topology.n.e), fading)
        counts.v[topology.faces[rising]] = fading[rising, None]
        counts.e[topology.face_edges[rising]] = fading[rising, None]
        positions = whole.positions[vertices]
        yield (
            PreparedMesh(
                topology=topology,
                x_in=PerElement(*(whole.x_in[kind][order[kind]] for kind in KINDS)),
                patterns=patterns_of(topology, positions, config.row_sizes(n), config.seed),
                positions=positions,
                order=order,
                face_source=np.arange(len(chosen)),
                name=whole.name,
            ),
            counts,
        )


def _with_rings(
    first: int, last: int, faces: IntArray, incident: tuple[IntArray, NDArray[Any]], most_faces: int
) -> tuple[IntArray, FloatArray]:
    """A range of faces and the rings around it, ascending; and weights: 1 in the range, 0 beyond the last ring."""
    offsets, rows = incident
    ring = np.full(len(faces), -1)
    ring[first:last] = 0
    front, n_faces, n_rings = np.arange(first, last), int(last - first), 0
    while True:
        vertices = np.unique(faces[front])
        lengths = offsets[vertices + 1] - offsets[vertices]
        starts = np.repeat(offsets[vertices] - np.cumsum(lengths) + lengths, lengths)
        around = np.unique(rows[starts + np.arange(len(starts))])
        front = around[ring[around] < 0]
        n_faces += len(front)
        if not front.size or n_faces > most_faces:
            break
        n_rings += 1
        ring[front] = n_rings
    chosen = np.flatnonzero(ring >= 0)
    return chosen, 1 - ring[chosen] / (n_rings + 1)
