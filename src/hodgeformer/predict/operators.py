"""The operators that one head of an H block has learned, on one mesh: stars as matrices, Laplacians as operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.star import star_attention_weights
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.blocks import HodgeFormerBlock
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import OPERATOR_STARS, StarName
from hodgeformer.nn.hodge_star import FixedStar, HodgeStar
from hodgeformer.nn.metric import Metric
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack


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
