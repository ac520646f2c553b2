"""From one uncertain region of a prediction to the next, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright", reason="needs a browser driver: pip install playwright")
pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")

from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.result import Result
from viewer_parts import CLASSES, COLORS, SidedModel, make_viewer, running
from viewer_tab import Tab


class DoubtfulModel(SidedModel):
    """Sure of all faces but those around the ends of the axes: not of z, less of -z, and hardly of x."""

    DOUBTS = (((0, 0, 1), 0.7), ((0, 0, -1), 0.6), ((1, 0, 0), 0.5))

    def predict(self, mesh: Any, **_: Any) -> Result:
        sure = np.full(mesh.n_faces, 0.95)
        for end, confidence in self.DOUBTS:
            sure[near_end(mesh, end)] = confidence
        sure[np.argmin(mesh.vertices[mesh.faces].mean(axis=1)[:, 1])] = 0.55  # one face alone is nothing to visit
        probabilities = np.stack([sure, 1 - sure], axis=1).astype(np.float32)
        return Result(mesh, "segmentation", "face", probabilities, CLASSES, COLORS)


def near_end(mesh: Mesh, end: tuple[int, ...]) -> np.ndarray:
    centers = mesh.vertices[mesh.faces].mean(axis=1)
    return centers @ np.array(end) > 0.9 * np.linalg.norm(centers, axis=1)


def test_the_camera_goes_to_the_least_certain_regions(browser: Any, ball: Path, tmp_path: Path) -> None:
    mesh = load_mesh(ball)
    with running(make_viewer(tmp_path, DoubtfulModel())) as port:
        tab = Tab(browser, f"http://127.0.0.1:{port}/")
        page, button = tab.page, tab.page.locator("#visit-uncertain")
        tab.open(ball)
        assert button.is_hidden()
        page.keyboard.press("n")
        page.wait_for_selector("text=Predict the faces of the mesh first.")
        page.select_option("#up", "y")
        tab.predict()
        ends = [end for end, _ in reversed(DoubtfulModel.DOUBTS)]
        for number, end in enumerate(ends):
            assert button.inner_text() == f"Least certain region ({len(ends) - number})"
            if number:
                page.keyboard.press("n")
            else:
                button.click()
            page.wait_for_timeout(300)
            tab.shot(f"24-uncertain-{number}")
            assert near_end(mesh, end)[int(page.get_attribute("#inspector h3", "data-face"))]
            assert near_end(mesh, end)[tab.face_at(*tab.center)]  # it is what the camera looks at
        page.keyboard.press("n")
        page.wait_for_selector("text=No uncertain region is left.")

        page.keyboard.press("n")  # from the beginning: x, which lies at the center
        for key in ("b", "2"):
            page.keyboard.press(key)
        page.mouse.click(*tab.center)
        tab.predict()
        page.keyboard.press("n")
        page.wait_for_timeout(300)
        assert near_end(mesh, ends[1])[tab.face_at(*tab.center)]  # what was painted on is reviewed
        tab.close()
