"""The pictures of the documentation, drawn by the project itself: `make pictures`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import hodgeformer as hf
from hodgeformer.base.palette import class_colors
from hodgeformer.data.figures import PARTS, figure
from hodgeformer.data.folder import write_folder
from hodgeformer.data.synthetic import synthetic_figures
from hodgeformer.draw.camera import View, rotation, upright
from hodgeformer.draw.colormap import field_colors, label_colors
from hodgeformer.draw.lettering import ColorBar, Legend, key_band
from hodgeformer.draw.render import render, stacked
from hodgeformer.kernels.elimination import TIMES
from hodgeformer.lab.study.operator_report import study_operators
from hodgeformer.lab.study.star_report import log10_of, study_stars
from hodgeformer.mesh.geometry import around_vertices
from hodgeformer.predict.operators import sides_mean
from hodgeformer.training.run import train

IMAGES = Path(__file__).parent / "images"
SEEDS = (5, 11, 2)
_SHORT = ("train.epochs=12", "train.eval_every=1", "model.d_model=48", "model.n_heads=2")  # minutes
_COLORS = 256  # of the palette that keeps the files small


def save(picture: np.ndarray, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    # Without k-means, colors of few pixels become those of others.
    small = Image.fromarray(picture).quantize(_COLORS, kmeans=2, dither=Image.Dither.NONE)
    small.save(IMAGES / name, format="PNG", optimize=True)


def teaser(*pairs: str) -> None:
    """Real shapes that no model has seen, as they come and in the colors of their parts: MODEL=MESH for each."""
    panels = []
    for pair in pairs:
        model, _, mesh = pair.partition("=")
        result = hf.Predictor.load(model).predict(mesh)
        look: dict[str, Any] = {"views": [View(25.0)], "width": 210, "up": result.up}
        panels += [render(result.mesh, **look, edges=0.35), result.render(**look, title="", key=None)]
    save(np.concatenate(_level([_trimmed(panel, _inked(panel)) for panel in panels]), axis=1), "teaser.png")


def parts(name: str, *pairs: str) -> None:
    """The first meshes of test parts, predicted above and labeled below: RUN=DATA=NUMBER,NUMBER for each data set."""
    columns = []
    for pair in pairs:
        run, data, numbers = pair.split("=")
        predictor, dataset = hf.Predictor.load(run), hf.open_dataset(data)
        for number in numbers.split(","):
            mesh, truth = dataset.load(dataset.split("test")[int(number)])
            result = predictor.predict(mesh)
            look: dict[str, Any] = {"views": [View(25.0)], "width": 280, "up": result.up, "title": ""}
            colors = label_colors(result.labels, dataset.colors), label_colors(truth, dataset.colors)
            columns.append(np.concatenate([render(mesh, **look, face_colors=each) for each in colors]))
    save(np.concatenate(_level([_trimmed(column, _inked(column)) for column in columns]), axis=1), name)


def labels() -> None:
    """A mesh of the synthetic data set with its labels, from two sides."""
    mesh, parts = figure(np.random.default_rng(5), n_faces=1500, name="labels of a figure, one per face")
    colors = np.array(class_colors(len(PARTS)))
    save(
        render(
            mesh,
            face_colors=colors[parts],
            views=[View(20.0), View(110.0)],
            width=520,
            up="y",
            edges=0.35,
            key=Legend(tuple(zip(PARTS, class_colors(len(PARTS)), strict=True))),
        ),
        "labels.png",
    )


def prediction() -> None:
    """What `hodgeformer predict human` finds on a figure, from two sides, with the names of the parts."""
    mesh, _ = figure(np.random.default_rng(11), n_faces=1500, name="figure")
    views = [View(20.0), View(110.0)]
    save(hf.Predictor.load("human").predict(mesh).render(views=views, width=520, up="y"), "prediction.png")


def report() -> None:
    """The curves of a short run, as its report shows them."""
    with tempfile.TemporaryDirectory() as folder:
        write_folder(synthetic_figures(n_train=40, n_test=8, n_faces=300), Path(folder) / "figures")
        train(Path(folder) / "figures", Path(folder) / "run", overrides=_SHORT)
        with browsing() as page:
            page.goto((Path(folder) / "run" / "report.html").as_uri())
            save(_pixels(page.locator(".charts").screenshot()), "report.png")


def viewer() -> None:
    """The viewer with a prediction, and with a folder of which some meshes are corrected."""
    with tempfile.TemporaryDirectory() as folder:
        scans = Path(folder) / "scans"
        scans.mkdir()
        for number, seed in enumerate((*SEEDS, 7, 8, 9)):
            mesh, _ = figure(np.random.default_rng(seed), n_faces=1500, name="figure")
            hf.save_mesh(mesh, scans / f"figure_{number}.ply")
        with viewed(Path(folder), "scans/figure_0.ply") as page:
            shoot(page, "viewer.png")
        with viewed(Path(folder), "scans") as page:
            for number in range(1, 4):
                page.keyboard.press("k")
                page.wait_for_selector(f"text={number} of 6 corrected")
                page.keyboard.press(".")
                page.wait_for_function(f"() => document.title.startsWith('figure_{number}')")
                page.wait_for_selector("#busy", state="hidden")
            shoot(page, "series.png")


def stars() -> None:
    """The diagonal stars of the last block of the bundled `human`, on a figure: star1 above, star0 below."""
    checkpoint = hf.Predictor.load("human").checkpoint
    mesh, _ = figure(np.random.default_rng(5), n_faces=1500, name="figure")
    block = checkpoint.model.blocks.rindex("D") + 1
    found = study_stars(checkpoint, mesh, layer=block)
    look: dict[str, Any] = {"views": [View(25.0)], "width": 150, "up": "y", "blend": False}
    predicted = label_colors(found.parts["predicted"], checkpoint.colors)
    first = render(found.mesh, **look, title="predicted parts", face_colors=predicted)
    rows = []
    for star, factors in found.blocks[block].items():
        shown = sides_mean if star == "star1" else lambda values, _: values
        kind = "face_colors" if star == "star1" else "vertex_colors"
        classical = field_colors(shown(log10_of(found.textbook[star]), found.mesh))
        panels = [render(found.mesh, **look, title=f"textbook {star}", **{kind: classical})]
        for time, values in zip(found.times, factors.T, strict=True):
            painted = field_colors(shown(values, found.mesh), "diverging", (-found.bound, found.bound))
            panels.append(render(found.mesh, **look, title=f"t = {TIMES[time - 1]:.2g}", **{kind: painted}))
        rows.append([np.full_like(first, 255) if rows else first, *panels])
    inked = _inked(np.concatenate([panel for row in rows for panel in row]))
    bands = [np.concatenate([_trimmed(panel, inked, margin=8) for panel in row], axis=1) for row in rows]
    label = "log(learned star / textbook's star); the textbook's stars: dark is small, yellow large, on a log scale"
    key = ColorBar((-found.bound, found.bound), "diverging", label)
    save(stacked([*bands, key_band(key, bands[0].shape[1], 14)]), "stars.png")


def eigenfunctions(run: str, *meshes: str, head: int = 1, picks: int = 3, functions: int = 5) -> None:
    """The paper's figure S7: attention of the last H block around picked vertices, and eigenfunctions on the first."""
    predictor = hf.Predictor.load(run)
    look: dict[str, Any] = {"views": [View(25.0)], "width": 260, "up": "y"}
    attention, eigen = [], []
    for path in meshes:
        mesh = hf.load_mesh(path)
        for picked in _far_apart(mesh, picks, View(25.0)):
            found = study_operators(
                predictor.model, mesh, predictor.info.prepare, head=head, kind="v", picked=picked, n_functions=functions
            )
            # The square root shows the weak neighbors beside the strong ones.
            painted = field_colors(np.sqrt(np.nan_to_num(found.attention["L_v.star0_inv"])))
            attention.append(render(mesh, **look, title=f"vertex {picked}", vertex_colors=painted))
        if not eigen:
            for value, values in zip(found.eigen["v"].values, found.eigen["v"].functions.T[:functions], strict=False):
                # The operator is not symmetric: a complex pair has two fields, its real and its imaginary part.
                painted = field_colors(values.imag if value.imag < 0 else values.real, "diverging")
                eigen.append(render(mesh, **look, title=_complex(value), vertex_colors=painted))
    rows = [np.concatenate([_trimmed(p, _inked(p)) for p in _level(row)], axis=1) for row in (attention, eigen)]
    save(stacked(rows), "eigenfunctions.png")


def _complex(value: complex) -> str:
    """The eigenvalue, and which part of its function is shown."""
    if not value.imag:
        return f"{value.real:.2f}"
    part = "imaginary" if value.imag < 0 else "real"
    return f"{value.real:.2f} ± {abs(value.imag):.2f}i, {part} part"


def _level(panels: list[np.ndarray]) -> list[np.ndarray]:
    tallest = max(len(panel) for panel in panels)
    return [np.pad(p, ((tallest - len(p), 0), (0, 0), (0, 0)), constant_values=255) for p in panels]


def _inked(panel: np.ndarray) -> slice:
    """The columns of a panel that are not white."""
    columns = np.flatnonzero((panel < 255).any(axis=(0, 2)))
    return slice(columns[0], columns[-1] + 1)


def _trimmed(panel: np.ndarray, inked: slice, margin: int = 12) -> np.ndarray:
    """With narrow white margins at its sides, so that the shapes are large where the row is fitted to a page."""
    return np.pad(panel[:, inked], ((0, 0), (margin, margin), (0, 0)), constant_values=255)


def _far_apart(mesh: hf.Mesh, n: int, view: View) -> list[int]:
    """Of the vertices that face the view, the farthest from the center, then the farthest from those picked."""
    toward = rotation(view, upright(mesh, "y"))[2]
    facing = np.flatnonzero(around_vertices(mesh.vertices, mesh.faces)[2] @ toward > 0.5)
    picked = [int(facing[np.linalg.norm((mesh.vertices - mesh.vertices.mean(axis=0))[facing], axis=1).argmax()])]
    while len(picked) < n:
        away = np.linalg.norm(mesh.vertices[facing][:, None] - mesh.vertices[picked], axis=2).min(axis=1)
        picked.append(int(facing[away.argmax()]))
    return picked


@contextmanager
def viewed(folder: Path, opened: str) -> Iterator[Any]:
    """The viewer's page once it has predicted."""
    command = [sys.executable, "-u", "-m", "hodgeformer", "view", "human", opened, "--no-browser", "--up", "y"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
        with browsing() as page:
            page.goto(address)
            page.wait_for_selector("[data-layer=prediction]")
            page.wait_for_selector("#busy", state="hidden")
            yield page
        server.terminate()


@contextmanager
def browsing() -> Iterator[Any]:
    """An empty page of a real browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        page = browser.new_page(viewport={"width": 1000, "height": 640}, color_scheme="light")
        page.set_default_timeout(240_000)
        yield page
        browser.close()


def shoot(page: Any, name: str) -> None:
    page.wait_for_timeout(1500)
    save(_pixels(page.screenshot()), name)


def _pixels(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


if __name__ == "__main__":
    from_a_run = {"teaser": teaser, "parts": parts, "eigenfunctions": eigenfunctions}
    if sys.argv[1:]:  # those that need a trained model: pictures.py NAME ARGUMENT...
        from_a_run[sys.argv[1]](*sys.argv[2:])
        sys.exit()
    labels()
    prediction()
    stars()
    report()
    viewer()
