"""What D blocks do on one mesh: how far a vertex reads at each time of the heat, and what each block takes from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.kernels.spreading import spread
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.blocks import Spreading, SpreadingBlock
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack


@dataclass(frozen=True, eq=False)
class Spread:
    """What a vertex reads at each time, in the order of the file.

    `heat` (n_v, times) is the weight of each vertex per share of the area, so that 1 everywhere is the mean of the
    whole mesh. `area` is the share of the surface that is read, `distance` how far away its mean is, on the unit
    sphere or the unit disk. `blocks` tell by number which share of its input each D block takes from each time.
    """

    picked: int
    heat: FloatArray
    area: FloatArray
    distance: FloatArray
    blocks: dict[int, FloatArray]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each time."""
        found = []
        for i, time in enumerate(TIMES):
            row = {"time": time, "area_percent": 100 * self.area[i], "distance": self.distance[i]}
            row |= {f"block_{block}_percent": 100 * share[i] for block, share in self.blocks.items()}
            found.append({name: float(f"{value:.4g}") for name, value in row.items()})
        return found


def spread_from(model: HodgeFormer, prepared: PreparedMesh, picked: int) -> Spread:
    """`picked` is a vertex of the file."""
    blocks = time_shares(model)
    if not blocks:
        raise ConfigError(f"the model's blocks '{model.config.blocks}' have no D, so it spreads nothing")
    if not 0 <= picked < prepared.n.v:
        raise ConfigError(f"the mesh has vertices 0 to {prepared.n.v - 1}, got {picked}")
    surface = pack([prepared]).topology.surface
    here = int(np.flatnonzero(prepared.order.v == picked)[0])
    source = torch.zeros(prepared.n.v, N_TIMES)
    source[here] = 1 / surface.star0[here]
    density = spread(source, surface.stars).double().numpy()
    masses = surface.star0.double().numpy()
    weights = masses[:, None] * density
    away = np.linalg.norm(prepared.positions - prepared.positions[here], axis=1)
    return Spread(
        picked=picked,
        heat=prepared.to_file_order(density * masses.sum(), "v"),
        area=1 / (weights * density * masses.sum()).sum(axis=0),
        distance=away @ weights,
        blocks=blocks,
    )


def time_shares(model: HodgeFormer) -> dict[int, FloatArray]:
    """By the number of each D block, from 1: the share of W_O W_V, in squares, that belongs to each time."""
    found: dict[int, FloatArray] = {}
    for number, block in enumerate(model.encoder.blocks, 1):
        if isinstance(block, SpreadingBlock):
            d, spreading = model.config.d_model, cast(Spreading, block.attention)
            into = spreading.value.weight.detach().double().view(len(TIMES), -1, d)
            out = spreading.out.weight.detach().double()[:, :d].view(d, len(TIMES), -1).movedim(1, 0)
            squares = (out @ into).square().sum(dim=(1, 2)).numpy()
            found[number] = squares / squares.sum()
    return found


def farthest_vertex(prepared: PreparedMesh) -> int:
    """The vertex of the file that lies farthest from the middle of the mesh."""
    return int(prepared.order.v[np.linalg.norm(prepared.positions, axis=1).argmax()])
