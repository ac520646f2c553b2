"""Simplification: a surface stays a surface, whatever the numbering; labels survive the way down, values the way up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meshes
from hodgeformer.base.containers import ElementKind
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.geometry import edge_centers, face_centers, face_vectors, norms
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.resized import Simplified
from hodgeformer.mesh.simplify import simplify, triangulations
from hodgeformer.mesh.subdivision import refine
from hodgeformer.mesh.topology import MeshComplex, edges_by_first_appearance
from soups import renumbered, soups

KINDS: tuple[ElementKind, ...] = ("v", "e", "f")


def centers(mesh: Mesh, kind: ElementKind) -> np.ndarray:
    if kind == "v":
        return mesh.vertices
    if kind == "f":
        return face_centers(mesh.vertices, mesh.faces)
    topology = MeshComplex.from_faces(mesh.faces, mesh.n_vertices)
    return edge_centers(mesh.vertices, topology.edges[edges_by_first_appearance(topology.face_edges, topology.n.e)])


def torus(n: int = 40, *, thickness: float = 0.3) -> Mesh:
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    around, across = 2 * np.pi * i / n, 2 * np.pi * j / n + 0.1
    radius = 1 + thickness * np.cos(across)
    vertices = np.stack([radius * np.cos(around), 1.1 * radius * np.sin(around), thickness * np.sin(across)], axis=-1)
    a, b, c, d = i * n + j, (i + 1) % n * n + j, (i + 1) % n * n + (j + 1) % n, i * n + (j + 1) % n
    faces = np.concatenate([np.stack([a, b, c], axis=-1).reshape(-1, 3), np.stack([a, c, d], axis=-1).reshape(-1, 3)])
    return Mesh(vertices.reshape(-1, 3), faces, name="torus")


def two_spheres() -> Mesh:
    near, far = meshes.icosphere(3), meshes.icosphere(3)
    vertices = np.concatenate([near.vertices, far.vertices + np.array([5.0, 0.0, 0.0])])
    return Mesh(vertices, np.concatenate([near.faces, far.faces + near.n_vertices]), name="two spheres")


def assert_total(result: Simplified) -> None:
    """Every original vertex and face has a place on the smaller mesh."""
    assert result.vertex_map.shape == (result.original.n_vertices,)
    assert 0 <= result.vertex_map.min() <= result.vertex_map.max() < result.mesh.n_vertices
    for kind in KINDS:
        places = result.places(kind)
        assert 0 <= places.face.min() <= places.face.max() < result.mesh.n_faces
        np.testing.assert_allclose(places.weights.sum(axis=1), 1)
        assert places.weights.min() >= -1e-9


@settings(max_examples=150)
@given(mesh=soups(), n_faces=st.integers(1, 16), seed=st.none() | st.integers(0, 99))
def test_any_soup_is_taken(mesh: Mesh, n_faces: int, seed: int | None) -> None:
    result = simplify(mesh, n_faces, seed=seed)
    assert 1 <= result.mesh.n_faces <= mesh.n_faces
    if result.mesh is mesh:
        return
    assert_total(result)
    labels = np.arange(mesh.n_faces) % 3
    assert set(result.labels_over(labels, "f")) <= set(labels)
    np.testing.assert_allclose(result.values_back(np.ones((result.mesh.n_faces, 2)), "f"), 1)


@pytest.mark.parametrize("n_faces", [1000, 300, 60])
def test_the_target_is_met_and_the_shape_is_kept(n_faces: int) -> None:
    mesh = two_spheres()
    result = simplify(mesh, n_faces)
    assert_total(result)
    assert 0.9 * n_faces <= result.mesh.n_faces <= n_faces
    moved = result.mesh.vertices[result.vertex_map] - mesh.vertices
    assert np.linalg.norm(moved, axis=1).max() < 16 / np.sqrt(n_faces)  # about two edges
    places = result.places("v")
    corners = result.mesh.vertices[result.mesh.faces[places.face]]
    drift = np.einsum("ni,nij->nj", places.weights, corners) - mesh.vertices
    assert np.linalg.norm(drift, axis=1).max() < 20 / n_faces  # the sagitta of such a triangle
    assert result.mesh.notes[-1] == f"simplified from {mesh.n_faces} to {result.mesh.n_faces} faces"


@pytest.mark.parametrize("n_faces", [1000, 200, 40, 4])
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize(
    "mesh", [meshes.icosphere(4), torus(), torus(thickness=0.01), two_spheres()], ids=lambda mesh: mesh.name
)
def test_a_closed_manifold_stays_one(mesh: Mesh, n_faces: int, seed: int | None) -> None:
    before, after = check_mesh(mesh), check_mesh(simplify(mesh, n_faces, seed=seed).mesh)
    assert after.closed
    assert after.n_nonmanifold_edges == after.n_flipped_edges == after.n_duplicate_faces == 0
    assert after.euler_characteristic == before.euler_characteristic
    assert after.n_components == before.n_components
    if n_faces >= 40:
        assert after.n_faces <= n_faces


def test_a_border_stays_a_border() -> None:
    mesh = meshes.open_grid(30, 20)
    result = simplify(mesh, 100)
    report = check_mesh(result.mesh)
    assert report.n_faces <= 100
    assert report.euler_characteristic == 1
    assert report.n_nonmanifold_edges == 0
    assert report.area == pytest.approx(check_mesh(mesh).area, rel=0.03)
    np.testing.assert_allclose(report.size[:2], check_mesh(mesh).size[:2], rtol=0.02)


def test_single_triangles_and_seams_are_joined_first() -> None:
    sphere = meshes.icosphere(3)
    loose = Mesh(sphere.vertices[sphere.faces].reshape(-1, 3), np.arange(3 * sphere.n_faces).reshape(-1, 3))
    joined, whole = simplify(loose, 200).mesh, simplify(sphere, 200).mesh
    np.testing.assert_allclose(joined.vertices, whole.vertices, atol=1e-12)


def test_pieces_smaller_than_a_face_are_left_out_to_meet_the_number() -> None:
    sphere, crumb = meshes.icosphere(3), meshes.tetrahedron()
    n = 50
    vertices = [sphere.vertices, *(0.001 * crumb.vertices + [2.0, 0.01 * i, 0.1] for i in range(n))]
    faces = [sphere.faces, *(crumb.faces + sphere.n_vertices + 4 * i for i in range(n))]
    mesh = Mesh(np.concatenate(vertices), np.concatenate(faces))
    result = simplify(mesh, 100)
    assert 80 <= result.mesh.n_faces <= 100
    assert_total(result)
    assert check_mesh(result.mesh).closed


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_numbering_of_the_file_does_not_matter(seed: int) -> None:
    mesh = torus(16)
    other, new_vertex, _ = renumbered(mesh, seed)
    first, second = simplify(mesh, 100), simplify(other, 100)
    np.testing.assert_array_equal(first.mesh.vertices, second.mesh.vertices)
    np.testing.assert_array_equal(first.mesh.faces, second.mesh.faces)
    np.testing.assert_array_equal(first.vertex_map, second.vertex_map[new_vertex])


def test_the_same_mesh_gives_the_same_result_at_any_scale() -> None:
    mesh = meshes.icosphere(3)
    first, again = simplify(mesh, 200), simplify(mesh, 200)
    np.testing.assert_array_equal(first.mesh.vertices, again.mesh.vertices)
    values = np.arange(first.mesh.n_faces, dtype=float)
    for scale in (2.0**-600, 2.0**20, 2.0**600):
        scaled = simplify(mesh.with_vertices(mesh.vertices * scale), 200)
        np.testing.assert_array_equal(scaled.vertex_map, first.vertex_map)
        np.testing.assert_allclose(scaled.mesh.vertices, first.mesh.vertices * scale, rtol=1e-12)
        np.testing.assert_allclose(scaled.values_back(values, "f"), first.values_back(values, "f"))


def test_a_seed_draws_another_triangulation_of_the_same_surface() -> None:
    mesh = meshes.icosphere(4)
    plain, first, again, second = (simplify(mesh, 400, seed=seed).mesh for seed in (None, 1, 1, 2))
    np.testing.assert_array_equal(first.vertices, again.vertices)
    for other in (plain, second):
        assert not np.array_equal(first.faces, other.faces)
        assert check_mesh(first).area == pytest.approx(check_mesh(other).area, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_pieces_come_back_exactly(kind: ElementKind) -> None:
    mesh = two_spheres()
    labels = (centers(mesh, kind)[:, 0] > 2.5).astype(int) * 7 + 1
    result = simplify(mesh, 200)
    small = result.labels_over(labels, kind)
    np.testing.assert_array_equal(small, (centers(result.mesh, kind)[:, 0] > 2.5).astype(int) * 7 + 1)
    np.testing.assert_allclose(result.values_back(small, kind), labels)
    shares = result.values_over(np.eye(9)[labels], kind)
    np.testing.assert_array_equal(shares.astype(np.float32), np.eye(9)[small])


@pytest.mark.parametrize("kind", KINDS)
def test_a_border_within_one_piece_comes_back_where_it_was(kind: ElementKind) -> None:
    mesh = meshes.icosphere(5)
    labels = (centers(mesh, kind) @ [0.2, -0.3, 1.0] > 0.1).astype(int)
    result = simplify(mesh, 500)
    back = result.values_back(np.eye(2)[result.labels_over(labels, kind)], kind).argmax(axis=1)
    assert (back == labels).mean() > 0.97
    back = result.values_back(result.values_over(np.eye(2)[labels], kind), kind).argmax(axis=1)
    assert (back == labels).mean() > 0.985


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_linear_on_a_plane_comes_back_as_it_is(kind: ElementKind) -> None:
    """Away from the border, where the mean around a vertex is not at the vertex."""
    grid = meshes.open_grid(24, 24)
    flat = grid.with_vertices(grid.vertices * [1.0, 1.0, 0.0])
    result = simplify(flat, 300)
    slope = np.array([[0.3, -1.0], [0.7, 0.2], [0.0, 0.0]])
    up = result.values_back(centers(result.mesh, kind) @ slope, kind)
    inner = (np.abs(centers(flat, kind)[:, :2] - 12) < 8).all(axis=1)
    difference = np.abs(up - centers(flat, kind) @ slope)[inner]
    assert difference.max() < (1e-9 if kind == "v" else 0.6)
    assert difference.mean() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_no_part_is_lost_but_what_is_unlabeled_may_be(kind: ElementKind) -> None:
    mesh = meshes.icosphere(4)
    labels = np.zeros(len(centers(mesh, kind)), dtype=int)
    labels[[3, 700, 1500]] = 5, 9, -1
    small = simplify(mesh, 100).labels_over(labels, kind)
    assert sorted(np.unique(small)) == [0, 5, 9]
    assert (small > 0).sum() == 2


def test_a_part_does_not_survive_at_the_cost_of_another() -> None:
    mesh = meshes.icosphere(3)
    labels = np.arange(mesh.n_faces) % 40
    small = simplify(mesh, 60).labels_over(labels, "f")
    assert len(np.unique(small)) == 40


def test_the_larger_area_wins_and_a_tie_takes_the_smaller_label() -> None:
    vertices = np.array([[0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 1, 0], [0, 2, 0], [1, 0, 0]], dtype=float)
    mesh = Mesh(vertices, np.array([[5, 1, 3], [1, 4, 3], [1, 2, 4], [0, 5, 3]]))
    onto = Simplified(mesh, Mesh(vertices[:3], np.array([[0, 1, 2]])), np.array([0, 1, 2, 0, 2, 0]), mesh.faces)
    assert onto.labels_over([8, 5, 5, 8], "f").tolist() == [5]  # tie: both cover half
    assert onto.labels_over([8, 8, 5, 8], "f").tolist() == [8]
    np.testing.assert_allclose(onto.values_over([[9.0], [0.0], [0.0], [0.0]], "f"), [[2.0]])  # 2/9 of the area


def test_a_small_enough_mesh_comes_back_itself() -> None:
    mesh = meshes.icosphere(1)
    for n_faces in (mesh.n_faces, 10 * mesh.n_faces):
        result = simplify(mesh, n_faces)
        assert result.mesh is mesh
        np.testing.assert_array_equal(result.vertex_map, np.arange(mesh.n_vertices))
        for kind in KINDS:
            values = np.arange(len(centers(mesh, kind)))
            np.testing.assert_array_equal(result.labels_over(values, kind), values)
            np.testing.assert_array_equal(result.values_back(values, kind), values)
            np.testing.assert_array_equal(result.values_over(np.eye(len(values)), kind), np.eye(len(values)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_faces", [100, 320, 1000])
def test_a_refined_mesh_is_the_same_surface_with_more_faces(kind: ElementKind, n_faces: int) -> None:
    mesh = meshes.icosphere(1)
    result = refine(mesh, n_faces)
    assert n_faces / 2 <= result.mesh.n_faces <= 2 * n_faces
    assert check_mesh(result.mesh).area == pytest.approx(check_mesh(mesh).area)
    labels = np.arange(len(centers(mesh, kind)))
    over = result.labels_over(labels, kind)
    back = result.values_back(np.eye(len(labels))[over], kind)
    np.testing.assert_allclose(back, np.eye(len(labels)))
    distance = np.linalg.norm(centers(mesh, kind)[over] - centers(result.mesh, kind), axis=1)
    assert distance.max() < 0.5  # an edge of the icosphere is about that long


def test_faces_without_pieces_take_the_nearest() -> None:
    sphere = meshes.icosphere(1)
    mesh = Mesh(sphere.vertices, np.concatenate([[[7, 7, 3]], sphere.faces]))
    result = refine(mesh, 400)
    np.testing.assert_allclose(result.values_back(centers(result.mesh, "e"), "e"), centers(sphere, "e"), atol=0.1)
    heights = centers(result.mesh, "f")[:, 2]
    np.testing.assert_allclose(result.values_back(heights, "f")[1:], centers(sphere, "f")[:, 2])
    assert result.values_back(heights, "f")[0] == pytest.approx(sphere.vertices[[7, 3], 2].mean(), abs=0.4)


def test_degenerate_faces_and_lonely_vertices_have_a_place() -> None:
    sphere = meshes.icosphere(2)
    faces = np.concatenate([[[0, 0, 1]], sphere.faces, [[3, 4, 3], [5, 5, 5]]])
    mesh = Mesh(np.concatenate([sphere.vertices, [[0.0, 0.0, 3.0]]]), faces)
    assert_total(simplify(mesh, 100))
    result = simplify(mesh, sphere.n_faces + 1)
    assert result.mesh.n_faces == sphere.n_faces
    assert_total(result)
    with pytest.raises(MeshError, match="every face repeats a vertex"):
        simplify(Mesh(sphere.vertices, np.array([[0, 0, 1], [2, 2, 2]])), 1)


@pytest.mark.parametrize("n_faces", [0, -3])
def test_no_faces_cannot_be_asked_for(n_faces: int) -> None:
    with pytest.raises(MeshError, match="at least 1"):
        simplify(meshes.icosphere(1), n_faces)


def test_values_of_another_mesh_are_refused() -> None:
    result = simplify(meshes.icosphere(2), 100)
    with pytest.raises(MeshError, match=r"one value per face \(320\), got an array of shape \(5,\)"):
        result.labels_over(np.zeros(5), "f")
    with pytest.raises(MeshError, match="one value per vertex"):
        result.values_back(np.zeros(3), "v")


@pytest.mark.parametrize("n_faces", [40, 500])
def test_a_mesh_is_triangulated_in_two_ways(n_faces: int) -> None:
    """With or without an intermediate step, each is the same surface, and its values return to the original."""
    mesh = torus()
    even, fitted = triangulations(mesh, n_faces, 4)
    for way in (even, fitted):
        assert_total(way)
        assert way.original is mesh and way.mesh.n_faces <= n_faces
        assert check_mesh(way.mesh).euler_characteristic == 0
    areas = [norms(face_vectors(way.mesh.vertices, way.mesh.faces)) for way in (even, fitted)]
    assert areas[0].std() / areas[0].mean() < areas[1].std() / areas[1].mean()
    assert len(triangulations(mesh, n_faces, 1)) == 1
