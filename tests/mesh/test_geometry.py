"""Areas, normals and opposite vertices, compared with identities and with other libraries."""

from __future__ import annotations

import numpy as np
import potpourri3d
import pytest
from hypothesis import given

import meshes
from hodgeformer.mesh.features import input_features
from hodgeformer.mesh.geometry import (
    edge_quads,
    face_vectors,
    norms,
    to_disk_area,
    to_unit_sphere,
    unit,
    vertex_sums,
)
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.topology import MeshComplex
from soups import soups, usable


@pytest.mark.parametrize(
    "mesh", [meshes.icosphere(2), meshes.open_grid(), meshes.two_components()], ids=lambda m: m.name
)
def test_areas_agree_with_potpourri3d(mesh: Mesh) -> None:
    double_areas = norms(face_vectors(mesh.vertices, mesh.faces))
    np.testing.assert_allclose(double_areas / 2, potpourri3d.face_areas(mesh.vertices, mesh.faces), rtol=1e-12)
    vertex_areas = vertex_sums(double_areas[:, None] / 6, mesh.faces, mesh.n_vertices)[:, 0]
    np.testing.assert_allclose(vertex_areas, potpourri3d.vertex_areas(mesh.vertices, mesh.faces), atol=1e-12)
    assert vertex_areas.sum() == pytest.approx(double_areas.sum() / 2)


@pytest.mark.parametrize("mesh", [meshes.icosphere(2), meshes.open_grid()], ids=lambda m: m.name)
def test_normals_agree_with_libigl(mesh: Mesh) -> None:
    import igl

    vectors = face_vectors(mesh.vertices, mesh.faces)
    by_igl = igl.per_face_normals(mesh.vertices, mesh.faces, np.zeros(3))
    np.testing.assert_allclose(unit(vectors), by_igl, atol=1e-12)
    of_vertices = unit(vertex_sums(vectors, mesh.faces, mesh.n_vertices))
    area_weighted = igl.per_vertex_normals(mesh.vertices, mesh.faces, igl.PER_VERTEX_NORMALS_WEIGHTING_TYPE_AREA)
    np.testing.assert_allclose(of_vertices, area_weighted, atol=1e-12)


@given(soups())
def test_unit_sphere_holds_every_used_vertex(mesh: Mesh) -> None:
    faces = usable(mesh)
    placed = to_unit_sphere(mesh.vertices, faces)
    assert np.isfinite(placed).all()
    distance = norms(placed[faces.ravel()]).max()
    assert distance == pytest.approx(1) or not placed.any()


def test_unit_sphere_forgets_place_and_scale() -> None:
    mesh = meshes.icosphere(2)
    expected = to_unit_sphere(mesh.vertices, mesh.faces)
    moved = to_unit_sphere(1e-4 * mesh.vertices + [3, -2, 10], mesh.faces)
    np.testing.assert_allclose(moved, expected, atol=1e-9)


def quad(winding: str) -> tuple[np.ndarray, MeshComplex]:
    """Two triangles that share edge (0, 1); vertex 2 above it, vertex 3 below."""
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0.3, 1, 0], [0.6, -1, 0]], dtype=float)
    faces = {
        "consistent": [[0, 1, 2], [1, 0, 3]],
        "boundary": [[0, 1, 2]],
        "flipped": [[0, 1, 2], [0, 1, 3]],
    }[winding]
    return vertices, MeshComplex.from_faces(np.array(faces), 4)


def sides_of_edge_01(vertices: np.ndarray, topology: MeshComplex) -> tuple[np.ndarray, np.ndarray]:
    areas = norms(face_vectors(vertices, topology.faces))
    points, _ = edge_quads(vertices, topology, areas)
    return points[0, 2], points[0, 3]


def test_left_is_the_face_that_walks_the_edge_forward() -> None:
    vertices, topology = quad("consistent")
    left, right = sides_of_edge_01(vertices, topology)
    np.testing.assert_array_equal(left, vertices[2])
    np.testing.assert_array_equal(right, vertices[3])


def test_the_missing_side_of_a_boundary_edge_is_the_mirror_image() -> None:
    vertices, topology = quad("boundary")
    left, right = sides_of_edge_01(vertices, topology)
    np.testing.assert_array_equal(left, vertices[2])
    np.testing.assert_allclose(right, [0.3, -1, 0], atol=1e-15)


def test_faces_wound_the_same_way_still_take_one_side_each() -> None:
    vertices, topology = quad("flipped")
    sides = np.stack(sides_of_edge_01(vertices, topology))
    np.testing.assert_array_equal(sides[np.argsort(-sides[:, 1])], vertices[[2, 3]])


def test_of_three_faces_the_two_largest_count() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 3], [0, -2, 0]], dtype=float)
    topology = MeshComplex.from_faces(np.array([[0, 1, 2], [0, 1, 3], [1, 0, 4]]), 5)
    left, right = sides_of_edge_01(vertices, topology)
    np.testing.assert_array_equal(left, vertices[3])
    np.testing.assert_array_equal(right, vertices[4])


def test_features_follow_rotation_and_translation() -> None:
    mesh = meshes.icosphere(1)
    topology = MeshComplex.from_faces(mesh.faces, mesh.n_vertices)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    rotation *= np.sign(np.linalg.det(rotation))
    before = input_features(mesh.vertices, topology)
    turned = input_features(mesh.vertices @ rotation.T, topology)
    moved = input_features(mesh.vertices + np.array([1, 2, 3]), topology)
    larger = input_features(2 * mesh.vertices, topology)
    n_points = {"v": 1, "e": 4, "f": 3}
    for kind, x in before.items():
        n = 3 * n_points[kind]
        points, normals, sizes = np.split(x, [n, n + 3], axis=1)
        rotated_points = (points.reshape(-1, 3) @ rotation.T).reshape(points.shape)
        np.testing.assert_allclose(turned[kind], np.hstack([rotated_points, normals @ rotation.T, sizes]), atol=1e-5)
        shifted = points + np.tile([1, 2, 3], n_points[kind])
        np.testing.assert_allclose(moved[kind], np.hstack([shifted, normals, sizes]), atol=1e-5)
        power = 1 if kind == "e" else 2  # lengths grow with the scale, areas with its square
        np.testing.assert_allclose(
            larger[kind], np.hstack([2 * points, normals, 2**power * sizes]), rtol=1e-4, atol=1e-5
        )


@given(soups())
def test_features_of_any_soup_are_finite(mesh: Mesh) -> None:
    topology = MeshComplex.from_faces(usable(mesh), mesh.n_vertices)
    for x in input_features(mesh.vertices, topology):
        assert np.isfinite(x).all()


def test_any_surface_is_scaled_to_the_area_of_the_disk() -> None:
    ball = meshes.icosphere(2)
    for vertices in (ball.vertices * [3.0, 1.0, 1.0], 1e-3 * ball.vertices):
        scaled = to_disk_area(vertices, ball.faces)
        assert norms(face_vectors(scaled, ball.faces)).sum() / 2 == pytest.approx(np.pi)
        np.testing.assert_allclose(scaled * np.abs(vertices).max(), vertices * np.abs(scaled).max(), rtol=1e-12)
    point = np.zeros((3, 3))
    assert np.array_equal(to_disk_area(point, np.array([[0, 1, 2]])), point)


def test_a_body_scaled_by_area_keeps_its_size_when_a_far_limb_moves() -> None:
    ball = meshes.icosphere(3)
    config = PrepareConfig(size="area", features=("areas",))
    near = ball.with_vertices(
        np.where(ball.vertices[:, :1] > 0.9, ball.vertices + np.array([0.4, 0, 0]), ball.vertices)
    )
    far = near.with_vertices(
        np.where(ball.vertices[:, :1] > 0.95, near.vertices + np.array([0, 0.2, 0]), near.vertices)
    )
    areas = [np.sort(prepare(mesh, config).x_in.v[:, 0]) for mesh in (near, far)]
    by_sphere = [np.sort(prepare(mesh, config.replace(size="sphere")).x_in.v[:, 0]) for mesh in (near, far)]
    drift, drift_by_sphere = (abs(np.median(b) / np.median(a) - 1) for a, b in (areas, by_sphere))
    assert drift < 0.3 * drift_by_sphere
