"""Changes of a mesh's surface: faces taken out, edges split, fewer and more faces. All keep the shape they leave."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshError
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.topology import MeshComplex, repeats_a_vertex

_CORNERS = np.arange(3)


@dataclass(frozen=True, eq=False)
class Traced:
    """A changed mesh, and for each of its faces the original face it is, or is a piece of."""

    mesh: Mesh
    origin: IntArray


def rebuilt(mesh: Mesh, vertices: NDArray[np.float64], faces: IntArray) -> Mesh:
    """Another surface under the same name; what belonged to the old faces and vertices is left behind."""
    return replace(mesh, vertices=vertices, faces=faces, polygons=None, attributes={})


def without_faces(mesh: Mesh, removed: NDArray[np.bool_]) -> Traced:
    """The mesh without some faces and without the vertices that only they used; the last face is never taken."""
    if removed.all():
        removed = removed.copy()
        removed[0] = False
    kept = np.flatnonzero(~removed)
    used, faces = np.unique(mesh.faces[kept], return_inverse=True)
    return Traced(rebuilt(mesh, mesh.vertices[used], faces.reshape(-1, 3)), kept)


def subdivided(mesh: Mesh, chosen: NDArray[np.bool_] | None = None) -> Traced:
    """Split every side of the chosen faces (default: all) in its middle; the neighbors are cut to fit.

    A face with three split sides becomes four, with two three, with one two, so no crack opens.
    """
    proper = ~repeats_a_vertex(mesh.faces)
    origin = np.flatnonzero(proper)
    topology = MeshComplex.from_faces(mesh.faces[origin], mesh.n_vertices)
    chosen = np.ones(mesh.n_faces, dtype=bool) if chosen is None else chosen
    split = np.zeros(topology.n.e, dtype=bool)
    split[topology.face_edges[chosen[origin]]] = True
    middle = np.full(topology.n.e, -1)
    middle[split] = mesh.n_vertices + np.arange(int(split.sum()))
    ends = topology.edges[split]
    vertices = np.concatenate([mesh.vertices, (mesh.vertices[ends[:, 0]] + mesh.vertices[ends[:, 1]]) / 2])
    pieces, owners = _pieces(topology.faces, middle[topology.face_edges])
    return Traced(rebuilt(mesh, vertices, np.concatenate(pieces)), origin[np.concatenate(owners)])


def _pieces(faces: IntArray, middles: IntArray) -> tuple[list[IntArray], list[IntArray]]:
    """The triangles that faces fall into when some of their sides have a vertex in the middle (-1: none)."""
    count = (middles >= 0).sum(axis=1)
    numbers = np.arange(len(faces))
    whole = count == 0
    pieces, owners = [faces[whole]], [numbers[whole]]
    for n_split in (1, 2, 3):
        rows = np.flatnonzero(count == n_split)
        # Turn the face so that its split sides come first: (0, 1), then (1, 2).
        is_split = middles[rows] >= 0
        start = is_split.argmax(axis=1) if n_split == 1 else ((~is_split).argmax(axis=1) + 1) % 3
        turn = (start[:, None] + _CORNERS) % 3
        a, b, c = np.take_along_axis(faces[rows], turn, axis=1).T
        ab, bc, ca = np.take_along_axis(middles[rows], turn, axis=1).T
        parts = {
            1: [(a, ab, c), (ab, b, c)],
            2: [(ab, b, bc), (a, ab, bc), (a, bc, c)],
            3: [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)],
        }[n_split]
        for part in parts:
            pieces.append(np.stack(part, axis=1))
            owners.append(rows)
    return pieces, owners


def remeshed(mesh: Mesh, n_faces: int) -> Mesh:
    """About n_faces faces by quadric decimation; a mesh with too few is first subdivided until it has twice as many."""
    if n_faces < 4:
        raise MeshError(f"{mesh.name}: a surface of {n_faces} faces is too coarse to remesh to; ask for at least 4")
    fine = mesh
    while fine.n_faces <= n_faces or (fine is not mesh and fine.n_faces < 2 * n_faces):
        fine = subdivided(fine).mesh
    small = simplify(fine, n_faces).mesh
    return replace(small, notes=mesh.notes)
