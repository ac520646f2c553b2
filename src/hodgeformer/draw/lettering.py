"""Text around a picture: title, legend of classes, color bar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.palette import RGB
from hodgeformer.draw.colormap import ColormapName, colormap_table

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

Picture = NDArray[np.uint8]
_INK: RGB = (38, 42, 50)
_FAINT: RGB = (120, 126, 136)


@dataclass(frozen=True)
class Legend:
    """Named colors, in the order given."""

    entries: tuple[tuple[str, RGB], ...]


@dataclass(frozen=True)
class ColorBar:
    """A color map with its limits and a label."""

    limits: tuple[float, float]
    colormap: ColormapName = "sequential"
    label: str = ""


def title_band(text: str, width: int, size: int) -> Picture:
    """A line of text as a white band of this width."""
    band, draw = _canvas(width, int(2.0 * size))
    draw.text((width / 2, 1.1 * size), _fitted(text, width - 2 * size, size), _INK, _font(size), anchor="mm")
    return np.asarray(band)


def key_band(key: Legend | ColorBar, width: int, size: int) -> Picture:
    """A legend or a color bar as a white band of this width."""
    return _legend_band(key, width, size) if isinstance(key, Legend) else _bar_band(key, width, size)


def _legend_band(legend: Legend, width: int, size: int) -> Picture:
    swatch, gap = size, round(0.55 * size)
    entries = [(_fitted(name, width // 2, size), color) for name, color in legend.entries]
    widths = [swatch + gap + _length(name, size) + 2 * size for name, _ in entries]
    lines = _lines(widths, width - 2 * size)
    line_height = round(1.75 * size)
    band, draw = _canvas(width, line_height * len(lines) + size)
    for row, line in enumerate(lines):
        x = (width - sum(widths[i] for i in line) + 2 * size) // 2
        y = size // 2 + row * line_height + line_height // 2
        for i in line:
            name, color = entries[i]
            draw.rounded_rectangle((x, y - swatch // 2, x + swatch, y + swatch // 2), swatch // 5, color)
            draw.text((x + swatch + gap, y), name, _INK, _font(size), anchor="lm")
            x += widths[i]
    return np.asarray(band)


def _lines(widths: list[int], most: int) -> list[list[int]]:
    lines: list[list[int]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        if lines[-1] and used + width > most:
            lines.append([])
            used = 0
        lines[-1].append(i)
        used += width
    return lines


def _bar_band(bar: ColorBar, width: int, size: int) -> Picture:
    length, thick = min(width // 3, 22 * size), max(4, round(0.8 * size))
    pixels = np.full((round(4.2 * size), width, 3), 255, dtype=np.uint8)
    left, top = (width - length) // 2, size
    pixels[top : top + thick, left : left + length] = colormap_table(bar.colormap, length)
    band, draw = _on(pixels)
    middle = top + thick / 2
    low, high = (f"{limit:.3g}" for limit in bar.limits)
    draw.text((left - 0.7 * size, middle), low, _FAINT, _font(size), anchor="rm")
    draw.text((left + length + 0.7 * size, middle), high, _FAINT, _font(size), anchor="lm")
    draw.text((width / 2, top + thick + 1.2 * size), bar.label, _INK, _font(size), anchor="mm")
    return np.asarray(band)


def _canvas(width: int, height: int) -> tuple[Any, Any]:
    return _on(np.full((height, width, 3), 255, dtype=np.uint8))


def _on(pixels: Picture) -> tuple[Any, Any]:
    from PIL import Image, ImageDraw

    image = Image.fromarray(pixels)
    return image, ImageDraw.Draw(image)


@lru_cache(maxsize=16)
def _font(size: int) -> FreeTypeFont | ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _length(text: str, size: int) -> int:
    return round(_font(size).getlength(text))


def _fitted(text: str, width: int, size: int) -> str:
    if _length(text, size) <= width:
        return text
    while text and _length(text + "...", size) > width:
        text = text[:-1]
    return text + "..."
