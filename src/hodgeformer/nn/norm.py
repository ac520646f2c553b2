"""LayerNorm without scale and bias, as in the paper."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def normalized(x: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
    """(x - mean) / standard deviation over the last axis."""
    return functional.layer_norm(x, x.shape[-1:])
