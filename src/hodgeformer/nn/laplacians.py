"""The learned Hodge Laplacians of the paper, applied right to left and never formed."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.kernels.linear import linear
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import OPERATOR_STARS, ModelConfig
from hodgeformer.nn.hodge_star import FixedStar, HodgeStar, star_for

Star = HodgeStar | FixedStar


class _Laplacian(nn.Module):
    """What all three have: W_V, W_O and stars, each with parameters of its own."""

    kind: ElementKind
    star0_inv: Star
    star1: Star
    star1_inv: Star
    star2: Star

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.value = linear(config.d_model, config.d_model, bias=False)
        self.out = linear(config.d_model, config.d_model, bias=False)
        for name in OPERATOR_STARS[self.kind]:
            self.add_module(name, star_for(config, name))


class VertexLaplacian(_Laplacian):
    """x_v <- L_v V_v,  L_v = star0_inv(x_v) d0^T star1(x_e) d0."""

    kind = "v"

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> Float[Tensor, "n_v d"]:
        y = topology.d0(self.value(x.v))
        y = self.star1(x.e, y, topology)
        y = topology.d0_t(y)
        y = self.star0_inv(x.v, y, topology)
        return self.out(y)


class EdgeLaplacian(_Laplacian):
    """x_e <- L_e V_e,  L_e = d0 star0_inv(x_v) d0^T star1(x_e) + star1_inv(x_e) d1^T star2(x_f) d1."""

    kind = "e"

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> Float[Tensor, "n_e d"]:
        value = self.value(x.e)
        down = topology.d0_t(self.star1(x.e, value, topology))
        down = topology.d0(self.star0_inv(x.v, down, topology))
        up = self.star2(x.f, topology.d1(value), topology)
        up = self.star1_inv(x.e, topology.d1_t(up), topology)
        return self.out(down + up)


class FaceLaplacian(_Laplacian):
    """x_f <- L_f V_f,  L_f = d1 star1_inv(x_e) d1^T star2(x_f)."""

    kind = "f"

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> Float[Tensor, "n_f d"]:
        y = self.star2(x.f, self.value(x.f), topology)
        y = topology.d1_t(y)
        y = self.star1_inv(x.e, y, topology)
        y = topology.d1(y)
        return self.out(y)


LAPLACIANS: dict[ElementKind, type[_Laplacian]] = {
    laplacian.kind: laplacian for laplacian in (VertexLaplacian, EdgeLaplacian, FaceLaplacian)
}
