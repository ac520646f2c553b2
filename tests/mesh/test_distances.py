from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra

from hodgeformer.mesh import features
from hodgeformer.mesh.features import N_DISTANCES, RADII, SPREAD, TYPICAL, EdgeGraph, distance_features
from hodgeformer.mesh.geometry import around_vertices, to_unit_sphere
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from meshes import all_kinds, icosphere, open_grid, two_components


def sides(mesh: Mesh) -> np.ndarray:
    return mesh.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)


def graph_of(mesh: Mesh) -> EdgeGraph:
    return EdgeGraph.from_edges(mesh.vertices, sides(mesh))


def features_of(mesh: Mesh) -> np.ndarray:
    return distance_features(mesh.vertices, sides(mesh), around_vertices(mesh.vertices, mesh.faces)[1])


def dense_distances(mesh: Mesh) -> np.ndarray:
    lengths = np.zeros((mesh.n_vertices, mesh.n_vertices))
    tail, head = sides(mesh).T
    lengths[tail, head] = lengths[head, tail] = np.linalg.norm(mesh.vertices[head] - mesh.vertices[tail], axis=1)
    return dijkstra(lengths)


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_distances_are_those_of_another_implementation(mesh: Mesh) -> None:
    expected = dense_distances(mesh)
    points, distances = graph_of(mesh).spread_points(0, mesh.n_vertices)
    assert np.allclose(distances, expected[points], rtol=1e-12)


def test_neither_other_points_nor_threads_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(icosphere(4))
    points, together = graph.spread_points(0, 48)
    monkeypatch.setattr(features, "_WORTH_THREADS", 0)
    monkeypatch.setattr(features, "thread_count", lambda: 48)
    again, apart = graph.spread_points(0, 48)
    assert np.array_equal(points, again) and np.array_equal(together, apart)


def test_each_point_is_the_farthest_from_those_before_it() -> None:
    mesh = icosphere(2)
    points, distances = graph_of(mesh).spread_points(5, 12)
    assert points[0] == 5
    for i in range(1, 12):
        nearest = distances[:i].min(axis=0)
        assert nearest[points[i]] == nearest.max()


def test_every_component_gets_points_before_any_gets_many() -> None:
    mesh = two_components()
    points, distances = graph_of(mesh).spread_points(0, 2)
    assert np.isinf(distances[0, points[1]])
    assert np.isfinite(features_of(mesh)).all()


def test_features_by_the_formula() -> None:
    grid = open_grid(4, 5)
    features = features_of(grid)
    assert features.shape == (grid.n_vertices, N_DISTANCES)
    corners = grid.vertices[grid.faces]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    weights = np.bincount(grid.faces.ravel(), weights=np.repeat(areas / 3, 3)) / areas.sum()
    # Fewer vertices than points: every vertex is a point and represents its own area.
    d = dense_distances(grid) / np.sqrt(areas.sum())
    expected = [weights @ d, d.max(axis=0), *(weights @ np.exp(-((d / r) ** 2)) for r in RADII)]
    assert np.allclose(features * SPREAD + TYPICAL, np.stack(expected, axis=1))


def split_faces(vertices: np.ndarray, faces: np.ndarray, chosen: np.ndarray) -> Mesh:
    """Chosen faces cut in three about their centers."""
    a, b, c = faces[chosen].T
    center = len(vertices) + np.arange(len(a))
    new = np.concatenate([np.stack(corners, axis=1) for corners in ((a, b, center), (b, c, center), (c, a, center))])
    centers = vertices[faces[chosen]].mean(axis=1)
    return Mesh(np.concatenate([vertices, centers]), np.concatenate([faces[~chosen], new]), "finer")


def test_it_hardly_matters_how_finely_a_part_is_meshed() -> None:
    grid = open_grid(14, 14)
    middle = np.median(grid.vertices[:, 0])
    finer = split_faces(grid.vertices, grid.faces, grid.vertices[grid.faces].mean(axis=1)[:, 0] < middle)
    before, after = features_of(grid), features_of(finer)[: grid.n_vertices]
    means = [features[:, 0] * SPREAD[0] + TYPICAL[0] for features in (before, after)]
    assert np.abs(means[1] / means[0] - 1).max() < 0.05


def test_size_and_rotation_do_not_matter() -> None:
    ball = icosphere(2)
    vertices = to_unit_sphere(ball.vertices * [3.0, 1.1, 1.7] + 0.1 * np.sin(5 * ball.vertices), ball.faces)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    assert np.allclose(features_of(ball.with_vertices(vertices)), features_of(ball.with_vertices(7 * vertices @ turn)))


def test_a_stray_vertex_is_no_part_of_the_surface() -> None:
    ball = icosphere(1)
    vertices = np.concatenate([ball.vertices, [[9.0, 0.0, 0.0]]])
    features = features_of(Mesh(vertices, ball.faces, "stray"))
    assert np.array_equal(features[:-1], features_of(ball))
    assert np.allclose(features[-1] * SPREAD + TYPICAL, 0)


def test_renumbering_the_file_changes_no_bit() -> None:
    rng = np.random.default_rng(1)
    ball = icosphere(2)
    mesh = ball.with_vertices(ball.vertices * [2.0, 1.0, 0.7] + 0.05 * rng.standard_normal(ball.vertices.shape))
    config = PrepareConfig(features=("coords", "distances"))
    numbers = rng.permutation(mesh.n_vertices)
    vertices = np.empty_like(mesh.vertices)
    vertices[numbers] = mesh.vertices
    renumbered = Mesh(vertices, numbers[mesh.faces][rng.permutation(mesh.n_faces)], "renumbered")
    for kind in "vef":
        assert np.array_equal(prepare(mesh, config).x_in[kind], prepare(renumbered, config).x_in[kind])
    assert prepare(mesh, config).x_in.v.shape[1] == 3 + N_DISTANCES == config.widths.v
