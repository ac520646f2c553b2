"""What the page shows is what it saves: layers, strokes, and answers that come late, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright", reason="needs a browser driver: pip install playwright")
pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")

from clock import PATIENCE
from hodgeformer.base.errors import MeshError
from hodgeformer.base.palette import class_colors
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.web.viewer.app import Viewer, make_viewer
from hodgeformer.web.viewer.models import ModelList, OfferedModel
from hodgeformer.web.viewer.outbox import Outbox
from meshes import icosphere
from tiny_models import PARTS, write_tiny
from viewer_parts import COLORS, SidedModel, running
from viewer_tab import Tab

CLASS = len(PARTS) - 1


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    opened = Tab(browser, address)
    # Notices come and go, and lie over the mesh.
    opened.page.evaluate("() => (document.querySelector('#toasts').style.visibility = 'hidden')")
    yield opened
    opened.close()


def brush(tab: Tab) -> None:
    x, y = tab.center
    tab.page.mouse.move(x - 30, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 30, y, steps=4)
    tab.page.mouse.up()


def fill(tab: Tab) -> None:
    tab.page.mouse.click(*tab.center)


def hold(tab: Tab, requests: str) -> list[Any]:
    """Requests to hold back until they are let go, as they come."""
    held: list[Any] = []

    def keep(route: Any) -> None:
        held.append(route)

    tab.page.route(requests, keep)
    return held


def still(tab: Tab, name: str | None = None) -> np.ndarray:
    """The picture without the ring of the brush."""
    tab.page.mouse.move(5, 5)
    return tab.view(name)


def chosen_layers(tab: Tab) -> list[str]:
    return tab.page.locator("#layers [aria-checked=true]").evaluate_all("all => all.map(one => one.dataset.layer)")


def show_layer(tab: Tab, key: str) -> None:
    tab.layer(key)
    tab.page.wait_for_selector("#scale:not([hidden])")
    assert chosen_layers(tab) == [key]


def test_painting_on_another_layer_shows_the_labels(tab: Tab, ball: Path) -> None:
    page = tab.page
    tab.open(ball)
    page.click("#flat")
    tab.predict()
    plain = still(tab)
    page.mouse.click(*tab.center)  # what a layer of a clicked place is about
    unmarked = (still(tab) == plain).all(axis=2)
    strokes = (("confidence", "brush", brush), ("field:spread", "fill", fill), ("field:diagonal-star", "brush", brush))
    for layer, tool, stroke in strokes:
        page.click(f"#tools [data-tool={tool}]")
        page.click(f"#legend [data-label='{CLASS}'] .share")
        before = still(tab)
        show_layer(tab, layer)
        assert (still(tab) != before).any(axis=2).mean() > 0.1

        stroke(tab)
        painted = still(tab, f"16-{layer.replace(':', '-')}-{tool}")
        assert chosen_layers(tab) == ["labels"]
        assert page.is_hidden("#scale")
        assert page.locator("#legend input.name").count() == len(PARTS)
        assert tab.color_at(*tab.center) == class_colors(len(PARTS))[CLASS]
        # Beside what was painted, every pixel is what it was while the labels were shown.
        changed = (painted != before).any(axis=2) & unmarked
        assert 0 < changed.mean() < 0.1 if tool == "brush" else changed.any()
        page.click("[data-layer=prediction]")
        page.click("[data-layer=labels]")
        np.testing.assert_array_equal(still(tab), painted)

        for key, expected in (("Control+z", before), ("Control+Shift+z", painted), ("Control+z", before)):
            show_layer(tab, layer)
            page.keyboard.press(key)
            assert chosen_layers(tab) == ["labels"]
            np.testing.assert_array_equal(still(tab)[unmarked], expected[unmarked])


@pytest.mark.parametrize("fails", [False, True])
def test_a_late_answer_for_the_former_layer_changes_nothing(tab: Tab, ball: Path, fails: bool) -> None:
    page = tab.page
    tab.open(ball)
    page.click("#flat")
    page.click("#tools [data-tool=brush]")
    tab.predict()
    page.click(f"#legend [data-label='{CLASS}'] .share")
    held = hold(tab, "**/fields/diagonal-star*")
    tab.layer("field:diagonal-star")
    page.wait_for_timeout(200)
    brush(tab)
    painted = still(tab)
    assert tab.color_at(*tab.center) == class_colors(len(PARTS))[CLASS]
    with page.expect_event("requestfinished"):
        if fails:
            held[0].fulfill(status=422, json={"error": "too late"})
        else:
            held[0].continue_()
    page.wait_for_timeout(200)
    np.testing.assert_array_equal(still(tab), painted)
    assert page.is_hidden("#scale")
    assert page.locator(".toast.error").count() == 0
    tab.complaints.clear()  # the browser notes that the server refused


def test_saving_shows_what_is_saved(tab: Tab, ball: Path) -> None:
    tab.open(ball)
    tab.predict()
    show_layer(tab, "confidence")
    tab.page.keyboard.press("Control+s")
    assert chosen_layers(tab) == ["labels"]


def test_a_new_color_and_name_are_shown_everywhere(tab: Tab, ball: Path) -> None:
    page = tab.page
    tab.open(ball)
    page.click("#flat")
    tab.predict()
    page.mouse.click(*tab.center)
    label = PARTS.index(page.locator("#inspected-class").inner_text())
    page.locator(f"#legend [data-label='{label}'] input[type=color]").fill("#123456")
    page.locator(f"#legend [data-label='{label}'] .name").fill("other")
    page.keyboard.press("Enter")
    assert (still(tab).reshape(-1, 3) == (0x12, 0x34, 0x56)).all(axis=1).mean() > 0.01
    assert page.locator("#inspected-class").inner_text() == "other"
    swatch = page.locator("#inspector h3 .swatch").evaluate("it => getComputedStyle(it).backgroundColor")
    assert swatch == "rgb(18, 52, 86)"


def test_a_late_prediction_of_the_mesh_before_is_left_out(tab: Tab, ball: Path, folder: Path) -> None:
    page = tab.page
    other = folder / "other.ply"
    save_mesh(icosphere(2), other)
    tab.open(ball)
    page.click("#flat")
    held = hold(tab, "**/prediction")
    page.click("#predict")
    while not held:
        page.wait_for_timeout(50)
    tab.open(other)
    before = still(tab)
    with page.expect_event("requestfinished"):
        held[0].continue_()
    page.wait_for_timeout(300)
    np.testing.assert_array_equal(still(tab), before)
    assert page.locator("[data-layer=prediction]").count() == 0
    assert "320 faces" in page.locator("#file-name").inner_text()


@pytest.fixture
def two_models(browser: Any, tmp_path: Path) -> Iterator[tuple[Tab, threading.Event]]:
    """A viewer with a model that answers, and one that fails when it is let."""
    fail = threading.Event()

    def late(mesh: Mesh) -> None:
        fail.wait(PATIENCE)
        raise MeshError("ball: failed late")

    offered = {"sided": OfferedModel("", SidedModel()), "late": OfferedModel("", SidedModel(before=late))}  # type: ignore
    with running(Viewer(models=ModelList(offered), outbox=Outbox(tmp_path / "out"))) as port:
        opened = Tab(browser, f"http://127.0.0.1:{port}/")
        yield opened, fail
        fail.set()
        opened.close()


def test_a_replaced_prediction_that_fails_late_is_not_told(two_models: tuple[Tab, threading.Event], ball: Path) -> None:
    (tab, fail), seen = two_models, set(COLORS)
    page = tab.page
    tab.open(ball)
    page.click("#flat")
    page.select_option("#model", "sided")
    tab.predict()
    page.select_option("#model", "late")
    page.click("#predict")
    page.wait_for_selector("#busy:not([hidden])")
    # The model that has answered is asked again while the other one still works, which then fails.
    page.select_option("#model", "sided")
    page.click("#predict")
    page.wait_for_selector("#busy", state="hidden")
    fail.set()
    page.wait_for_timeout(500)
    assert page.locator(".toast.error").count() == 0
    assert seen <= set(map(tuple, np.unique(still(tab).reshape(-1, 3), axis=0).tolist()))
    # One that failed does not stand in the way of an earlier one either.
    page.select_option("#model", "late")
    page.click("#predict")
    page.wait_for_selector(".toast.error:has-text('failed late')")
    page.click(".toast .close")
    page.select_option("#model", "sided")
    page.click("#predict")
    page.wait_for_selector("#busy", state="hidden")
    page.wait_for_timeout(300)
    assert page.locator(".toast.error").count() == 0


def test_a_layer_that_the_new_model_lacks_gives_way_to_the_labels(browser: Any, model: Path, tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    save_mesh(icosphere(2), scans / "egg_0.ply")
    viewer = make_viewer(model=str(model), mesh=scans, out=tmp_path / "out", faces="original", up="auto")
    viewer.models.offered["spreads"] = OfferedModel(
        "a model without attention stars", write_tiny(tmp_path, blocks="DT")
    )
    with running(viewer) as port:
        tab = Tab(browser, f"http://127.0.0.1:{port}/")
        page = tab.page
        page.wait_for_selector('[data-layer="field:attention"]')
        page.wait_for_selector("#busy", state="hidden")
        show_layer(tab, "confidence")
        page.keyboard.press("k")
        page.wait_for_selector("text=1 of 1 corrected")
        assert chosen_layers(tab) == ["labels"]
        page.mouse.click(*tab.center)
        show_layer(tab, "field:attention")
        page.select_option("#model", "spreads")
        page.click("#predict")
        page.wait_for_selector('[data-layer="field:attention"]', state="detached")
        assert chosen_layers(tab) == ["labels"]
        assert page.locator("#legend input.name").count() == len(PARTS)
        tab.close()
