"""Small star attention problems, and the dense truth they are held to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hodgeformer.base.containers import SparsityPattern
from hodgeformer.kernels.star import star_attention


def ragged_pattern(n: int, longest: int, *, seed: int = 0) -> SparsityPattern[Tensor]:
    """Rows of 1 to `longest` distinct neighbors in random order; row 0 has one, row 1 has the most."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (n,), generator=generator)
    lengths[0], lengths[1] = 1, longest
    rows = [torch.randperm(n, generator=generator)[:length] for length in lengths]
    return SparsityPattern.from_csr(torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]), torch.cat(rows))


@dataclass(frozen=True)
class Problem:
    q: Tensor
    k: Tensor
    y: Tensor
    grad: Tensor
    pattern: SparsityPattern[Tensor]
    directions: Tensor | None = None

    @classmethod
    def random(
        cls, *, n: int = 40, longest: int = 19, h: int = 2, d: int = 16, d_y: int | None = None, seed: int = 0
    ) -> Problem:
        """In float64, with scores spread enough that weights differ by orders of magnitude."""
        generator = torch.Generator().manual_seed(seed)
        widths = (d, d, d_y or d, d_y or d)
        tensors = [2 * torch.randn(n, h, w, generator=generator, dtype=torch.float64) for w in widths]
        return cls(*tensors, ragged_pattern(n, longest, seed=seed))

    def to(self, dtype: torch.dtype) -> Problem:
        return replace(self, **{name: getattr(self, name).to(dtype) for name in ("q", "k", "y", "grad")})

    def signed(self) -> Problem:
        """The same with a random direction for every element."""
        u = torch.randn(len(self.q), 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        return replace(self, directions=u / u.norm(dim=1, keepdim=True))

    def solve(self, backend: str, *, dropout: float = 0.0, seed: int = 0) -> dict[str, Tensor]:
        """The output and every gradient."""
        leaves = {name: getattr(self, name).detach().requires_grad_() for name in ("q", "k", "y")}
        given = {"pattern": self.pattern, "directions": self.directions, "dropout": dropout, "seed": seed}
        out = star_attention(**leaves, **given, backend=backend)
        grads = torch.autograd.grad(out, list(leaves.values()), self.grad)
        return {"out": out.detach(), "dq": grads[0], "dk": grads[1], "dy": grads[2]}


def dense_weights(q: Tensor, k: Tensor, pattern: SparsityPattern[Tensor]) -> Tensor:
    """softmax(q k^T / sqrt(d)) with everything outside the pattern masked: (h, n, n)."""
    n = len(pattern)
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, pattern.indices[pattern.offsets[i] : pattern.offsets[i + 1]].long()] = True
    scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def largest_difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Over the output and all gradients, relative to the largest number of each."""
    return max(
        float((found[name].double() - expected[name].double()).abs().max() / expected[name].double().abs().max())
        for name in expected
    )
