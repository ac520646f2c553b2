"""The tools that correct labels, in a real browser: which faces they reach, and that each can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright", reason="needs a browser driver: pip install playwright")
pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")

from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from viewer_tab import Tab

GAP = 0.1
"""Between the leaves of a folded sheet, whose leaves are 3 long."""


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    opened = Tab(browser, address)
    # Notices come and go, and lie over the mesh.
    opened.page.evaluate("() => (document.querySelector('#toasts').style.visibility = 'hidden')")
    yield opened
    opened.close()


def sheet(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of a flat grid from 0 to 1, and its faces."""
    u, v = np.meshgrid(np.linspace(0, 1, columns + 1), np.linspace(0, 1, rows + 1), indexing="ij")
    i, j = np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij")
    a = (i * (rows + 1) + j).ravel()
    b, c, d = a + rows + 1, a + rows + 2, a + 1
    return np.stack([u.ravel(), v.ravel()], axis=1), np.concatenate([np.c_[a, b, c], np.c_[a, c, d]])


def folded() -> tuple[Mesh, np.ndarray]:
    """A sheet folded around one of its middle lines, and where its vertices are while it lies flat."""
    bend = np.pi * GAP / 2
    flat, faces = sheet(122, 40)
    flat = flat * (6 + bend, 2)
    along, across = flat.T
    angle = np.clip((along - 3) / bend, 0, 1) * np.pi
    x = np.where(along < 3, along, np.where(along < 3 + bend, 3 + GAP / 2 * np.sin(angle), 6 + bend - along))
    return Mesh(np.stack([x, across, GAP / 2 * np.cos(angle)], axis=1), faces), flat


def open_mesh(tab: Tab, mesh: Mesh, path: Path) -> None:
    """The mesh as its file has it: y up, z toward the eye."""
    save_mesh(mesh, path)
    tab.open(path)
    tab.page.select_option("#up", "y")
    tab.page.wait_for_timeout(300)


def saved_labels(tab: Tab, folder: Path, name: str) -> np.ndarray:
    """The labels of all faces, by way of a file."""
    tab.page.keyboard.press("Control+s")
    tab.page.click("#save-files")
    tab.page.wait_for_selector("#saved code")
    tab.page.keyboard.press("Escape")
    return np.loadtxt(folder / "out" / f"{name}.txt", dtype=int)


def test_the_brush_has_its_radius_along_the_surface(tab: Tab, folder: Path) -> None:
    page, radius, (mesh, flat) = tab.page, 1.0, folded()
    name = "folded"
    open_mesh(tab, mesh, folder / f"{name}.ply")
    x, y = tab.center[0] + 160, tab.center[1] - 10
    face = tab.face_at(x, y)
    centers = flat[mesh.faces].mean(axis=1)
    assert 2.5 < centers[face, 0] < 3  # shortly before the fold, with the other leaf right behind
    page.keyboard.press("b")
    page.fill("#radius-number", str(radius))
    page.mouse.click(x, y)
    tab.shot(f"20-{name}")
    painted = saved_labels(tab, folder, name) == 0
    distance = np.linalg.norm(centers - centers[face], axis=1)  # on the flat sheet: what unfolding leaves as it is
    assert painted[distance < radius - 0.1].all()
    assert not painted[distance > radius + 0.1].any()
    near = np.linalg.norm(
        (mesh.vertices[mesh.faces].mean(axis=1) - mesh.vertices[mesh.faces[face]].mean(axis=0)), axis=1
    )
    assert (near[~painted] < radius - 0.1).sum() > 20  # what a ball would have reached through the gap
    page.keyboard.press("Control+z")
    assert (saved_labels(tab, folder, name) == -1).all()


def test_the_brush_leaves_a_part_alone_that_only_lies_near(tab: Tab, folder: Path) -> None:
    flat, faces = sheet(40, 40)
    front, back = (np.c_[2 * flat, np.full(len(flat), z)] for z in (0.02, -0.02))
    open_mesh(tab, Mesh(np.concatenate([front, back]), np.concatenate([faces, faces + len(flat)])), folder / "two.ply")
    tab.page.keyboard.press("b")
    tab.page.fill("#radius-number", "0.3")
    tab.page.mouse.click(*tab.center)
    painted = saved_labels(tab, folder, "two") == 0
    assert 100 < painted[: len(faces)].sum() < len(faces)
    assert not painted[len(faces) :].any()


def test_a_mesh_by_itself_gets_a_brush_of_its_size(tab: Tab, folder: Path) -> None:
    flat, faces = sheet(4, 4)
    shown = []
    for size in (1, 1000):
        open_mesh(tab, Mesh(np.c_[size * flat, 0 * flat[:, :1]], faces), folder / f"sheet-{size}.ply")
        tab.page.keyboard.press("b")
        shown.append(float(tab.page.input_value("#radius-number")))
    assert shown[1] == pytest.approx(1000 * shown[0], rel=0.01)
    tab.page.keyboard.press("]")
    assert float(tab.page.input_value("#radius-number")) == pytest.approx(1.2 * shown[1], rel=0.01)


def test_a_fill_stops_at_creases(tab: Tab, folder: Path) -> None:
    """However the faces are wound."""
    page, (flat, faces) = tab.page, sheet(6, 6)
    floor = np.c_[flat, np.zeros(len(flat))]
    ramp = np.c_[flat[:, :1], 1 + flat[:, 1:] * np.cos(np.radians(40)), flat[:, 1:] * np.sin(np.radians(40))]
    mesh = Mesh(
        np.concatenate([floor, ramp]), np.concatenate([faces, faces + len(flat)])
    )  # the same places at the edge
    turned = mesh.faces.copy()
    turned[::3] = turned[::3, ::-1]
    open_mesh(tab, Mesh(mesh.vertices, turned), folder / "ramp.ply")
    here = tab.face_at(tab.center[0], tab.center[1] + 60) < len(faces)
    page.keyboard.press("f")
    for crease, painted in ((45, 2 * len(faces)), (30, len(faces))):
        page.fill("#crease", str(crease))
        assert page.locator("#crease-text").inner_text() == f"{crease}°"
        page.mouse.click(tab.center[0], tab.center[1] + 60)
        labels = saved_labels(tab, folder, "ramp")
        assert (labels == 0).sum() == painted
        assert (labels[: len(faces)] == 0).all() == (here or crease == 45)
        page.keyboard.press("Control+z")
        assert (saved_labels(tab, folder, "ramp") == -1).all()


def draw_around(tab: Tab, *, finish: bool = True) -> None:
    """Draw a line around all of the mesh."""
    box = tab.page.locator("#stage > canvas").bounding_box()
    left, top, right, bottom = box["x"] + 80, box["y"] + 20, box["x"] + box["width"] - 5, box["y"] + box["height"] - 5
    tab.page.mouse.move(left, bottom)
    tab.page.mouse.down()
    for x, y in ((left, top), (right, top), (right, bottom)):
        tab.page.mouse.move(x, y, steps=3)
    tab.shot("21-lasso")
    if not finish:
        tab.page.keyboard.press("Escape")
    tab.page.mouse.up()


def test_the_lasso_takes_what_is_seen(tab: Tab, folder: Path) -> None:
    page, (flat, faces) = tab.page, sheet(40, 40)
    front = np.c_[flat * (1, 2), np.full(len(flat), 0.05)]
    back = np.c_[flat * (2, 2), np.full(len(flat), -0.05)]
    mesh = Mesh(np.concatenate([front, back]), np.concatenate([faces, faces + len(flat)]))
    open_mesh(tab, mesh, folder / "screen.ply")
    x, y = mesh.vertices[mesh.faces[len(faces) :]].mean(axis=1)[:, :2].T
    covered, free = (x < 0.8) & (y > 0.1) & (y < 1.9), x > 1.05
    assert covered.sum() > 500 and free.sum() > 500
    page.keyboard.press("o")
    draw_around(tab, finish=False)
    assert page.is_disabled("#undo")
    draw_around(tab)
    labels = saved_labels(tab, folder, "screen")
    front_labels, back_labels = labels[: len(faces)], labels[len(faces) :]
    assert (front_labels == 0).all() and (back_labels[free] == 0).all() and (back_labels[covered] == -1).all()
    page.keyboard.press("Control+z")
    assert (saved_labels(tab, folder, "screen") == -1).all()
    page.keyboard.press("Control+Shift+z")

    page.keyboard.press("2")
    page.click("[aria-label='Hide part 1']")  # what is behind it is seen now
    draw_around(tab)
    labels = saved_labels(tab, folder, "screen")
    assert (labels[: len(faces)] == 0).all() and (labels[len(faces) :][covered] == 1).all()


def test_what_was_painted_last_grows_and_shrinks(tab: Tab, folder: Path) -> None:
    page, (flat, faces) = tab.page, sheet(30, 30)
    open_mesh(tab, Mesh(np.c_[flat, np.zeros(len(flat))], faces), folder / "region.ply")
    beside = [set(corners) for corners in faces.tolist()]

    def labels() -> np.ndarray:
        return saved_labels(tab, folder, "region")

    page.keyboard.press("2")
    page.keyboard.press("f")
    page.mouse.click(*tab.center)
    page.keyboard.press("1")
    page.keyboard.press("b")
    page.fill("#radius-number", "0.2")
    page.mouse.click(*tab.center)
    tab.shot("22-region")
    small = labels()
    page.click("#grow")
    large = labels()
    entered = np.flatnonzero((large == 0) & (small == 1))
    ring = [
        f
        for f in np.flatnonzero(small == 1)
        if any(len(beside[f] & beside[g]) == 2 for g in np.flatnonzero(small == 0))
    ]
    assert entered.tolist() == ring
    page.keyboard.press("q")
    again = labels()
    assert (again[small == 0] == 0).all() and (again == 0).sum() < (large == 0).sum()
    for _ in range(2):
        page.keyboard.press("q")
    smaller = labels()
    assert 0 < (smaller == 0).sum() < (small == 0).sum() and set(smaller) == {0, 1}  # what left got back what it had
    for expected, presses in ((again, 2), (large, 1), (small, 1)):
        for _ in range(presses):
            page.keyboard.press("Control+z")
        np.testing.assert_array_equal(labels(), expected)
    page.keyboard.press("w")
    np.testing.assert_array_equal(labels(), large)  # the last region is that of the step that was come back to
    for _ in range(2):
        page.keyboard.press("Control+z")
    assert (labels() == 1).all()
    page.keyboard.press("Control+z")
    assert page.is_disabled("#grow")


def test_every_class_has_a_key(tab: Tab, ball: Path) -> None:
    page = tab.page
    tab.open(ball)

    def active() -> str:
        return page.locator("#legend [aria-current=true] .key").inner_text()

    # Digits that are no class together are numbers of their own, so no pause is needed.
    for keys, expected in (("1", "1"), ("2", "2"), ("12", "2"), ("7", "2"), ("0", "0")):  # two classes
        page.keyboard.type(keys)
        assert active() == expected
    for _ in range(10):
        page.click("#add-class")
    tab.shot("23-classes")
    for keys, expected in (("12", "12"), ("10", "10"), ("13", "3"), ("9", "9"), ("0", "0"), ("112", "2"), ("1", "1")):
        page.keyboard.type(keys)
        assert active() == expected
    page.wait_for_timeout(900)
    page.keyboard.press("2")  # after a pause it is a number of its own
    assert active() == "2"
    page.keyboard.type("12")
    box = page.locator("#legend [aria-current=true]").bounding_box()
    assert box["y"] + box["height"] < page.locator("#inspector").bounding_box()["y"]  # it is scrolled to
    assert page.locator("#legend [data-label='11']").get_attribute("title") == "Paint with part 12 (12)"
