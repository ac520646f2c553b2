"""The two-layer network that transforms each element by itself, and how weights start."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.ops.dropout import relu_dropout


class FeedForward(nn.Module):
    """FF(x) = W_2 dropout(relu(W_1 x + b_1)) + b_2."""

    def __init__(self, d_in: int, d_hidden: int, d_out: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = linear(d_in, d_hidden, init="he")
        self.contract = linear(d_hidden, d_out)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        hidden = self.expand(x)
        out: Tensor = self.contract(relu_dropout(hidden, self.dropout if self.training else 0.0))
        return out


def linear(d_in: int, d_out: int, *, bias: bool = True, init: Literal["he", "xavier"] = "xavier") -> nn.Linear:
    """A linear layer with zero bias: He weights before a ReLU, Xavier weights elsewhere."""
    layer = nn.Linear(d_in, d_out, bias=bias)
    if init == "he":
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
