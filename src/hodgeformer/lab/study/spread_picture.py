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

_PANEL = 240


def save_spread_picture(found: Spread, mesh: Mesh, path: Path, *, up: Up) -> None:
    """A row of pictures for the times, and one for what each block makes of them together."""
    view = facing(mesh, "v", found.picked, up)[:1]

    def panel(values: NDArray[Any], title: str) -> Picture:
        colors = field_colors(np.log10(np.maximum(values, 1e-9)), "warmth", (-2.0, 2.0))
        return render(mesh, vertex_colors=colors, views=view, width=_PANEL, up=up, title=title)

    times = [panel(found.heat[:, i], f"t = {t:.2g}: {found.area[i]:.1%}") for i, t in enumerate(TIMES)]
    mixed = [panel(found.heat @ share, f"block {block}") for block, share in found.blocks.items()]
    width = _PANEL * len(times)
    label = "log10 of the weight that a vertex has for the picked one, over its share of the area"
    save_png(
        stacked([
            title_band(f"What vertex {found.picked} reads at each time, and the share of the surface", width, 20),
            np.concatenate(times, axis=1),
            title_band("What each block reads: its mix of the times", width, 20),
            np.concatenate(mixed, axis=1),
            key_band(ColorBar((-2.0, 2.0), "warmth", label), width, 16),
        ]),
        path,
    )  # fmt: skip
