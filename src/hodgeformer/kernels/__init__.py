"""Operations on tensors, independent of meshes.

>>> import torch, hodgeformer as hf
>>> edges = torch.tensor([[0, 1], [0, 2], [1, 2]])                            # (n_e, 2): tail, head; one triangle
>>> y = hf.kernels.d0(torch.tensor([[1.0], [2.0], [4.0]]), edges)                 # (n_v, d) -> (n_e, d)
>>> y.flatten().tolist()
[1.0, 3.0, 2.0]
>>> sides, signs = torch.tensor([[0, 2, 1]]), torch.tensor([[1, 1, -1]])      # (n_f, 3): edges of a face, their signs
>>> hf.kernels.d1(y, sides, signs).tolist()                                       # d1 d0 = 0
[[0.0]]
>>> pattern = hf.SparsityPattern.from_csr(torch.tensor([0, 2, 4, 5]), torch.tensor([0, 1, 1, 2, 2]))  # the rows S_i
>>> q = k = torch.zeros(3, 1, 4)                                              # (n, h, d_head): all weights alike
>>> hf.kernels.star_attention(q=q, k=k, y=y[:, None], pattern=pattern).flatten().tolist()
[2.0, 2.5, 2.0]
>>> hf.kernels.star_attention_weights(q=q, k=k, pattern=pattern).flatten().tolist()  # (nnz, h)
[0.5, 0.5, 0.5, 0.5, 1.0]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hodgeformer.kernels.incidence import Incidence, curl, d0, d0_t, d1, d1_t, gradient
    from hodgeformer.kernels.rows import normalized as layer_norm
    from hodgeformer.kernels.segments import linear_attention, segment_mean
    from hodgeformer.kernels.star import star_attention, star_attention_weights

__all__ = [
    "Incidence",
    "curl",
    "d0",
    "d0_t",
    "d1",
    "d1_t",
    "gradient",
    "layer_norm",
    "linear_attention",
    "segment_mean",
    "star_attention",
    "star_attention_weights",
]

# Loaded on first use: elimination, which exported models need too, works without torch.
_HOME = {
    "layer_norm": ("rows", "normalized"),
    "linear_attention": ("segments", "linear_attention"),
    "segment_mean": ("segments", "segment_mean"),
    "star_attention": ("star", "star_attention"),
    "star_attention_weights": ("star", "star_attention_weights"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hodgeformer.kernels' has no attribute {name!r}")
    file, own = _HOME.get(name, ("incidence", name))
    return getattr(importlib.import_module(f"hodgeformer.kernels.{file}"), own)
