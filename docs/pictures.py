"""The pictures of the documentation, drawn by the project itself: `make pictures`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import hodgeformer as hf
from hodgeformer.data.figures import PARTS, figure
from hodgeformer.draw.lettering import Legend
from hodgeformer.draw.render import render
from hodgeformer.palette import class_colors

IMAGES = Path(__file__).parent / "images"
SEEDS = (5, 11, 2)
_COLORS = 256  # of the palette that keeps the files small


def save(picture: np.ndarray, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    small = Image.fromarray(picture).quantize(_COLORS, dither=Image.Dither.NONE)
    small.save(IMAGES / name, format="PNG", optimize=True)


def teaser() -> None:
    """Figures nobody has seen as they come, and in the colors of the bundled model."""
    predictor, panels = hf.Predictor.load("human"), []
    for seed in SEEDS:
        mesh, _ = figure(np.random.default_rng(seed), n_faces=1500, name="figure")
        result = predictor.predict(mesh)
        plain = render(mesh, views=["front"], width=240, up="y", edges=0.35)
        colored = result.render(views=["front"], width=240, up="y", title="", key=None)
        panels += [plain, colored]
    tallest = max(len(panel) for panel in panels)
    padded = [np.pad(p, ((tallest - len(p), 0), (0, 0), (0, 0)), constant_values=255) for p in panels]
    save(np.concatenate(padded, axis=1), "teaser.png")


def labels() -> None:
    """A mesh of the synthetic data set with its labels, from two sides."""
    mesh, parts = figure(np.random.default_rng(5), n_faces=1500, name="labels of a figure, one per face")
    colors = np.array(class_colors(len(PARTS)))
    save(
        render(
            mesh,
            face_colors=colors[parts],
            views=["front", "left"],
            width=520,
            up="y",
            edges=0.35,
            key=Legend.of(PARTS, class_colors(len(PARTS))),
        ),
        "labels.png",
    )


def viewer() -> None:
    """The viewer with a prediction, in a real browser without a window."""
    from playwright.sync_api import sync_playwright

    mesh, _ = figure(np.random.default_rng(5), n_faces=1500, name="figure")
    with tempfile.TemporaryDirectory() as folder:
        hf.save_mesh(mesh, Path(folder) / "figure.ply")
        command = [
            sys.executable,
            "-u",
            "-m",
            "hodgeformer",
            "view",
            "human",
            "figure.ply",
            "--no-browser",
            "--up",
            "y",
        ]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
            with sync_playwright() as browsers:
                browser = browsers.chromium.launch(
                    executable_path="/usr/bin/chromium",
                    args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
                )
                page = browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
                page.set_default_timeout(240_000)
                page.goto(address)
                page.wait_for_selector("body[data-ready]")
                page.wait_for_selector("#busy", state="hidden")
                if not page.query_selector("[data-layer=prediction]"):
                    page.click("#predict")
                page.wait_for_selector("[data-layer=prediction]")
                page.wait_for_selector("#busy", state="hidden")
                page.wait_for_timeout(1500)
                picture = page.screenshot()
                browser.close()
            server.terminate()
    save(np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")), "viewer.png")


if __name__ == "__main__":
    teaser()
    labels()
    viewer()
