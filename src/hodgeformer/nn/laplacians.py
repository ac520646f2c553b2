"""The learned Hodge Laplacians of the paper, applied right to left and never formed."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.containers import ElementKind, PerElement
from hodgeformer.nn.classical import FixedStar, StarName
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.feed_forward import linear
from hodgeformer.nn.hodge_star import HodgeStar
from hodgeformer.packed.topology import PackedComplex


class _Laplacian(nn.Module):
    """What the three share: W_V and W_O; stars are added by each, nothing is shared between them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.value = linear(config.d_model, config.d_model, bias=False)
        self.out = linear(config.d_model, config.d_model, bias=False)


class VertexLaplacian(_Laplacian):
    """x_v <- L_v V_v,  L_v = star0_inv(x_v) d0^T star1(x_e) d0."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.star0_inv, self.star1 = _star(config, "star0_inv"), _star(config, "star1")

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> Float[Tensor, "n_v d"]:
        y = topology.d0(self.value(x.v))
        y = self.star1(x.e, y, topology)
        y = topology.d0_t(y)
        y = self.star0_inv(x.v, y, topology)
        out: Tensor = self.out(y)
        return out


class EdgeLaplacian(_Laplacian):
    """x_e <- L_e V_e,  L_e = d0 star0_inv(x_v) d0^T star1(x_e) + star1_inv(x_e) d1^T star2(x_f) d1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.star0_inv, self.star1 = _star(config, "star0_inv"), _star(config, "star1")
        self.star1_inv, self.star2 = _star(config, "star1_inv"), _star(config, "star2")

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> Float[Tensor, "n_e d"]:
        value = self.value(x.e)
        down = topology.d0_t(self.star1(x.e, value, topology))
        down = topology.d0(self.star0_inv(x.v, down, topology))
        up = self.star2(x.f, topology.d1(value), topology)
        up = self.star1_inv(x.e, topology.d1_t(up), topology)
        out: Tensor = self.out(down + up)
        return out


class FaceLaplacian(_Laplacian):
    """x_f <- L_f V_f,  L_f = d1 star1_inv(x_e) d1^T star2(x_f)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.star1_inv, self.star2 = _star(config, "star1_inv"), _star(config, "star2")

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> Float[Tensor, "n_f d"]:
        y = self.star2(x.f, self.value(x.f), topology)
        y = topology.d1_t(y)
        y = self.star1_inv(x.e, y, topology)
        y = topology.d1(y)
        out: Tensor = self.out(y)
        return out


LAPLACIANS: dict[ElementKind, type[_Laplacian]] = {
    "v": VertexLaplacian,
    "e": EdgeLaplacian,
    "f": FaceLaplacian,
}

_ACTS_ON: dict[StarName, ElementKind] = {"star0_inv": "v", "star1": "e", "star1_inv": "e", "star2": "f"}


def _star(config: ModelConfig, name: StarName) -> HodgeStar | FixedStar:
    """One star, learned or fixed as the configuration says."""
    if config.stars == "learned":
        return HodgeStar(config, _ACTS_ON[name])
    return FixedStar(name, galerkin=config.stars == "galerkin")
