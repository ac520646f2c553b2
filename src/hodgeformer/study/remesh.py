"""Changes of a mesh's surface: faces taken out, fewer and more faces. All keep the shape they leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.subdivision import Traced, rebuilt, subdivided


def without_faces(mesh: Mesh, removed: NDArray[np.bool_]) -> Traced:
    """The mesh without some faces and without the vertices that only they used; the last face is never taken."""
    if removed.all():
        removed = removed.copy()
        removed[0] = False
    kept = np.flatnonzero(~removed)
    used, faces = np.unique(mesh.faces[kept], return_inverse=True)
    return Traced(rebuilt(mesh, mesh.vertices[used], faces.reshape(-1, 3)), kept)


def remeshed(mesh: Mesh, n_faces: int) -> Mesh:
    """About n_faces faces by quadric decimation; a mesh with too few is first subdivided until it has twice as many."""
    if n_faces < 4:
        raise MeshError(f"{mesh.name}: a surface of {n_faces} faces is too coarse to remesh to; ask for at least 4")
    fine = mesh
    while fine.n_faces <= n_faces or (fine is not mesh and fine.n_faces < 2 * n_faces):
        fine = subdivided(fine).mesh
    small = simplify(fine, n_faces, seed=0).mesh  # without a seed, subdivision would only be undone
    return replace(small, notes=mesh.notes)
