"""Triangle soups made at random: everything a real file can hold, in a handful of vertices."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.topology import repeats_a_vertex


@st.composite
def soups(draw: st.DrawFn, *, coincident: bool = True) -> Mesh:
    """Few vertices, so that boundary, non-manifold edges, duplicates, flips and isolated vertices all occur.

    With `coincident`, positions come from a coarse grid, so that vertices share places and faces have no area.
    """
    n_vertices = draw(st.integers(3, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    faces = rng.integers(0, n_vertices, (draw(st.integers(1, 16)), 3))
    if repeats_a_vertex(faces).all():
        faces[0] = (0, 1, 2)
    vertices = rng.integers(0, 3, (n_vertices, 3)).astype(float) if coincident else rng.normal(size=(n_vertices, 3))
    return Mesh(vertices, faces, name=f"soup {seed}")


def usable(mesh: Mesh) -> np.ndarray:
    """The faces that have a place in the complex."""
    return mesh.faces[~repeats_a_vertex(mesh.faces)]


def renumbered(mesh: Mesh, seed: int) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """The same surface as another file might hold it, and what became of vertices and faces.

    `new_vertex[i]` and `new_face[i]` are the numbers of old vertex and face i.
    """
    rng = np.random.default_rng(seed)
    new_vertex, new_face = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    vertices, faces = np.empty_like(mesh.vertices), np.empty_like(mesh.faces)
    vertices[new_vertex] = mesh.vertices
    turn = rng.integers(0, 3, mesh.n_faces)
    turned = mesh.faces[np.arange(mesh.n_faces)[:, None], (turn[:, None] + np.arange(3)) % 3]
    faces[new_face] = new_vertex[turned]
    return Mesh(vertices, faces, name=mesh.name), new_vertex, new_face
