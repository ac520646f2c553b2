"""Class colors that stay apart for color-blind readers, for any number of classes."""

from __future__ import annotations

import colorsys

RGB = tuple[int, int, int]

# The eight colors of Okabe and Ito, with brown instead of black; gray marks unlabeled elements.
_BASE: tuple[RGB, ...] = (
    (0, 114, 178),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (213, 94, 0),
    (240, 228, 66),
    (117, 76, 36),
)
UNLABELED_COLOR: RGB = (150, 150, 150)
_GOLDEN = 0.6180339887


def class_colors(n: int) -> tuple[RGB, ...]:
    """The first n colors of one endless list: eight that color-blind readers can distinguish, then hues a golden angle
    apart that alternate in lightness."""
    return tuple(_BASE[i] if i < len(_BASE) else _further(i - len(_BASE)) for i in range(n))


def parse_color(text: str) -> RGB:
    """ "#rrggbb" as three numbers from 0 to 255; ValueError for anything else."""
    digits = text.removeprefix("#")
    if len(digits) != 6:
        raise ValueError(f"expected a color such as '#0072b2', got {text!r}")
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue


def hex_color(color: RGB) -> str:
    return "#" + bytes(color).hex()


def _further(i: int) -> RGB:
    hue = (0.11 + _GOLDEN * i) % 1.0
    lightness = (0.38, 0.62, 0.50, 0.74)[i % 4]
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, lightness, 0.65))
    return red, green, blue
