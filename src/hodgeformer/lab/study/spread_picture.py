"""Pictures of what a vertex reads in D blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.draw.camera import Up
from hodgeformer.draw.colormap import field_colors
from hodgeformer.draw.lettering import ColorBar, Picture, key_band, title_band
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.kernels.elimination import TIMES
from hodgeformer.lab.study.operator_pictures import facing
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.spread import Spread

_PANEL = 200
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
