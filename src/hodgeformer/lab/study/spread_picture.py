"""Pictures of D blocks: what a vertex reads, and the learned diagonal stars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.palette import RGB
from hodgeformer.draw.camera import Up, View
from hodgeformer.draw.colormap import field_colors, label_colors
from hodgeformer.draw.lettering import ColorBar, Picture, key_band, title_band
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.kernels.elimination import TIMES
from hodgeformer.lab.study.operator_pictures import facing
from hodgeformer.lab.study.star_report import StarReport
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.spread import Spread, log10_of

_PANEL, _STAR_PANEL = 200, 150
_LETTERS = 20


def save_spread_picture(found: Spread, mesh: Mesh, path: Path, *, up: Up) -> None:
    """A row for each block: what the vertex reads at each time, and of all times as the block mixes them."""
    view = facing(mesh, "v", found.picked, up)[:1]

    def panel(values: NDArray[Any], title: str) -> Picture:
        colors = field_colors(np.log10(np.maximum(values, 1e-9)), "warmth", (-2.0, 2.0))
        return render(mesh, vertex_colors=colors, views=view, width=_PANEL, up=up, title=title)

    rows = []
    for block, read in found.blocks.items():
        panels = [panel(read.heat[:, i], f"t = {t:.2g}: {read.area[i]:.1%}") for i, t in enumerate(TIMES)]
        row = np.concatenate([*panels, panel(read.mixed, "as mixed")], axis=1)
        title = f"Block {block}: what vertex {found.picked} reads at each time, and the share of the surface"
        rows += [title_band(title, row.shape[1], _LETTERS), row]
    label = "log10 of the weight that a vertex has for the picked one, over its share of the area"
    save_png(stacked([*rows, key_band(ColorBar((-2.0, 2.0), "warmth", label), rows[1].shape[1], 16)]), path)


def save_star_picture(found: StarReport, colors: tuple[RGB, ...], path: Path) -> None:
    """For each block a row for star1 and one for star0: parts, the textbook's star, then the log factor at each time.

    `colors` are those of the classes.
    """

    def panel(title: str, **paint: Any) -> Picture:
        return render(found.mesh, views=[View(25)], width=_STAR_PANEL, up=found.up, title=title, blend=False, **paint)

    parts = [
        panel(f"{name} parts", face_colors=label_colors(labels, colors))
        for name, labels in found.parts.items()
        if labels.max() < len(colors)
    ]
    parts += [np.full_like(each, 255) for each in parts[:1]]  # below the only one
    bands = []
    for block, stars in found.blocks.items():
        title = f"Block {block}: log of the learned star over the textbook's; star1: mean over the sides of a face"
        rows: list[Picture] = []
        for star, factors in stars.items():
            kind = "face_colors" if star == "star1" else "vertex_colors"
            shown = [found.paintable(factors[:, time - 1], star) for time in found.times]
            classical = field_colors(found.paintable(log10_of(found.textbook[star]), star))
            panels = [*parts[len(rows) : len(rows) + 1], panel(f"textbook {star}", **{kind: classical})]
            for time, values in zip(found.times, shown, strict=True):
                painted = field_colors(values, "diverging", (-found.bound, found.bound))
                panels.append(panel(f"t = {TIMES[time - 1]:.2g}", **{kind: painted}))
            rows.append(np.concatenate(panels, axis=1))
        bands += [title_band(title, rows[0].shape[1], _LETTERS), stacked(rows)]
    label = "blue: the learned star is smaller; red: larger; the textbook's from dark (small) to yellow, a log scale"
    key = ColorBar((-found.bound, found.bound), "diverging", label)
    save_png(stacked([*bands, key_band(key, bands[1].shape[1], 14)]), path)
