"""A folder in the viewer as a person goes through it: a real browser, a real server, a real training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright", reason="needs a browser driver: pip install playwright")
pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")

from hodgeformer.data.folder import open_folder
from hodgeformer.mesh.elements import element_areas
from hodgeformer.mesh.io import load_mesh, save_mesh
from meshes import icosphere
from tiny_models import PARTS
from viewer_tab import Tab

N = 5


@pytest.fixture
def tab(browser: Any, folder: Path, model: Path) -> Iterator[Tab]:
    from hodgeformer.web.viewer.app import make_viewer
    from viewer_parts import running

    scans = folder / "scans"
    scans.mkdir()
    for i in range(N):
        save_mesh(icosphere(2).with_vertices(icosphere(2).vertices * (1, 1 + i / 7, 1.5)), scans / f"egg_{i}.ply")
    (scans / "egg_9.ply").write_text("nonsense")
    viewer = make_viewer(model=str(model), mesh=scans, out=folder / "out", faces="original", up="auto")
    with running(viewer) as port:
        opened = Tab(browser, f"http://127.0.0.1:{port}/")
        yield opened
        opened.close()


def shown(tab: Tab, name: str) -> None:
    """A mesh of the series is open and predicted."""
    tab.page.wait_for_function("name => document.title.startsWith(name)", arg=name)
    tab.page.wait_for_selector("[data-layer=prediction]")
    tab.page.wait_for_selector("#busy", state="hidden")


def class_names(tab: Tab) -> list[str]:
    return tab.page.locator("#legend input.name").evaluate_all("rows => rows.map(row => row.value)")


def share(tab: Tab, label: int) -> str:
    return tab.page.locator(f"#legend [data-label='{label}'] .share").inner_text()


@pytest.mark.slow
def test_a_folder_from_the_first_correction_to_a_new_model(tab: Tab, folder: Path) -> None:
    page, names = tab.page, ["skull", *PARTS[1:]]
    shown(tab, "egg_0")
    page.locator("#legend [data-label='0'] .name").fill("skull")
    page.keyboard.press("Enter")
    page.keyboard.press("f")
    page.click("#legend [data-label='0'] .share")
    page.mouse.click(*tab.center)
    painted = share(tab, 0)
    tab.shot("11-series")
    page.keyboard.press(".")
    shown(tab, "egg_1")
    assert page.locator("#corrected").inner_text() == f"1 of {N + 1} corrected, 0 reviewed"
    assert class_names(tab) == names  # the prediction brought none of its own
    page.click("#learn")
    page.click("#start-learning")
    page.wait_for_selector("text=There is too little to learn from: 1 of at least 3")
    tab.complaints.clear()  # the browser notes that the server refused
    tab.shot("12-too-little")
    page.keyboard.press("Escape")
    page.keyboard.press(",")
    shown(tab, "egg_0")
    assert share(tab, 0) == painted  # what was kept is not predicted over

    for i in (1, 2, 3):
        page.keyboard.press(".")
        shown(tab, f"egg_{i}")
        page.keyboard.press("k")
        page.wait_for_selector(f"text={i + 1} of {N + 1} corrected")
    assert page.locator("#marks [data-state=corrected]").count() == 1
    assert page.locator("#marks [data-state=reviewed]").count() == 3
    assert page.locator("#member option").nth(3).inner_text() == "● egg_3 (test) · reviewed"
    data = open_folder(folder / "out" / "scans")
    assert {name: len(part) for name, part in data.splits.items()} == {"train": 3, "test": 1}
    assert data.classes == tuple(names)

    page.click("#learn")
    page.fill("#minutes", "0.1")
    page.click("#start-learning")
    page.wait_for_selector("#learning:not([hidden])")
    tab.shot("13-learning")
    page.wait_for_selector(".toast.error, .toast:has-text('Learned from 3 meshes')")
    tab.shot("14-learned")
    assert page.input_value("#model") == "scans-1"
    assert (folder / "out" / "runs" / "scans-1" / "report.html").is_file()
    page.keyboard.press(".")
    shown(tab, "egg_4")
    assert class_names(tab) == names

    before = tab.view()
    page.select_option("#up", "x")
    page.wait_for_timeout(500)
    assert (tab.view() != before).mean() > 0.01
    page.select_option("#faces", "original")
    page.select_option("#faces", "500")
    page.wait_for_selector("#busy", state="hidden")
    tab.shot("15-settings")
    page.keyboard.press(".")
    page.wait_for_selector(".toast.error:has-text('egg_9.ply')")
    tab.complaints.clear()
    page.keyboard.press("k")  # the mesh that is still shown
    page.wait_for_selector(f"text={N} of {N + 1} corrected")
    assert page.locator("#member option").nth(4).inner_text() == "● egg_4 · reviewed"
    page.keyboard.press(",")
    shown(tab, "egg_4")
    labels = np.loadtxt(folder / "out" / "scans" / "labels" / "egg_0.txt", dtype=int)
    egg = load_mesh(folder / "scans" / "egg_0.ply")
    areas = element_areas(egg, "f")
    assert f"{100 * areas[labels == 0].sum() / areas.sum():.0f} %" == painted
