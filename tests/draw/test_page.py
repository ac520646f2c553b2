"""The page: what it embeds, and how a real browser shows it."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hodgeformer.base.errors import MeshError
from hodgeformer.base.palette import class_colors, hex_color
from hodgeformer.draw.page import FieldLayer, LabelLayer, Scene, embedded_page, labeled_scene, page
from look import assert_lit, round_ball
from meshes import all_kinds, icosphere

CLASSES = ("nose & ears", "</script><b>", "rest")
COLORS = class_colors(3)


def scene(truth: bool = True) -> Scene:
    mesh = icosphere(3, name="a <ball>")
    labels = np.digitize(mesh.vertices[mesh.faces].mean(axis=1)[:, 1], [-0.4, 0.3])
    probabilities = np.full((mesh.n_faces, 3), 0.1)
    probabilities[np.arange(mesh.n_faces), labels] = 0.8
    other = labels.copy()
    other[:100] = (other[:100] + 1) % 3
    other[100:110] = -1
    return labeled_scene(
        mesh,
        labels=labels,
        classes=CLASSES,
        colors=COLORS,
        probabilities=probabilities,
        truth=other if truth else None,
        caption="three zones",
    )


def embedded(text: str) -> list[dict[str, Any]]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert match
    data: list[dict[str, Any]] = json.loads(match[1])
    return data


def test_data_survives_the_page() -> None:
    given = scene()
    (found,) = embedded(page([given]))
    faces = np.frombuffer(base64.b64decode(found["faces"]), "<u4").reshape(-1, 3)
    np.testing.assert_array_equal(faces, given.mesh.faces)
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert list(layers) == ["prediction", "ground truth", "error", "confidence"]
    assert layers["prediction"]["classes"] == list(CLASSES)
    assert layers["prediction"]["colors"] == [hex_color(color) for color in COLORS]
    error = np.frombuffer(base64.b64decode(layers["error"]["labels"]), "<i2")
    assert (error[:100] == 1).all()
    assert (error[100:110] == -1).all()
    assert (error[110:] == 0).all()


def test_page_needs_no_network() -> None:
    text = page([scene()], title="<title>")
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:)", text)
    assert "http://" not in text
    assert "https://" not in text
    assert "<title>&lt;title&gt;</title>" in text
    assert not re.search(r"@[A-Z]+@", text)


def test_an_embedded_page_is_escaped() -> None:
    text = embedded_page([scene()])
    assert text.count("<") == 2
    assert text.startswith("<iframe srcdoc=")


def test_wrong_length_is_explained() -> None:
    mesh = icosphere(0)
    with pytest.raises(MeshError, match=r"layer 'x' must have one value for each vertex, shape \(12,\), got \(20,\)"):
        page([Scene(mesh, (FieldLayer("x", np.zeros(20), "vertex"),))])
    with pytest.raises(MeshError, match="at least one mesh"):
        page([])


class OpenPage:
    """A page in the browser, and the errors it reported."""

    def __init__(self, browser: Any, path: Path, text: str, query: str = "") -> None:
        path.write_text(text, encoding="utf-8")
        self.tab = browser.new_page(viewport={"width": 800, "height": 500}, color_scheme="light")
        self.complaints: list[str] = []
        self.tab.on("console", self._heard)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.goto(path.as_uri() + query)
        self.tab.wait_for_selector("html[data-drawn]")

    def _heard(self, message: Any) -> None:
        if "GPU stall due to ReadPixels" not in message.text:  # a remark of the software renderer
            self.complaints.append(message.text)

    def pixels(self) -> np.ndarray:
        """The part of the window right of the panel."""
        self.tab.wait_for_timeout(60)
        return np.asarray(Image.open(io.BytesIO(self.tab.screenshot())).convert("RGB")).astype(int)[:, 280:]

    def hues(self) -> set[int]:
        """Which of the three class colors, up to shading, cover a visible part of the picture."""
        pixels = self.pixels().reshape(-1, 3)
        colored = pixels[np.ptp(pixels, axis=1) > 40].astype(float)
        directions = np.array(COLORS, dtype=float)
        nearness = (
            _unit(colored - colored.min(axis=1, keepdims=True))
            @ _unit(directions - directions.min(axis=1, keepdims=True)).T
        )
        counts = np.bincount(nearness.argmax(axis=1), minlength=3)
        return {i for i in range(3) if counts[i] > 400}


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("query", ["", "?plain"], ids=["webgl", "plain canvas"])
def test_classes_are_drawn_and_switched_off(browser: Any, tmp_path: Path, query: str) -> None:
    opened = OpenPage(browser, tmp_path / "page.html", page([scene()]), query)
    assert opened.hues() == {0, 1, 2}
    opened.tab.locator(".class").nth(1).click()
    assert opened.hues() == {0, 2}
    opened.tab.locator(".class").nth(1).click()
    assert opened.hues() == {0, 1, 2}
    opened.tab.locator(".class").nth(2).dblclick()
    assert opened.hues() == {2}
    assert opened.complaints == []


@pytest.mark.parametrize("query", ["", "?plain"], ids=["webgl", "plain canvas"])
def test_light_is_that_of_the_pictures(browser: Any, tmp_path: Path, query: str) -> None:
    ball = round_ball()
    layer = LabelLayer("all", np.zeros(ball.n_faces, dtype=int), ("ball",), ((120, 90, 60),))
    pixels = OpenPage(browser, tmp_path / "page.html", page([Scene(ball, (layer,))]), query).pixels()
    rows, columns = np.nonzero((pixels[:-30] < 250).all(axis=2))
    middle = ((columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2)
    assert_lit(pixels, (120, 90, 60), middle, np.ptp(rows) / 2, distance=2.35)


def test_pointer_reads_class_and_probability(browser: Any, tmp_path: Path) -> None:
    opened = OpenPage(browser, tmp_path / "page.html", page([scene()]))
    opened.tab.mouse.move(540, 130)
    tip = opened.tab.locator("#tip")
    tip.wait_for(state="visible")
    assert "rest" in tip.inner_text()
    assert "80 %" in tip.inner_text()
    assert "face" in tip.inner_text()
    opened.tab.mouse.move(785, 30)
    tip.wait_for(state="hidden")
    assert opened.complaints == []


def test_layers_theme_and_motion_change_the_picture(browser: Any, tmp_path: Path) -> None:
    ball = icosphere(1, name="second")
    field = FieldLayer("height", ball.vertices[:, 1], "vertex", "diverging")
    classified = Scene(ball, (field,), scores=(("ball", 0.9), ("cube", 0.1)))
    opened = OpenPage(browser, tmp_path / "page.html", page([scene(), classified]))
    tab = opened.tab
    seen = [opened.pixels()]

    def changed() -> None:
        seen.append(opened.pixels())
        assert (seen[-1] != seen[-2]).mean() > 0.002

    for layer in ("ground truth", "error", "confidence"):
        tab.get_by_role("radio", name=layer).click()
        changed()
    tab.get_by_role("button", name="Edges").click()
    changed()
    tab.mouse.move(540, 250)
    tab.mouse.down()
    tab.mouse.move(640, 260)
    tab.mouse.up()
    changed()
    tab.mouse.wheel(0, 300)
    changed()
    tab.locator("#canvas").focus()
    for key in ("ArrowLeft", "Shift+ArrowUp", "-", "t", "r", "PageDown"):
        tab.keyboard.press(key)
        changed()
    assert "90 %" in tab.locator("#scores").inner_text()
    assert opened.complaints == []


def test_touch_turns_and_pinches(browser: Any, tmp_path: Path) -> None:
    opened = OpenPage(browser, tmp_path / "page.html", page([scene()]))
    before = opened.pixels()
    opened.tab.evaluate(
        """() => {
          const canvas = document.getElementById("canvas");
          canvas.setPointerCapture = () => {};
          const send = (type, pointerId, clientX, clientY) =>
            canvas.dispatchEvent(new PointerEvent(type, { pointerId, clientX, clientY, bubbles: true }));
          send("pointerdown", 1, 500, 250); send("pointerdown", 2, 560, 250);
          send("pointermove", 1, 440, 250); send("pointermove", 2, 620, 250);
          send("pointerup", 1, 440, 250); send("pointerup", 2, 620, 250);
        }"""
    )
    after = opened.pixels()
    drawn = [(picture.min(axis=2) < 200).mean() for picture in (before, after)]
    assert drawn[1] > 1.3 * drawn[0]
    assert opened.complaints == []


def test_every_kind_of_mesh_draws(browser: Any, tmp_path: Path) -> None:
    scenes = [Scene(mesh, (LabelLayer("l", np.arange(mesh.n_faces) % 3, CLASSES, COLORS),)) for mesh in all_kinds()]
    opened = OpenPage(browser, tmp_path / "page.html", page(scenes))
    for _ in scenes:
        opened.tab.locator("#next").click()
        assert (np.ptp(opened.pixels(), axis=2) > 40).any()
    assert opened.complaints == []


@pytest.mark.parametrize(
    "name", ["@DATA@", "@TITLE@", "<!--<script>", "</script><script>alert(1)</script>", "a\u2028b"]
)
def test_no_name_spoils_a_page(name: str) -> None:
    """The data is the only script of its type, ends where it should, and contains the name unchanged."""
    text = page([Scene(icosphere(0, name), caption=name)], title=name)
    found = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    assert len(found) == 1
    assert "<" not in found[0]
    assert json.loads(found[0])[0]["name"] == name
    assert "<title>" + html.escape(name) + "</title>" in text
