"""The viewer in a browser, as a hand uses it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from clock import PATIENCE

PICTURES = Path(__file__).resolve().parents[1] / "artifacts" / "viewer"
CHROMIUM_OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


class Tab:
    """A page of the viewer and all it complained about."""

    def __init__(self, browser: Any, address: str, **look: Any) -> None:
        look = {"viewport": {"width": 940, "height": 560}, "color_scheme": "light", **look}
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.context = browser.new_context(**look)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * PATIENCE)
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]")

    def _heard(self, message: Any) -> None:
        if "GPU stall due to ReadPixels" not in message.text:  # a remark of the software renderer on screenshots
            self.complaints.append(message.text)

    def drop(self, *paths: Path) -> None:
        """Drop files onto the page as a hand with a mouse does."""
        data = self.page.evaluate_handle("() => new DataTransfer()")
        for path in paths:
            self.page.evaluate(
                """([data, name, bytes]) => data.items.add(new File([new Uint8Array(bytes)], name))""",
                [data, path.name, list(path.read_bytes())],
            )
        for kind in ("dragover", "drop"):
            self.page.dispatch_event("#stage", kind, {"dataTransfer": data})

    def open(self, path: Path) -> None:
        self.drop(path)
        self.page.wait_for_function("name => document.title.startsWith(name)", arg=path.stem)
        self.page.wait_for_selector("#busy", state="hidden")

    def predict(self) -> None:
        self.page.click("#predict")
        self.page.wait_for_selector("[data-layer=prediction]")
        self.page.wait_for_selector("#busy", state="hidden")

    def layer(self, key: str) -> None:
        self.page.click(f'[data-layer="{key}"]')

    def shot(self, name: str | None = None) -> np.ndarray:
        """The pixels of the window."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture = self.page.screenshot(path=None if name is None else PICTURES / f"{name}.png")
        return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)

    def view(self, name: str | None = None) -> np.ndarray:
        """The pixels of the mesh and what is around it, right of the tools."""
        box = self.page.locator("#stage > canvas").bounding_box()
        left, top, right = (round(box[key]) for key in ("x", "y", "width"))
        return self.shot(name)[top + 60 :, left + 70 : left + right]

    def color_at(self, x: float, y: float) -> tuple[int, ...]:
        self.page.mouse.move(5, 5)
        return tuple(self.shot()[round(y), round(x)].tolist())

    def face_at(self, x: float, y: float) -> int:
        """The number of the face that is seen there."""
        self.page.keyboard.press("v")
        self.page.mouse.click(x, y)
        return int(self.page.get_attribute("#inspector h3", "data-face"))

    @property
    def center(self) -> tuple[float, float]:
        box = self.page.locator("#stage > canvas").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def close(self) -> None:
        self.context.close()
        assert self.complaints == [], self.complaints
