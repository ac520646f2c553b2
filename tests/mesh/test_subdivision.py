"""A subdivision is recognized and undone, so that the mesh gives the same answer as before."""

from __future__ import annotations

import numpy as np
import pytest

import meshes
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import canonical_faces
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.subdivision import subdivided, undo_subdivision
from soups import renumbered


@pytest.mark.parametrize(
    "mesh", [meshes.icosphere(2), meshes.open_grid(6, 5), meshes.two_components()], ids=lambda mesh: mesh.name
)
def test_what_was_cut_in_four_is_found(mesh: Mesh) -> None:
    fine, origin = subdivided(mesh).mesh, subdivided(mesh).origin
    undone = undo_subdivision(fine.vertices, fine.faces)
    assert undone is not None
    np.testing.assert_array_equal(canonical_faces(undone.faces)[0], canonical_faces(mesh.faces)[0])
    np.testing.assert_array_equal(undone.into[: mesh.n_vertices], np.arange(mesh.n_vertices))
    assert undone.into.max() < mesh.n_vertices
    np.testing.assert_array_equal(np.sort(undone.faces[undone.quarter_of]), np.sort(mesh.faces[origin]))


def test_what_was_not_cut_in_four_stays() -> None:
    sphere = meshes.icosphere(2)  # cut by its connectivity, but not in the middle
    for mesh in (sphere, meshes.tetrahedron(), meshes.non_manifold_fan(), meshes.moebius_strip(10)):
        assert undo_subdivision(mesh.vertices, mesh.faces) is None
    fine = subdivided(sphere).mesh
    moved = fine.vertices.copy()
    moved[-1] += 1e-3
    assert undo_subdivision(moved, fine.faces) is None
    partly = subdivided(sphere, np.arange(sphere.n_faces) < 100).mesh
    assert undo_subdivision(partly.vertices, partly.faces) is None


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("n_faces", [150, 320])
def test_a_subdivided_mesh_is_simplified_like_the_mesh_itself(times: int, n_faces: int) -> None:
    mesh = renumbered(meshes.icosphere(3), 1)[0]
    fine = mesh
    for _ in range(times):
        fine = subdivided(fine).mesh
    fine = renumbered(fine, 2)[0]
    small, same = simplify(mesh, n_faces), simplify(fine, n_faces)
    np.testing.assert_array_equal(small.mesh.faces, same.mesh.faces)
    np.testing.assert_array_equal(small.mesh.vertices, same.mesh.vertices)
    rounded = simplify(fine.with_vertices(fine.vertices.astype(np.float32)), n_faces)
    np.testing.assert_allclose(rounded.mesh.vertices, small.mesh.vertices, atol=1e-5)


@pytest.mark.parametrize("n_faces", [150, 1280])
def test_quarters_of_a_face_get_the_answer_of_the_face(n_faces: int) -> None:
    mesh = meshes.icosphere(3)
    mesh = mesh.with_vertices(mesh.vertices * [1.0, 0.7, 0.4])
    traced = subdivided(subdivided(mesh).mesh)
    origin = subdivided(mesh).origin[traced.origin]
    small, same = simplify(mesh, n_faces), simplify(traced.mesh, n_faces)
    values = np.random.default_rng(0).random((small.mesh.n_faces, 3))
    back = small.values_back(values, "f")
    if small.mesh is mesh:  # the other is the same mesh in another order
        order = [np.lexsort(one.mesh.vertices[one.mesh.faces].mean(axis=1).round(9).T) for one in (small, same)]
        values = values[order[0]][np.argsort(order[1])]
    np.testing.assert_allclose(same.values_back(values, "f"), back[origin], atol=1e-12)
