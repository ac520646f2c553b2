"""Pictures: the right color at the right place, from every side, for every kind of mesh."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hodgeformer.base.errors import ConfigError, MeshError, OutputError
from hodgeformer.base.palette import UNLABELED_COLOR, class_colors, hex_color
from hodgeformer.draw.camera import View, rotation, upright
from hodgeformer.draw.colormap import LOOK, colormap_table, field_colors, field_limits, label_colors
from hodgeformer.draw.lettering import ColorBar, Legend
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.mesh.mesh import Mesh
from look import assert_lit, round_ball
from meshes import all_kinds, icosphere, open_grid

RED, BLUE = (200, 30, 30), (30, 60, 200)
FRONT, RIGHT, BACK, LEFT, TOP, BOTTOM = View(0), View(90), View(180), View(270), View(0, 89.9), View(0, -89.9)


def dominant(pixels: np.ndarray) -> str:
    """The more frequent of red and blue among the pixels that are not background."""
    drawn = pixels.reshape(-1, 3)[(pixels.reshape(-1, 3) < 250).any(axis=1)].mean(axis=0)
    return "red" if drawn[0] > drawn[2] else "blue"


def two_halves(axis: int) -> tuple[Mesh, np.ndarray]:
    """A sphere that is red where the coordinate is positive and blue elsewhere."""
    mesh = icosphere(3)
    positive = mesh.vertices[mesh.faces].mean(axis=1)[:, axis] > 0
    return mesh, np.where(positive[:, None], RED, BLUE)


@pytest.mark.parametrize(
    ("view", "axis", "expected"),
    [
        (FRONT, 2, "red"),
        (BACK, 2, "blue"),
        (RIGHT, 0, "red"),
        (LEFT, 0, "blue"),
        (TOP, 1, "red"),
        (BOTTOM, 1, "blue"),
    ],
)
def test_each_view_shows_its_side(view: View, axis: int, expected: str) -> None:
    mesh, colors = two_halves(axis)
    assert dominant(render(mesh, face_colors=colors, views=[view], width=128)) == expected


def test_right_is_right_and_up_is_up() -> None:
    for axis, part in ((0, np.s_[:, 64:]), (1, np.s_[:48])):
        mesh, colors = two_halves(axis)
        assert dominant(render(mesh, face_colors=colors, views=[FRONT], width=128)[part]) == "red"


@pytest.mark.parametrize("up", ["x", "y", "z", "-x", "-y", "-z"])
def test_up_axis_points_up_and_views_are_rotations(up: str) -> None:
    mesh, colors = two_halves("xyz".index(up[-1]))
    top = render(mesh, face_colors=colors, views=[FRONT], up=up, width=128)[:48]
    assert (dominant(top) == "red") == (len(up) == 1)
    for view in (FRONT, LEFT, TOP, BOTTOM, View(35, 22)):
        turn = rotation(view, upright(mesh, up))
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(turn) == pytest.approx(1)


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_any_mesh_is_drawn_inside_the_frame(mesh: Mesh) -> None:
    picture = render(mesh, width=400, edges=0.3)
    assert picture.shape[1:] == (400, 3)
    assert (picture < 250).any()
    border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (border == 255).all()


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1.7e308])
def test_extreme_sizes_are_drawn_like_others(size: float) -> None:
    grid = open_grid(4, 5)
    unit = grid.with_vertices(grid.vertices / np.abs(grid.vertices).max())
    large = render(unit.with_vertices(size * unit.vertices), width=256)
    assert abs(large.astype(int) - render(unit, width=256)).mean() < 2


def test_a_point_is_an_empty_picture() -> None:
    """All vertices at one position, a tiny surface after rounding: blurring it must not exhaust memory."""
    ball = icosphere(1)
    picture = render(ball.with_vertices(0 * ball.vertices + [0.1, 0.7, 0.3]), width=256)
    assert picture.shape[0] < 256 and picture.shape[1] == 256


def test_winding_does_not_darken() -> None:
    mesh = icosphere(2)
    half_turned = np.where(np.arange(mesh.n_faces)[:, None] % 2 == 0, mesh.faces, mesh.faces[:, ::-1])
    there = render(mesh, width=200, views=2).astype(int)
    back = render(Mesh(mesh.vertices, half_turned), width=200, views=2).astype(int)
    assert np.abs(there - back).mean() < 1


def test_nearer_faces_hide_farther_ones() -> None:
    near, far = open_grid(), open_grid()
    vertices = np.concatenate([near.vertices + np.array([0, 0, 3]), far.vertices])
    mesh = Mesh(vertices, np.concatenate([far.faces + near.n_vertices, near.faces]))
    colors = np.repeat([BLUE, RED], near.n_faces, axis=0)
    picture = render(mesh, face_colors=colors, views=[FRONT], width=160)
    assert dominant(picture[40:-40, 40:-40]) == "red"


def test_vertex_labels_keep_their_colors_apart() -> None:
    mesh = icosphere(3)
    colors = np.where(mesh.vertices[:, :1] > 0, RED, BLUE)

    def mixed(blend: bool) -> int:
        picture = render(mesh, vertex_colors=colors, blend=blend, views=[FRONT], width=128).astype(int)
        return int((np.abs(picture[..., 0] - picture[..., 2])[30:-30, 30:-30] < 60).sum())

    assert mixed(blend=False) < 0.5 * mixed(blend=True)


def test_legend_colors_are_exact_and_many_classes_wrap() -> None:
    colors = class_colors(30)
    names = [f"a class with number {i}" for i in range(30)]
    picture = render(icosphere(1), key=Legend(tuple(zip(names, colors, strict=True))), title="thirty " * 40, width=600)
    present = {tuple(map(int, color)) for color in np.unique(picture.reshape(-1, 3), axis=0)}
    assert set(colors) <= present
    assert picture.shape[1] == 600


def test_color_bar_has_both_ends() -> None:
    bar = ColorBar((-1.0, 1.0), "diverging", "height")
    picture = render(icosphere(1), key=bar, width=400).reshape(-1, 3).tolist()
    table = colormap_table("diverging").tolist()
    assert table[0] in picture
    assert table[-1] in picture


def test_fields_become_colors() -> None:
    values = np.array([-2.0, 0.0, 1.0, np.nan])
    assert field_limits(values) == (-2.0, 1.0)
    assert field_limits(values, "diverging") == (-2.0, 2.0)
    assert field_limits([np.nan]) == (0.0, 1.0)
    low, high = field_limits([3.0, 3.0])
    assert low == 3.0 < high
    colors = field_colors(values)
    table = colormap_table()
    assert colors[0].tolist() == table[0].tolist()
    assert colors[2].tolist() == table[-1].tolist()
    assert len({tuple(color) for color in colors.tolist()}) == 4
    lightness = table @ [0.21, 0.72, 0.07]
    assert (np.diff(lightness) > -0.5).all()


def test_light_is_the_shared_one() -> None:
    ball = round_ball()
    picture = render(ball, face_colors=np.tile((120, 90, 60), (ball.n_faces, 1)), views=[FRONT], width=256)
    rows, _ = np.nonzero((picture < 250).all(axis=2))
    assert_lit(picture, (120, 90, 60), (128, len(picture) / 2), np.ptp(rows) / 2, distance=4.5)


def test_unlabeled_is_gray() -> None:
    painted = label_colors(np.array([1, -1]), class_colors(2))
    assert painted[0].tolist() == list(class_colors(2)[1])
    assert len(set(painted[1].tolist())) == 1
    assert LOOK["unlabeled"] == hex_color(UNLABELED_COLOR)  # what the scripts take for it


def test_png_reads_back(tmp_path: Path) -> None:
    picture = stacked([render(icosphere(1), width=256), render(icosphere(1), width=300)])
    save_png(picture, tmp_path / "a.png")
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), picture)
    with pytest.raises(OutputError, match="cannot be written"):
        save_png(picture, tmp_path / "no" / "a.png")


def test_wrong_use_is_explained() -> None:
    mesh = icosphere(0)
    with pytest.raises(ConfigError, match="for 0 views"):
        render(mesh, views=[])
    with pytest.raises(ConfigError, match="at least 64 for each view"):
        render(mesh, width=200)
    with pytest.raises(MeshError, match="must have shape"):
        render(mesh, face_colors=np.zeros((3, 3), dtype=int))
    with pytest.raises(MeshError, match="not both"):
        render(mesh, face_colors=np.zeros((20, 3)), vertex_colors=np.zeros((12, 3)))
