"""Counts of check_mesh, compared with known problems and with plain counting."""

from __future__ import annotations

from collections import Counter

import networkx
import numpy as np
import pytest
from hypothesis import given

import meshes
from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.mesh import Mesh
from soups import soups, usable


@given(soups())
def test_counts_equal_counting_by_hand(mesh: Mesh) -> None:
    report = check_mesh(mesh)
    faces = usable(mesh).tolist()
    walks = [(face[i], face[(i + 1) % 3]) for face in faces for i in range(3)]
    users = Counter(frozenset(walk) for walk in walks)
    assert report.n_edges == len(users)
    assert report.n_boundary_edges == sum(n == 1 for n in users.values())
    assert report.n_nonmanifold_edges == sum(n > 2 for n in users.values())
    twice = [walk for walk, n in Counter(walks).items() if n == 2 and users[frozenset(walk)] == 2]
    assert report.n_flipped_edges == len(twice)
    assert report.n_components == networkx.number_connected_components(networkx.Graph(walks))
    assert report.n_duplicate_faces == len(faces) - len({frozenset(face) for face in faces})
    assert report.n_repeating_faces == mesh.n_faces - len(faces)
    assert report.n_unreferenced_vertices == mesh.n_vertices - len(np.unique(mesh.faces))
    assert report.euler_characteristic == len({v for face in faces for v in face}) - len(users) + len(faces)
    corners = mesh.vertices[usable(mesh)]
    doubles = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert report.n_zero_area_faces == (doubles == 0).all(axis=1).sum()


@pytest.mark.parametrize(
    ("mesh", "euler", "oddities"),
    [
        (meshes.tetrahedron(), 2, []),
        (meshes.icosphere(2), 2, []),
        (meshes.open_grid(4, 5), 1, ["18 boundary edges"]),
        (meshes.moebius_strip(9), 0, ["18 boundary edges", "1 edge where the winding changes"]),
        (meshes.single_triangle(), 1, ["3 boundary edges"]),
        (meshes.two_components(), 4, ["1 unreferenced vertex", "2 components"]),
        (meshes.non_manifold_fan(3), 1, ["6 boundary edges", "1 non-manifold edge"]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_known_meshes(mesh: Mesh, euler: int, oddities: list[str]) -> None:
    report = check_mesh(mesh)
    assert report.euler_characteristic == euler
    assert report.oddities == oddities


def test_degenerate_faces_are_told_apart() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], dtype=float)
    report = check_mesh(Mesh(vertices, np.array([[0, 1, 3], [0, 1, 2], [1, 1, 3], [3, 1, 0]])))
    assert (report.n_zero_area_faces, report.n_repeating_faces, report.n_duplicate_faces) == (1, 1, 1)
    assert "1 face that repeats a vertex" in report.oddities
    assert report.area == pytest.approx(1.0)


def test_a_mesh_of_nothing_but_degenerate_faces() -> None:
    report = check_mesh(Mesh(np.ones((3, 3)), np.array([[0, 0, 1], [2, 2, 2]])))
    assert (report.n_edges, report.n_components, report.n_repeating_faces) == (0, 0, 2)
    assert "all vertices are at the same position" in report.oddities


def test_size_is_that_of_the_surface_and_far_away_is_odd() -> None:
    sphere = meshes.icosphere(1)
    vertices = np.concatenate([sphere.vertices + np.array([1e6, 0, 0]), [[0.0, 9.0, 0.0]]])
    report = check_mesh(Mesh(vertices, sphere.faces))
    np.testing.assert_allclose(report.size, np.ptp(sphere.vertices, axis=0), rtol=1e-6)
    assert "far from the origin relative to its size" in report.oddities


@pytest.mark.parametrize("scale", [1e-200, 1e-5, 1e5, 1e200])
def test_scale_changes_no_count(scale: float) -> None:
    sphere = meshes.icosphere(1)
    report = check_mesh(sphere.with_vertices(scale * sphere.vertices))
    assert report.oddities == []
    assert report.diagonal == pytest.approx(scale * check_mesh(sphere).diagonal, rel=1e-9)


def test_the_dictionary_holds_what_the_report_says() -> None:
    report = check_mesh(meshes.open_grid())
    values = report.to_dict()
    assert values["n_boundary_edges"] == report.n_boundary_edges
    assert values["oddities"] == report.oddities
    assert values["winding_consistent"] is True
    assert values["closed"] is False
