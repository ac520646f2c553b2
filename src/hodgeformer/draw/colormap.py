"""Color maps, and the colors of labels and fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.palette import RGB, UNLABELED_COLOR, parse_color

ColormapName = Literal["sequential", "diverging", "warmth"]
Bytes = NDArray[np.uint8]

LOOK: dict[str, Any] = json.loads((resources.files("hodgeformer.draw") / "look.json").read_text(encoding="utf-8"))
"""Creases, lights and colors that pictures, the page and the viewer share."""

# Anchors at equal steps; between them the map is linear. "sequential" rises evenly in lightness from dark violet over
# green to yellow, "diverging" runs from blue over near-white to red, "warmth" from near-white to dark red.
_ANCHORS: dict[ColormapName, list[str]] = LOOK["colormaps"]


def colormap_table(name: ColormapName = "sequential", steps: int = 256) -> Bytes:
    """The colors of a map from its low to its high end, (steps, 3)."""
    if name not in _ANCHORS:
        raise ConfigError(f"unknown color map '{name}'; use {', '.join(_ANCHORS)}")
    anchors = np.array([parse_color(anchor) for anchor in _ANCHORS[name]], dtype=np.float64)
    at, known = np.linspace(0, 1, steps), np.linspace(0, 1, len(anchors))
    channels = [np.interp(at, known, anchors[:, i]) for i in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def field_limits(values: ArrayLike, name: ColormapName = "sequential") -> tuple[float, float]:
    """The range of a color map: that of the finite values, symmetric about zero for the diverging map."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if name == "diverging":
        reach = max(abs(low), abs(high)) or 1.0
        return -reach, reach
    return (low, high) if high > low else (low, low + 1.0)


def field_colors(
    values: ArrayLike, name: ColormapName = "sequential", limits: tuple[float, float] | None = None
) -> Bytes:
    """Values (n,) as colors (n, 3); values that are not finite become gray, like unlabeled elements."""
    numbers = np.asarray(values, dtype=np.float64)
    low, high = field_limits(numbers, name) if limits is None else limits
    finite = np.isfinite(numbers)
    share = np.where(finite, (numbers - low) / (high - low if high > low else 1.0), 0.0)
    table = colormap_table(name)
    colors: Bytes = table[np.clip(share * len(table), 0, len(table) - 1).astype(np.int64)]
    colors[~finite] = UNLABELED_COLOR
    return colors


def label_colors(labels: NDArray[Any], colors: Sequence[RGB]) -> Bytes:
    """Labels (n,) as colors (n, 3); -1 becomes gray."""
    table = np.array([*colors, UNLABELED_COLOR], dtype=np.uint8)  # the last row is for -1
    return np.asarray(table[labels])
