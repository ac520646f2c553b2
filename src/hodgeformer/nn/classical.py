"""The Hodge stars of the textbook, in the place of the learned ones, so that the two can be compared."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.packed.metric import Metric, inverse
from hodgeformer.packed.topology import PackedComplex

StarName = Literal["star0_inv", "star1", "star1_inv", "star2"]


class FixedStar(nn.Module):
    """star y of discrete exterior calculus, the same for every head and column; the features are not read.

    All stars are the diagonal ones of the barycentric dual. With `galerkin`, star1 is the mass matrix of
    Whitney 1-forms, which makes d0^T star1 d0 the cotangent Laplacian. Its inverse is dense, so star1_inv
    stays the diagonal one.
    """

    def __init__(self, name: StarName, *, galerkin: bool) -> None:
        super().__init__()
        self.name, self.galerkin = name, galerkin

    def forward(self, x: Tensor | None, y: Float[Tensor, "n d"], topology: PackedComplex) -> Float[Tensor, "n d"]:
        if self.name == "star1" and self.galerkin:
            return topology.metric.galerkin_star1(y)
        return self.diagonal(topology.metric).to(y.dtype).unsqueeze(1) * y

    def diagonal(self, metric: Metric) -> Float[Tensor, " n"]:
        if self.name == "star0_inv":
            return inverse(metric.star0)
        if self.name == "star1_inv":
            return inverse(metric.star1)
        return metric.star1 if self.name == "star1" else metric.star2
