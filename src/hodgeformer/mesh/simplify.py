"""Simplify a mesh: collapse edges until few enough faces are left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.collapse import Surface
from hodgeformer.mesh.elements import selected
from hodgeformer.mesh.geometry import nearest_rows
from hodgeformer.mesh.io import MeshLike, as_mesh
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.order import canonical_faces, canonical_order
from hodgeformer.mesh.resized import Simplified, at_size_one, box, columns_over
from hodgeformer.mesh.subdivision import undo_subdivision
from hodgeformer.mesh.topology import corner_fans, inverse_permutation, is_used, repeats_a_vertex

EVENNESS = (1e-2, 1e-4)
"""Triangles of similar size, or larger ones where the surface is flat. Training meshes are in between; the mean of the
answers for both is best."""
_FIRST_STEP = 16  # times the target number of faces: the first of two steps, shared by all triangulations


def triangulations(mesh: Mesh, n_faces: int, n: int) -> tuple[Simplified, ...]:
    """The mesh simplified in up to n different ways, from even triangles to those that follow the shape."""
    coarse = simplify(mesh, _FIRST_STEP * n_faces)
    ways = tuple(simplify(coarse.mesh, n_faces, evenness=evenness) for evenness in EVENNESS[:n])
    if coarse.mesh is mesh:
        return ways
    return tuple(Simplified(mesh, way.mesh, way.vertex_map[coarse.vertex_map], coarse.whole) for way in ways)


def simplify(mesh: MeshLike, n_faces: int, *, seed: int | None = None, evenness: float = EVENNESS[0]) -> Simplified:
    """Collapse edges, those with the smallest error first, until at most `n_faces` faces are left.

    A mesh that has no more than that is returned unchanged. A closed manifold remains one, even if more faces are left
    than requested; to reach the number, only pieces smaller than a face of the result are removed. The result does not
    depend on the numbering of vertices and faces, nor on whether the mesh was subdivided. Each `seed` gives another
    triangulation of the same surface; `evenness` weighs triangles of even size against a close fit.
    """
    mesh = as_mesh(mesh)
    if n_faces < 1:
        raise MeshError(f"{mesh.name}: cannot simplify to {n_faces} faces; set at least 1")
    if n_faces >= mesh.n_faces:
        return Simplified(mesh, mesh, np.arange(mesh.n_vertices), mesh.faces)
    low, scale = box(mesh)
    positions = at_size_one(mesh.vertices, low, scale)
    proper = mesh.proper_faces
    used, dense = np.unique(mesh.faces[proper], return_inverse=True)
    order = canonical_order(positions[used], dense.reshape(-1, 3))
    points, faces, into = (
        positions[used][order],
        inverse_permutation(order)[dense.reshape(-1, 3)],
        np.arange(len(order)),
    )
    quarter_of = np.arange(len(faces))
    while seed is None and len(faces) > n_faces and (undone := undo_subdivision(points, faces)) is not None:
        faces, into, quarter_of = undone.faces, undone.into[into], undone.quarter_of[quarter_of]
    whole = mesh.faces.copy()
    whole[proper] = used[order][faces[quarter_of]]
    points, faces, into = _apart(points, canonical_faces(faces)[0], into)
    surface, joined = _joined_surface(points, faces, evenness)
    surface.reduce(n_faces, seed)
    kept, small_faces = np.unique(surface.faces[surface.alive], return_inverse=True)
    number = np.full(len(points), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    note = f"simplified from {mesh.n_faces} to {surface.n_faces} faces"
    small = mesh.with_surface(surface.points[kept] * scale + low, small_faces.reshape(-1, 3), note)
    vertex_map = np.full(mesh.n_vertices, -1, dtype=np.int64)
    vertex_map[used[order]] = number[surface.merged_into()[joined[into]]]
    # Vertices of removed pieces, and those that no face uses, are mapped to the nearest.
    lost = np.flatnonzero(vertex_map < 0)
    if lost.size:
        vertex_map[lost] = nearest_rows(positions[lost], surface.points[kept])
    result = Simplified(mesh, small, vertex_map, whole)
    if not mesh.columns:
        return result
    renumbered = _renumbered(result)
    columns = columns_over(renumbered.original, renumbered.values_over)
    return replace(result, mesh=replace(small, columns=columns))


def _renumbered(changed: Simplified) -> Simplified:
    """The same from an original in canonical order, so that its numbering does not decide between equal votes."""
    mesh, proper = changed.original, changed.original.proper_faces
    used, dense = np.unique(mesh.faces[proper], return_inverse=True)
    order = used[canonical_order(at_size_one(mesh.vertices[used], *box(mesh)), dense.reshape(-1, 3))]
    number = np.full(mesh.n_vertices, -1)
    number[order] = np.arange(len(order))
    faces, face_order = canonical_faces(number[mesh.faces[proper]])
    whole = number[changed.whole[proper[face_order]]]
    turn = (whole.argmin(axis=1)[:, None] + np.arange(3)) % 3
    original = selected(mesh, order, faces, proper[face_order])
    return Simplified(original, changed.mesh, changed.vertex_map[order], np.take_along_axis(whole, turn, axis=1))


def _apart(points: FloatArray, faces: IntArray, into: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Give sheets that touch in a vertex a separate vertex each: a collapse there would join them."""
    fans = corner_fans(faces).ravel()
    if fans.max() + 1 == is_used(faces, len(points)).sum():
        return points, faces, into
    _, corner, split = np.unique(faces.ravel() * faces.size + fans, return_index=True, return_inverse=True)
    owner = faces.ravel()[corner]
    return points[owner], split.reshape(-1, 3), np.searchsorted(owner, into)


def _joined_surface(points: FloatArray, faces: IntArray, evenness: float) -> tuple[Surface, IntArray]:
    """The surface, and for each vertex the one that it was joined with.

    Border vertices at the same position are joined: in some files a surface is cut along the seams of its texture, or
    into single triangles.
    """
    surface, joined = Surface.from_mesh(points, faces, evenness), np.arange(len(points))
    rim = np.flatnonzero(surface.rim)
    _, first, place = np.unique(points[rim], axis=0, return_index=True, return_inverse=True)
    joined[rim] = rim[first[place.ravel()]]
    whole = ~repeats_a_vertex(joined[faces])
    if len(first) == len(rim) or not whole.any():
        return surface, np.arange(len(points))
    return Surface.from_mesh(points, joined[faces[whole]], evenness), joined
