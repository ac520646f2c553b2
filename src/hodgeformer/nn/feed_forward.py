"""The two-layer network that transforms each element by itself, and how weights start."""

from __future__ import annotations

from typing import Literal, cast

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.ops.rows import relu_dropout


class Linear(nn.Linear):
    """torch's, with the type of its result."""

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))


class FeedForward(nn.Module):
    """FF(x) = W_2 dropout(relu(W_1 x + b_1)) + b_2."""

    def __init__(self, d_in: int, d_hidden: int, d_out: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = linear(d_in, d_hidden, init="he")
        self.contract = linear(d_hidden, d_out)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        hidden = self.expand(x)
        return self.contract(relu_dropout(hidden, self.dropout if self.training else 0.0))


def linear(d_in: int, d_out: int, *, bias: bool = True, init: Literal["he", "xavier"] = "xavier") -> Linear:
    """A linear layer with zero bias: He weights before a ReLU, Xavier weights elsewhere."""
    layer = Linear(d_in, d_out, bias=bias)
    if init == "he":
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
