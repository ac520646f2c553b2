from __future__ import annotations

import numpy as np
import pytest

from hodgeformer.data.augment import add_noise, bend, grow, slide_along_edges, swell
from hodgeformer.mesh.mesh import Mesh
from meshes import all_kinds, icosphere


def lengths(vertices: np.ndarray, mesh: Mesh) -> np.ndarray:
    sides = vertices[np.roll(mesh.faces, -1, axis=1)] - vertices[mesh.faces]
    return np.linalg.norm(sides, axis=-1)


def cross_of_tubes() -> Mesh:
    """Four limbs that meet in the origin: a sphere drawn out along x and y."""
    ball = icosphere(3)
    stretch = 1 + 4 * np.abs(ball.vertices[:, :2]).max(axis=1, keepdims=True) ** 8
    return ball.with_vertices(ball.vertices * stretch)


@pytest.mark.parametrize("back", [False, True])
def test_sliding_stays_on_edges_within_its_share(octahedron: Mesh, back: bool) -> None:
    moved = slide_along_edges(octahedron.vertices, octahedron.faces, 0.1, np.random.default_rng(1), back=back)
    # Towards a neighbor is inward on a convex surface.
    assert (np.linalg.norm(moved, axis=1) > 1).any() == back
    steps = moved - octahedron.vertices
    # All edges of the octahedron have length sqrt(2).
    lengths = np.linalg.norm(steps, axis=1)
    assert 0 < lengths.max() <= 0.1 * np.sqrt(2)
    neighbors = octahedron.vertices[None] - octahedron.vertices[:, None]
    joined = np.abs(np.linalg.norm(neighbors, axis=-1) - np.sqrt(2)) < 1e-9
    along = np.linalg.norm(np.cross(steps[:, None], neighbors), axis=-1) < 1e-12
    assert (along & joined).any(axis=1).all()


def test_isolated_vertices_do_not_slide(strip: Mesh) -> None:
    vertices = np.concatenate([strip.vertices, [[9.0, 9.0, 9.0]]])
    moved = slide_along_edges(vertices, strip.faces, 0.1, np.random.default_rng(0))
    assert moved[-1].tolist() == [9, 9, 9]


@pytest.mark.parametrize("seed", range(5))
def test_a_bent_body_keeps_most_of_its_edge_lengths(seed: int) -> None:
    body = cross_of_tubes()
    bent = bend(body.vertices, body.faces, 60, 1, np.random.default_rng(seed))
    ratios = lengths(bent, body) / lengths(body.vertices, body)
    moved = np.linalg.norm(bent - body.vertices, axis=1)
    assert (np.abs(ratios - 1) < 1e-9).mean() > 0.4, "all but the belt moves rigidly"
    assert (moved < 1e-12).mean() > 0.3, "the rest of the body stays"
    assert moved.max() > 0.01


def test_it_is_limbs_that_turn() -> None:
    body = cross_of_tubes()
    heights = []
    for seed in range(40):
        bent = bend(body.vertices, body.faces, 90, 1, np.random.default_rng(seed))
        moved = np.linalg.norm(bent - body.vertices, axis=1)
        heights.append(np.linalg.norm(body.vertices[moved.argmax()]))
    on_limbs = np.linalg.norm(body.vertices, axis=1) > 2.5
    assert on_limbs.mean() < 0.25
    assert (np.array(heights) > 2.5).mean() > 0.6, "mostly it is the end of a limb that moves farthest"


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_any_mesh_can_be_bent(mesh: Mesh) -> None:
    with_stray = np.concatenate([mesh.vertices, [[5.0, 5.0, 5.0]]])
    for seed in range(8):
        rng = np.random.default_rng(seed)
        assert np.isfinite(bend(with_stray, mesh.faces, 90, 5, rng)).all()


def test_a_point_cloud_without_extent_stays_finite() -> None:
    vertices, faces = np.zeros((3, 3)), np.array([[0, 1, 2]])
    rng = np.random.default_rng(0)
    with np.errstate(all="raise"):
        assert np.isfinite(swell(bend(vertices, faces, 90, 3, rng), faces, 0.05, rng)).all()


def test_noise_is_counted_in_edges() -> None:
    ball = icosphere(3)
    noisy = add_noise(ball.vertices, ball.faces, 0.1, np.random.default_rng(0)) - ball.vertices
    assert noisy.std() == pytest.approx(0.1 * lengths(ball.vertices, ball).mean(), rel=0.05)


def test_swelling_moves_along_the_normals_by_little() -> None:
    ball = icosphere(3)
    moved = swell(ball.vertices, ball.faces, 0.02, np.random.default_rng(0)) - ball.vertices
    size = np.linalg.norm(np.ptp(ball.vertices, axis=0))
    along = np.einsum("ij,ij->i", moved, ball.vertices / np.linalg.norm(ball.vertices, axis=1, keepdims=True))
    assert 0 < np.abs(moved).max() < 0.1 * size
    assert np.abs(along).sum() > 0.95 * np.linalg.norm(moved, axis=1).sum()


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_swelling_leaves_every_surface_finite(mesh: Mesh) -> None:
    assert np.isfinite(swell(mesh.vertices, mesh.faces, 0.05, np.random.default_rng(0))).all()


def test_a_part_grows_and_the_rest_stays() -> None:
    body = cross_of_tubes()
    factors = []
    for seed in range(20):
        grown = grow(body.vertices, body.faces, 0.5, 1, np.random.default_rng(seed))
        factors.append(lengths(grown, body) / lengths(body.vertices, body))
    assert all((factor.round(6) == 1).mean() > 0.2 for factor in factors)  # a part, not the whole
    assert np.exp(0.3) < max(factor.max() for factor in factors) < 1.3 * np.exp(0.5)


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_growing_leaves_every_surface_finite(mesh: Mesh) -> None:
    assert np.isfinite(grow(mesh.vertices, mesh.faces, 0.5, 3, np.random.default_rng(0))).all()
