"""Up is found from the parts of a figure and from how a shape stands, whichever axis of the file is up."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import meshes
from hodgeformer.data.augment import random_rotation, rotation_about
from hodgeformer.data.figures import PARTS, figure
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import UP_AXES
from hodgeformer.mesh.up import part_centers, up_from_parts, up_from_shape, usual_heights

Y = np.array([0.0, 1.0, 0.0])
AXES = [np.array(axis, dtype=float) for axis in UP_AXES.values()]


def turn_to(up: FloatArray) -> FloatArray:
    """A rotation that turns y to `up`."""
    axis = np.cross(Y, up)
    if not axis.any():
        return np.eye(3) if up[1] > 0 else np.diag([1.0, -1.0, -1.0])
    return rotation_about(axis / np.linalg.norm(axis), float(np.arccos(Y @ up)))


@cache
def figures() -> tuple[tuple[Mesh, IntArray], ...]:
    return tuple(figure(np.random.default_rng(i), n_faces=400) for i in range(6))


def parts(turns: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    found = [
        part_centers(mesh.with_vertices(mesh.vertices @ turn.T), labels, len(PARTS))
        for (mesh, labels), turn in zip(figures(), turns, strict=True)
    ]
    return np.stack([centers for centers, _ in found]), np.stack([shares for _, shares in found])


def test_a_few_figures_that_lie_or_stand_on_their_heads_follow_the_others() -> None:
    axes = [Y, Y, AXES[2], Y, AXES[3], Y]
    centers, shares = parts([turn_to(up) for up in axes])
    heights = usual_heights(centers, shares, np.tile(Y, (6, 1)))
    assert heights[PARTS.index("head")] == heights.max()
    assert heights[PARTS.index("foot")] == heights.min()
    for at, share, up in zip(centers, shares, axes, strict=True):
        np.testing.assert_allclose(up_from_parts(at, share, heights, otherwise=np.zeros(3)), up, atol=1e-12)


def test_up_turns_with_the_figure() -> None:
    heights = usual_heights(*parts([np.eye(3)] * 6), np.tile(Y, (6, 1)))
    turns = [random_rotation(np.random.default_rng(i)) for i in range(6)]
    for at, share, turn in zip(*parts(turns), turns, strict=True):
        up = up_from_parts(at, share, heights, otherwise=np.zeros(3))
        assert up @ turn @ Y > np.cos(np.radians(45))


def test_without_parts_that_tell_it_stays_as_it_was() -> None:
    centers, shares = np.zeros((3, 3)), np.array([0.2, 0.8, 0.0])
    for heights in (np.zeros(3), np.array([1.0, -1.0, 0.0])):
        assert up_from_parts(centers, shares, heights, otherwise=AXES[1]) is AXES[1]
    centers, shares = part_centers(meshes.icosphere(1), np.full(80, -1), 3)
    assert up_from_parts(centers, shares, np.arange(3.0), otherwise=AXES[1]) is AXES[1]


@pytest.mark.parametrize("up", AXES[:3], ids=["y", "z", "x"])
def test_what_stands_on_one_axis_only_shows_it(up: FloatArray) -> None:
    """A pyramid falls over on any side but its base."""
    vertices = np.array([[-1.0, 0.0, -1.0], [1.0, 0.0, -1.0], [1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], [0.1, 2.5, 0.2]])
    faces = np.array([[0, 1, 2], [0, 2, 3], [1, 0, 4], [2, 1, 4], [3, 2, 4], [0, 3, 4]])
    np.testing.assert_allclose(up_from_shape(Mesh(vertices @ turn_to(up).T, faces)), up)


def test_a_shape_without_area_or_base_is_left_as_it_is() -> None:
    flat = Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]]))
    np.testing.assert_array_equal(up_from_shape(flat), Y)
    np.testing.assert_array_equal(up_from_shape(meshes.single_triangle()), Y)
