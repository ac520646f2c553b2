"""What a D block does to vertices: spread over the surface, then products of derivatives."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hodgeformer.containers import PerElement
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.feed_forward import linear
from hodgeformer.ops.spread import spread
from hodgeformer.ops.spreading import inner_product, wedge_product
from hodgeformer.packed.surface import N_TIMES, TIMES
from hodgeformer.packed.topology import PackedComplex


class Spreading(nn.Module):
    """A_D(x_v) = W_O [y, tanh(c t (<dy, d(y W_P)> + dy ^ d(y W_Q)))] with y = (M + t L)^-1 M x_v W_V.

    The product of dy with a mix of all derivatives, turned and scaled by W_P and W_Q: <.,.> is its symmetric part and
    ^ its antisymmetric one. Each group of channels has its time t. Over a length of sqrt(t) what was spread changes by
    about its size, so times t the product is of that size too; c is learned, one number for each channel.
    """

    times: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.value = linear(d, d, bias=False)
        self.inner, self.wedge = linear(d, d, bias=False), linear(d, d, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(d))
        self.out = linear(2 * d, d, bias=False)
        times = torch.from_numpy(TIMES).float().repeat_interleave(d // N_TIMES)
        self.register_buffer("times", times, persistent=False)

    def forward(self, x: PerElement[Tensor], topology: PackedComplex) -> dict[str, Tensor]:
        surface = topology.surface
        y = spread(self.value(x.v).view(len(x.v), N_TIMES, -1), surface.factor).flatten(1)
        product = inner_product(y, self.inner(y), surface.rings) + wedge_product(y, self.wedge(y), surface.rings)
        product = torch.tanh(product * (self.times * self.log_scale.exp()))
        return {"v": self.out(torch.cat([y, product], dim=1))}
