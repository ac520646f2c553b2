"""What a model has learned, on one mesh: the stars and Laplacians of one head of an H block, and what D blocks read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.kernels.spreading import DiagonalStars, spread
from hodgeformer.kernels.star import star_attention_weights
from hodgeformer.mesh.elements import convert_values
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.blocks import HodgeFormerBlock, Spreading, SpreadingBlock
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import OPERATOR_STARS, StarName
from hodgeformer.nn.hodge_star import FixedStar, HodgeStar
from hodgeformer.nn.metric import Metric
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack

DiagonalName = Literal["star1", "star0"]
DIAGONAL_KIND: dict[DiagonalName, ElementKind] = {"star1": "e", "star0": "v"}
"""The kind of element that a diagonal star of D blocks has an entry for."""


@dataclass(frozen=True, eq=False)
class HeadOperators:
    """The stars (n, n) of every Laplacian of a layer, for one head, in the order of the prepared mesh.

    `layer` and `head` count from 1.
    """

    prepared: PreparedMesh
    layer: int
    head: int
    stars: Mapping[ElementKind, Mapping[StarName, csr_array]]

    def laplacian(self, kind: ElementKind) -> LinearOperator:
        """L_v, L_e or L_f as the layer applies it to one column of its values: right to left, without a matrix."""
        if kind not in self.stars:
            raise ConfigError(f"layer {self.layer} has no L_{kind}: this model updates {', '.join(self.stars)}")
        stars, topology = self.stars[kind], self.prepared.topology
        d0, d1 = (matrix.astype(np.float64) for matrix in (topology.d0_matrix(), topology.d1_matrix()))

        def apply(y: NDArray[Any]) -> NDArray[Any]:
            if kind == "v":
                return cast(NDArray[Any], stars["star0_inv"] @ (d0.T @ (stars["star1"] @ (d0 @ y))))
            if kind == "f":
                return cast(NDArray[Any], d1 @ (stars["star1_inv"] @ (d1.T @ (stars["star2"] @ y))))
            down = d0 @ (stars["star0_inv"] @ (d0.T @ (stars["star1"] @ y)))
            return cast(NDArray[Any], down + stars["star1_inv"] @ (d1.T @ (stars["star2"] @ (d1 @ y))))

        n = self.prepared.n[kind]
        return LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)


def head_operators(model: HodgeFormer, prepared: PreparedMesh, *, layer: int | None, head: int = 1) -> HeadOperators:
    """Run the model up to a layer (counted from 1; None: the last HodgeFormer block) and read one head's stars.

    The model must be in evaluation mode.
    """
    if layer is None:
        if "H" not in model.config.blocks:
            raise ConfigError(f"the model has no learned operators: its blocks '{model.config.blocks}' contain no H")
        layer = model.config.blocks.rindex("H") + 1
    named = {kind: stars_of(model, layer, kind) for kind in model.config.updated}
    if not 1 <= head <= model.config.n_heads:
        raise ConfigError(f"the model has heads 1 to {model.config.n_heads}, got {head}")
    batch = pack([prepared])
    with torch.no_grad():
        x = model.features_before(batch, layer)
    topology = replace(batch.topology, positions=torch.from_numpy(prepared.positions.copy()))
    stars = {
        kind: {name: star_matrix(star, x, topology, head=head - 1) for name, star in own.items()}
        for kind, own in named.items()
    }
    return HeadOperators(prepared, layer, head, stars)


def star_matrix(
    star: HodgeStar | FixedStar, x: PerElement[Tensor | None], topology: PackedComplex, *, head: int
) -> csr_array:
    """A learned star of one head (from 0), or a fixed one, as a matrix in float64; a signed one with its signs."""
    if isinstance(star, FixedStar):
        metric = topology.metric
        if star.name == "star1" and star.galerkin:
            return whitney_matrix(metric)
        return csr_array(diags_array(star.diagonal(metric).numpy().astype(np.float64)))
    with torch.no_grad():
        q, k = star.queries_and_keys(cast(Tensor, x[star.kind]))
        one = slice(head, head + 1)
        weights = star_attention_weights(q=q[:, one], k=k[:, one], pattern=topology.patterns[star.kind])
    pattern, entries = topology.patterns[star.kind], weights[:, 0].double()
    if star.signed:
        u = topology.edge_directions if star.kind == "e" else topology.face_normals
        row = torch.repeat_interleave(pattern.offsets.diff().long())
        entries = entries * (u[row] * u[pattern.indices.long()]).sum(1)
    csr = (entries, pattern.indices, pattern.offsets)
    return csr_array(tuple(values.cpu().numpy() for values in csr), shape=(len(pattern), len(pattern)))


def star_row(star: csr_array, row: int) -> FloatArray:
    """One value per element; NaN outside the pattern of the row."""
    entries = slice(star.indptr[row], star.indptr[row + 1])
    values = np.full(star.shape[1], np.nan)
    values[star.indices[entries]] = star.data[entries]
    return values


def stars_of(model: HodgeFormer, layer: int, kind: ElementKind) -> dict[StarName, HodgeStar | FixedStar]:
    """The stars of L_v, L_e or L_f of a HodgeFormer block, counted from 1, by their names."""
    blocks = model.config.blocks
    if not 1 <= layer <= len(blocks) or not isinstance(block := model.encoder.blocks[layer - 1], HodgeFormerBlock):
        known = ", ".join(str(i + 1) for i, letter in enumerate(blocks) if letter == "H")
        raise ConfigError(
            f"layer {layer} is not a HodgeFormer block; the HodgeFormer blocks of '{blocks}': {known or 'none'}"
        )
    laplacian = cast(Any, block.attention).laplacian[kind]
    return {name: getattr(laplacian, name) for name in OPERATOR_STARS[kind]}


def whitney_matrix(metric: Metric) -> csr_array:
    """The mass matrix of Whitney 1-forms, summed over faces."""
    n_e, sides = len(metric.star1), metric.face_edges.numpy()
    rows, columns = np.repeat(sides, 3, axis=1).ravel(), np.tile(sides, (1, 3)).ravel()
    return csr_array((metric.whitney.numpy().astype(np.float64).ravel(), (rows, columns)), shape=(n_e, n_e))


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


def spread_from(
    model: HodgeFormer, prepared: PreparedMesh, picked: int, layer: int | None = None
) -> dict[int, BlockSpread]:
    """What a vertex of the file reads, by the number of each D block, from 1; with `layer` in that one alone."""
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

    return {number: read(number, block) for number, block in blocks.items()}


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
