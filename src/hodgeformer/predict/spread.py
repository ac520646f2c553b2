"""What D blocks do on one mesh: their diagonal stars, how far a vertex reads at each time, and what each block uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.kernels.spreading import DiagonalStars, spread
from hodgeformer.mesh.elements import convert_values
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.blocks import Spreading, SpreadingBlock
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack

DiagonalName = Literal["star1", "star0"]
DIAGONAL_KIND: dict[DiagonalName, ElementKind] = {"star1": "e", "star0": "v"}
"""The kind of element that a diagonal star of D blocks has an entry for."""


@dataclass(frozen=True, eq=False)
class BlockSpread:
    """What a vertex reads in one D block, a column for each time, in the order of the file.

    `heat` (n_v, times) is the weight of each vertex per share of the area, so that 1 everywhere is the mean of the
    whole mesh. `area` is the share of the surface that is read, `distance` how far away its mean is, on the unit
    sphere or the unit disk, `share` which part of its input the block takes from each time.
    """

    heat: FloatArray
    area: FloatArray
    distance: FloatArray
    share: FloatArray

    @property
    def mixed(self) -> FloatArray:
        """What the block reads of all times together."""
        return np.asarray(self.heat @ self.share)


@dataclass(frozen=True, eq=False)
class Spread:
    """What a vertex of the file reads, by the number of each D block, from 1."""

    picked: int
    blocks: dict[int, BlockSpread]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each block and time."""
        found = []
        for block, read in self.blocks.items():
            for i, time in enumerate(TIMES):
                percent = {"area_percent": 100 * read.area[i], "block_takes_percent": 100 * read.share[i]}
                row = {"time": time, "distance": read.distance[i], **percent}
                found.append({"block": block, **{name: float(f"{value:.4g}") for name, value in row.items()}})
        return found


def spread_from(model: HodgeFormer, prepared: PreparedMesh, picked: int, layer: int | None = None) -> Spread:
    """`picked` is a vertex of the file, `layer` one of the D blocks, by default all of them."""
    blocks = _spreading_blocks(model, layer)
    if not 0 <= picked < prepared.n.v:
        raise ConfigError(f"the mesh has vertices 0 to {prepared.n.v - 1}, got {picked}")
    batch, here = pack([prepared]), int(np.flatnonzero(prepared.order.v == picked)[0])
    away = np.linalg.norm(prepared.positions - prepared.positions[here], axis=1)
    areas = batch.topology.surface.star0.double().numpy()[:, None]

    def read(number: int, block: Spreading) -> BlockSpread:
        stars = _stars(model, number, block, batch)
        source = torch.zeros(prepared.n.v, N_TIMES)
        source[here] = 1 / stars.star0[here]
        weights = (stars.star0 * spread(source, stars)).double().numpy()
        heat = weights / areas * areas.sum()
        return BlockSpread(
            heat=prepared.to_file_order(heat, "v"),
            area=1 / (weights * heat).sum(axis=0),
            distance=away @ weights,
            share=_time_shares(block),
        )

    return Spread(picked, {number: read(number, block) for number, block in blocks.items()})


def log_factors(
    model: HodgeFormer, prepared: PreparedMesh, layer: int | None = None
) -> dict[int, dict[DiagonalName, FloatArray]]:
    """log(learned star / textbook's) by block and star, (n, times) in the order of the file.

    NaN where the textbook's star is zero, which no factor changes: edges whose cotangents add up to less.
    """
    batch = pack([prepared])
    textbook = textbook_stars(batch)
    found: dict[int, dict[DiagonalName, FloatArray]] = {}
    for number, block in _spreading_blocks(model, layer).items():
        learned = _stars(model, number, block, batch)
        found[number] = {}
        for name, kind in DIAGONAL_KIND.items():
            star, classical = cast(Tensor, getattr(learned, name)).double().numpy(), textbook[name][:, None]
            ratio = np.divide(star, classical, out=np.full_like(star, np.nan), where=classical > 0)
            found[number][name] = prepared.to_file_order(np.log(ratio), kind)
    return found


def sides_mean(values: FloatArray, mesh: Mesh) -> FloatArray:
    """Values of edges as the mean over the sides of each face, without those that are NaN."""
    finite = np.isfinite(values)
    both = np.stack([np.where(finite, values, 0.0), finite], axis=1).astype(np.float64)
    total, share = convert_values(both, mesh, source="e", to="f").T
    return np.asarray(np.divide(total, share, out=np.full(len(total), np.nan), where=share > 0))


def textbook_stars(batch: Batch) -> dict[DiagonalName, FloatArray]:
    """Cotangents and areas, in the order of the prepared mesh and in the unit that makes the whole area one."""
    surface = batch.topology.surface
    return {"star1": surface.star1.double().numpy(), "star0": surface.star0.double().numpy()}


def _stars(model: HodgeFormer, number: int, block: Spreading, batch: Batch) -> DiagonalStars:
    """The stars of a D block when the model reads the batch; the textbook's where it learns none."""
    if not block.bound:
        return batch.topology.surface.stars
    with torch.no_grad():
        x = model.features_before(batch, number)
        return block.diagonal_stars(cast(Tensor, x.v), batch.topology)


def _spreading_blocks(model: HodgeFormer, layer: int | None = None) -> dict[int, Spreading]:
    """The D blocks by their number, from 1; with `layer` that one alone."""
    found = {
        number: cast(Spreading, block.attention)
        for number, block in enumerate(model.encoder.blocks, 1)
        if isinstance(block, SpreadingBlock)
    }
    if not found or layer not in (None, *found):
        known = ", ".join(map(str, found)) or "none"
        raise ConfigError(f"of the blocks '{model.config.blocks}' these are D blocks: {known}")
    return found if layer is None else {layer: found[layer]}


def _time_shares(block: Spreading) -> FloatArray:
    """The share of W_O W_V of a D block, in squares, that belongs to each time."""
    d = block.value.weight.shape[0]
    into = block.value.weight.detach().double().view(N_TIMES, -1, d)
    out = block.out.weight.detach().double()[:, :d].view(d, N_TIMES, -1).movedim(1, 0)
    squares = (out @ into).square().sum(dim=(1, 2)).numpy()
    return np.asarray(squares / squares.sum())


def farthest_vertex(prepared: PreparedMesh) -> int:
    """The vertex of the file that is farthest from the center of the mesh."""
    return int(prepared.order.v[np.linalg.norm(prepared.positions, axis=1).argmax()])
