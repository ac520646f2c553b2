"""Lists of the page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs a browser driver: pip install playwright")
pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")

from hodgeformer.mesh.io import save_mesh
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
        assert [text.split()[0] for text in listed] == ["arm", "Scan_1", "scan_2", "scan_2b", "scan_12"]
        tab.close()
