"""The operators that one head of one layer has learned on one mesh: stars as matrices, Laplacians applied to a form."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn

from hodgeformer.containers import ElementKind, PerElement
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.blocks import HodgeAttention, HodgeFormerBlock
from hodgeformer.nn.config import OPERATOR_STARS, STAR_KIND, StarName
from hodgeformer.nn.hodge_star import FixedStar, HodgeStar
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.ops.star_attention import star_attention_weights
from hodgeformer.packed.pack import Batch, pack
from hodgeformer.packed.topology import PackedComplex
from hodgeformer.study.eigen import cotangent_laplacian, whitney_matrix


@dataclass(frozen=True, eq=False)
class HeadOperators:
    """The stars (n, n) of every Laplacian that the layer has, for one head, in the order of the prepared mesh.

    `layer` and `head` count from 1. `classical` are the stars of the textbook on the same mesh: diagonal ones of the
    barycentric dual, and for star1 the mass matrix of Whitney 1-forms.
    """

    prepared: PreparedMesh
    layer: int
    head: int
    stars: Mapping[ElementKind, Mapping[StarName, csr_array]]
    classical: Mapping[StarName, csr_array]

    def laplacian(self, kind: ElementKind) -> LinearOperator:
        """L_v, L_e or L_f as the layer applies it to one column of its values, right to left and never formed."""
        if kind not in self.stars:
            raise ConfigError(f"this model updates {', '.join(self.stars)}, so layer {self.layer} has no L_{kind}")
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

    def cotangent(self) -> tuple[csr_array, NDArray[np.float64]]:
        """Stiffness d0^T star1 d0 and mass star0 of the cotangent Laplacian."""
        return cotangent_laplacian(self.prepared.topology, self.prepared.positions)


def head_operators(model: HodgeFormer, prepared: PreparedMesh, *, layer: int | None, head: int = 1) -> HeadOperators:
    """Run the model up to a layer (counted from 1; None: the last HodgeFormer block) and read one head's stars."""
    if layer is None:
        if "H" not in model.config.blocks:
            raise ConfigError(f"the model's blocks '{model.config.blocks}' have no H, so it has no learned operators")
        layer = model.config.blocks.rindex("H") + 1
    attention = hodge_attention(model, layer)
    if not 1 <= head <= model.config.n_heads:
        raise ConfigError(f"the model has heads 1 to {model.config.n_heads}, got {head}")
    batch = pack([prepared])
    x = features_at(model, attention, batch)
    metric_of = replace(batch.topology, positions=torch.from_numpy(prepared.positions.copy()))
    stars = {
        kind: {name: star_matrix(star, x, metric_of, head=head - 1) for name, star in stars_of(attention, kind).items()}
        for kind in model.config.updated
    }
    textbook = {name: FixedStar(name, galerkin=True) for name in STAR_KIND}
    classical = {name: star_matrix(star, x, metric_of, head=0) for name, star in textbook.items()}
    return HeadOperators(prepared, layer, head, stars, classical)


def star_matrix(
    star: HodgeStar | FixedStar, x: PerElement[Tensor | None], topology: PackedComplex, *, head: int
) -> csr_array:
    """A learned star of one head (from 0), or a fixed one, as a matrix in float64."""
    if isinstance(star, FixedStar):
        metric = topology.metric
        if star.name == "star1" and star.galerkin:
            return whitney_matrix(metric)
        return csr_array(diags_array(star.diagonal(metric).numpy().astype(np.float64)))
    with torch.no_grad():
        q, k = star.queries_and_keys(cast(Tensor, x[star.kind]))
        one = slice(head, head + 1)
        weights = star_attention_weights(q=q[:, one], k=k[:, one], pattern=topology.patterns[star.kind])
    pattern = topology.patterns[star.kind]
    csr = (weights[:, 0].double(), pattern.indices, pattern.offsets)
    return csr_array(tuple(values.cpu().numpy() for values in csr), shape=(len(pattern), len(pattern)))


def hodge_attention(model: HodgeFormer, layer: int) -> HodgeAttention:
    """The attention of a HodgeFormer block, counted from 1."""
    blocks = model.config.blocks
    if not 1 <= layer <= len(blocks) or not isinstance(model.encoder.blocks[layer - 1], HodgeFormerBlock):
        known = ", ".join(str(i + 1) for i, letter in enumerate(blocks) if letter == "H")
        raise ConfigError(
            f"layer {layer} is no HodgeFormer block; of the blocks '{blocks}' these are: {known or 'none'}"
        )
    return cast(HodgeAttention, model.encoder.blocks[layer - 1].attention)


def stars_of(attention: HodgeAttention, kind: ElementKind) -> dict[StarName, HodgeStar | FixedStar]:
    """The stars of L_v, L_e or L_f by their names."""
    laplacian = attention.laplacian[kind]
    return {name: getattr(laplacian, name) for name in OPERATOR_STARS[kind]}


class _ArrivedError(Exception):
    """The features have been through the module; the rest of the model need not run."""


def features_at(model: HodgeFormer, attention: HodgeAttention, batch: Batch) -> PerElement[Tensor | None]:
    """What arrives at a module when the model reads the batch."""
    seen: list[PerElement[Tensor | None]] = []

    def catch(_: nn.Module, arguments: tuple[Any, ...], __: Any) -> None:
        seen.append(arguments[0])
        raise _ArrivedError

    hook = attention.register_forward_hook(catch)
    training = model.training
    try:
        with torch.no_grad(), suppress(_ArrivedError):
            model.eval()
            model.forward_features(batch)
    finally:
        hook.remove()
        model.train(training)
    return seen[0]
