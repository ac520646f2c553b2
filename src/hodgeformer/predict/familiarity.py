"""Is this mesh like those the model was trained on?"""

from __future__ import annotations

import numpy as np

from hodgeformer.checkpoint import DataStatistics
from hodgeformer.data.convert import file_edges
from hodgeformer.mesh.geometry import norms, to_unit_sphere
from hodgeformer.mesh.mesh import Mesh

_FACES_FACTOR = 3.0
_LENGTH_FACTOR = 2.0
_SIZE_FACTOR = 1000.0  # meshes are scaled to one size, so only an absurd one is worth a word


def far_from_training(mesh: Mesh, statistics: DataStatistics | None) -> tuple[str, ...]:
    """What sets the mesh apart from the training meshes, one sentence each; the mesh as the model gets it."""
    if statistics is None:
        return ()
    found = []
    low, _, high = statistics.n["f"]
    if mesh.n_faces > _FACES_FACTOR * high:
        found.append(
            f"{mesh.n_faces:,} faces, the training meshes had {low:,.0f} to {high:,.0f}; "
            f"simplifying to {high:.0f} (max_faces) may help"
        )
    elif mesh.n_faces < low / _FACES_FACTOR:
        found.append(f"{mesh.n_faces:,} faces, the training meshes had {low:,.0f} to {high:,.0f}")
    tail, head = file_edges(mesh).T
    vertices = to_unit_sphere(mesh.vertices, mesh.faces)
    median = float(np.median(norms(vertices[head] - vertices[tail])))
    q5, *_, q95 = statistics.edge_length
    if not q5 / _LENGTH_FACTOR <= median <= q95 * _LENGTH_FACTOR:
        found.append(
            f"edges of median length {median:.3g} of the mesh's radius, those of the training meshes were mostly "
            f"{q5:.3g} to {q95:.3g}"
        )
    used = mesh.vertices[mesh.faces.ravel()]
    radius = float(norms(used - used.mean(axis=0)).max())
    smallest, _, largest = statistics.size
    if not smallest / _SIZE_FACTOR <= radius <= largest * _SIZE_FACTOR:
        found.append(
            f"a radius of {radius:.3g}, the training meshes had {smallest:.3g} to {largest:.3g}; "
            "this is harmless if only the unit differs"
        )
    return tuple(found)
