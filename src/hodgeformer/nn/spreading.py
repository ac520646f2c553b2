"""The third kind of block: spread over the surface, then products of derivatives."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.containers import PerElement
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.feed_forward import linear
from hodgeformer.ops.products import inner_product, wedge_product
from hodgeformer.ops.spread import spread
from hodgeformer.packed.surface import N_TIMES, TIMES
from hodgeformer.packed.topology import PackedComplex


class Spreading(nn.Module):
    """A_D(x_v) = W_O [y, <dy, d(y W_P)>, dy ^ d(y W_Q)] with y = (M + t L)^-1 M x_v W_V.

    Each group of channels has its time t. The products are measured in units of 1 / t, over which y changes, times a
    learned factor, and bounded by tanh.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.value = linear(d, d, bias=False)
        self.inner, self.wedge = linear(d, d, bias=False), linear(d, d, bias=False)
        self.inner_scale, self.wedge_scale = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.out = linear(3 * d, d, bias=False)

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> dict[str, Tensor]:
        factor, rings = topology.surface.factor, topology.surface.rings
        y = spread(self.value(x.v).view(len(x.v), N_TIMES, -1), factor).flatten(1)
        inner = torch.tanh(self.scaled(inner_product(y, self.inner(y), rings), self.inner_scale))
        wedge = torch.tanh(self.scaled(wedge_product(y, self.wedge(y), rings), self.wedge_scale))
        return {"v": self.out(torch.cat([y, inner, wedge], dim=1))}

    def scaled(self, product: Float[Tensor, "n d"], scale: Float[Tensor, " d"]) -> Float[Tensor, "n d"]:
        times = torch.from_numpy(TIMES).to(product).repeat_interleave(product.shape[1] // N_TIMES)
        return product * (times * scale.exp())
