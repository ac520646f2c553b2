"""Lists, percentages and dialogs of the page, in a real browser."""

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
from hodgeformer.predict.predictor import Predictor
from hodgeformer.web.viewer.app import make_viewer
from meshes import icosphere
from viewer_parts import running
from viewer_tab import Tab


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    opened = Tab(browser, address)
    yield opened
    opened.close()


def test_meshes_are_listed_by_the_numbers_in_their_names(browser: Any, tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    for name in ("scan_12", "scan_2", "Scan_1", "arm", "scan_2b"):
        save_mesh(icosphere(0), scans / f"{name}.ply")
    viewer = make_viewer(model=None, mesh=scans, out=tmp_path / "out", faces="original", up="auto")
    with running(viewer) as port:
        tab = Tab(browser, f"http://127.0.0.1:{port}/")
        tab.page.wait_for_function("() => document.title.startsWith('arm')")
        listed = tab.page.locator("#member option").all_inner_texts()
        assert [text.split()[1] for text in listed] == ["arm", "Scan_1", "scan_2", "scan_2b", "scan_12"]
        tab.close()


def test_classes_have_the_percentages_of_the_command_line(tab: Tab, folder: Path, model: Path) -> None:
    """By area: the faces of one half of this egg are much smaller."""
    ball = icosphere(2)
    uneven = ball.with_vertices(ball.vertices * np.where(ball.vertices[:, :1] > 0, 3, 0.4))
    save_mesh(uneven, folder / "uneven.ply")
    tab.open(folder / "uneven.ply")
    tab.predict()
    result = Predictor.load(model).predict(folder / "uneven.ply", faces="original")
    by_count = result.counts / result.counts.sum()
    assert np.abs(by_count - result.shares).max() > 0.02  # otherwise this shows nothing
    for label, share in enumerate(result.shares):
        shown = tab.page.locator(f"#legend [data-label='{label}'] .share").inner_text()
        assert shown == (f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %")


def test_a_surface_without_area_counts_faces(tab: Tab, folder: Path) -> None:
    flat = Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]]), np.array([[0, 1, 2], [1, 2, 3]]))
    save_mesh(flat, folder / "flat.ply")
    tab.open(folder / "flat.ply")
    assert tab.page.locator("#legend [data-label='-1'] .share").inner_text() == "100 %"


def test_escape_closes_every_dialog(tab: Tab, ball: Path) -> None:
    page = tab.page
    tab.open(ball)
    page.keyboard.press("b")
    for name in ("help", "save", "learn"):
        page.evaluate("name => document.getElementById(`${name}-dialog`).showModal()", name)
        if name == "save":  # the button is off meanwhile, and loses the focus
            page.click("#save-files")
            page.wait_for_selector("#saved code")
        page.keyboard.press("f")
        page.keyboard.press("Escape")
        assert page.is_hidden(f"#{name}-dialog")
        assert page.get_attribute("#tools [data-tool=brush]", "aria-pressed") == "true"  # the keys were the dialog's


def test_states_of_a_series_are_kept(browser: Any, model: Path, tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    for number in (1, 2, 3, 12):
        save_mesh(icosphere(2).with_vertices(number * icosphere(2).vertices), scans / f"egg_{number}.ply")

    def viewer() -> Any:
        return running(make_viewer(model=str(model), mesh=scans, out=tmp_path / "out", faces="original", up="auto"))

    def states(tab: Tab) -> list[str]:
        listed = tab.page.locator("#member option").all_inner_texts()
        marked = tab.page.locator("#marks i").evaluate_all("all => all.map(one => one.dataset.state)")
        assert [text.split(" · ")[1] for text in listed] == marked
        return marked

    def shown(tab: Tab, name: str) -> None:
        tab.page.wait_for_function("name => document.title.startsWith(name)", arg=name)
        tab.page.wait_for_selector("[data-layer=prediction]")
        tab.page.wait_for_selector("#busy", state="hidden")

    def paint(tab: Tab) -> None:
        tab.page.keyboard.press("b")
        for key in ("1", "2"):  # whatever was there, one of them changes it
            tab.page.keyboard.press(key)
            tab.page.mouse.click(*tab.center)

    with viewer() as port:
        tab = Tab(browser, f"http://127.0.0.1:{port}/")
        shown(tab, "egg_1 ")
        assert states(tab) == ["predicted", "untouched", "untouched", "untouched"]
        tab.page.keyboard.press("b")
        tab.page.fill("#radius-number", "0.3")
        tab.page.locator("#stage > canvas").focus()
        tab.page.keyboard.press(".")
        shown(tab, "egg_2 ")
        assert float(tab.page.input_value("#radius-number")) == 0.3  # in the units of the files, for all of them
        paint(tab)
        tab.page.keyboard.press(".")
        shown(tab, "egg_3 ")
        tab.page.keyboard.press("k")
        tab.page.wait_for_selector("text=2 of 4 corrected, 1 reviewed")
        tab.shot("25-states")
        assert tab.page.evaluate("() => document.querySelector('#series').scrollWidth <= innerWidth")
        expected = ["predicted", "corrected", "reviewed", "untouched"]
        assert states(tab) == expected
        tab.page.reload()
        tab.page.wait_for_selector("body[data-ready]")
        assert states(tab) == expected
        tab.close()
    with viewer() as port:  # another sitting
        tab = Tab(browser, f"http://127.0.0.1:{port}/")
        shown(tab, "egg_1 ")
        assert states(tab) == expected
        tab.page.select_option("#member", "2")
        shown(tab, "egg_3 ")
        assert tab.page.is_disabled("#undo")  # no undo takes away what was kept
        paint(tab)
        tab.page.keyboard.press(",")
        shown(tab, "egg_2 ")
        assert states(tab) == ["predicted", "corrected", "corrected", "untouched"]  # nobody has confirmed the change
        tab.close()
