"""Decimation: every original face and vertex is covered, and labels survive the way down and up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meshes
from hodgeformer.errors import MeshError
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.simplify import Simplified, simplify
from soups import soups


def assert_covers(result: Simplified) -> None:
    """Maps are total, and every small face stands for at least one original."""
    assert result.face_map.shape == (result.original.n_faces,)
    assert result.vertex_map.shape == (result.original.n_vertices,)
    np.testing.assert_array_equal(np.unique(result.face_map), np.arange(result.mesh.n_faces))
    assert result.vertex_map.min() >= 0
    assert result.vertex_map.max() < result.mesh.n_vertices


@settings(max_examples=150)
@given(mesh=soups(), n_faces=st.integers(1, 16))
def test_any_soup_gives_total_maps_or_a_mesh_error(mesh: Mesh, n_faces: int) -> None:
    try:
        result = simplify(mesh, n_faces)
    except MeshError as error:
        assert "ask for more faces" in str(error)
        return
    assert_covers(result)
    assert result.mesh.n_faces <= mesh.n_faces


def two_spheres() -> Mesh:
    near, far = meshes.icosphere(3), meshes.icosphere(3)
    vertices = np.concatenate([near.vertices, far.vertices + np.array([5.0, 0.0, 0.0])])
    return Mesh(vertices, np.concatenate([near.faces, far.faces + near.n_vertices]), name="two spheres")


@pytest.mark.parametrize("n_faces", [1000, 300, 60])
def test_the_target_is_met_and_the_shape_is_kept(n_faces: int) -> None:
    mesh = two_spheres()
    result = simplify(mesh, n_faces)
    assert_covers(result)
    assert 0.9 * n_faces <= result.mesh.n_faces <= n_faces
    moved = result.mesh.vertices[result.vertex_map] - mesh.vertices
    assert np.linalg.norm(moved, axis=1).max() < 16 / np.sqrt(n_faces)  # about two edges
    drift = face_centers(result.mesh.vertices, result.mesh.faces)[result.face_map]
    drift = drift - face_centers(mesh.vertices, mesh.faces)
    assert np.linalg.norm(drift, axis=1).max() < 16 / np.sqrt(n_faces)  # about two edges
    assert result.mesh.notes[-1] == f"simplified from {mesh.n_faces} to {result.mesh.n_faces} faces"


def test_labels_of_parts_survive_down_and_up() -> None:
    mesh = two_spheres()
    face_labels = (face_centers(mesh.vertices, mesh.faces)[:, 0] > 2.5).astype(int) * 7 - 1
    vertex_labels = (mesh.vertices[:, 0] > 2.5).astype(int) * 7 - 1
    result = simplify(mesh, 200)
    small = result.carry_face_labels_down(face_labels)
    np.testing.assert_array_equal(
        small, (face_centers(result.mesh.vertices, result.mesh.faces)[:, 0] > 2.5).astype(int) * 7 - 1
    )
    np.testing.assert_array_equal(result.project_face_values_up(small), face_labels)
    small = result.carry_vertex_labels_down(vertex_labels)
    np.testing.assert_array_equal(result.project_vertex_values_up(small), vertex_labels)


def test_labels_within_one_piece_move_only_at_their_border() -> None:
    mesh = meshes.icosphere(4)
    labels = (face_centers(mesh.vertices, mesh.faces)[:, 2] > 0).astype(int)
    result = simplify(mesh, 500)
    back = result.project_face_values_up(result.carry_face_labels_down(labels))
    assert (back == labels).mean() > 0.95


def test_the_larger_area_wins_and_a_tie_takes_the_smaller_label() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [-9, 0, 0], [0, -1, 0], [1, -1, 0]], dtype=float)
    mesh = Mesh(vertices, np.array([[0, 1, 2], [0, 2, 3], [0, 4, 1], [4, 5, 1]]))
    onto = Simplified(mesh, meshes.single_triangle(), np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1, 1, 2]))
    assert onto.carry_face_labels_down([5, 8, 5, 5]).tolist() == [8]
    assert onto.carry_face_labels_down([5, 5, 8, 8]).tolist() == [5]
    assert onto.carry_vertex_labels_down([7, 3, 1, 4, 4, -1]).tolist() == [3, 4, -1]


def test_a_small_enough_mesh_comes_back_itself() -> None:
    mesh = meshes.icosphere(1)
    for n_faces in (mesh.n_faces, 10 * mesh.n_faces):
        result = simplify(mesh, n_faces)
        assert result.mesh is mesh
        np.testing.assert_array_equal(result.face_map, np.arange(mesh.n_faces))
        np.testing.assert_array_equal(result.vertex_map, np.arange(mesh.n_vertices))


def test_the_same_mesh_gives_the_same_result_at_any_scale() -> None:
    mesh = meshes.icosphere(3)
    first, again = simplify(mesh, 200), simplify(mesh, 200)
    np.testing.assert_array_equal(first.mesh.vertices, again.mesh.vertices)
    np.testing.assert_array_equal(first.face_map, again.face_map)
    for scale in (2.0**-600, 2.0**20, 2.0**600):
        scaled = simplify(mesh.with_vertices(mesh.vertices * scale), 200)
        np.testing.assert_array_equal(scaled.face_map, first.face_map)
        np.testing.assert_allclose(scaled.mesh.vertices, first.mesh.vertices * scale, rtol=1e-12)


def test_degenerate_faces_and_lonely_vertices_are_covered() -> None:
    sphere = meshes.icosphere(2)
    faces = np.concatenate([[[0, 0, 1]], sphere.faces, [[3, 4, 3], [5, 5, 5]]])
    mesh = Mesh(np.concatenate([sphere.vertices, [[0.0, 0.0, 3.0]]]), faces)
    assert_covers(simplify(mesh, 100))
    result = simplify(mesh, sphere.n_faces + 1)
    assert result.mesh.n_faces == sphere.n_faces
    assert_covers(result)


@pytest.mark.parametrize("n_faces", [0, -3])
def test_no_faces_cannot_be_asked_for(n_faces: int) -> None:
    with pytest.raises(MeshError, match="at least 1"):
        simplify(meshes.icosphere(1), n_faces)


def test_values_of_another_mesh_are_refused() -> None:
    result = simplify(meshes.icosphere(2), 100)
    with pytest.raises(MeshError, match=r"one value per face \(320\), got an array of shape \(5,\)"):
        result.carry_face_labels_down(np.zeros(5))
    with pytest.raises(MeshError, match="one value per vertex"):
        result.project_vertex_values_up(np.zeros(3))
