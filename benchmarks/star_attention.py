"""The straightforward star attention, with keys and values gathered to (h, n, s, d): what the kernels replace."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from hodgeformer.containers import SparsityPattern
from hodgeformer.ops.star_attention import star_attention


def gather_attention(*, q: Tensor, k: Tensor, y: Tensor, neighbors: Tensor) -> Tensor:
    """Attention of every row over neighbors (n, s), by indexing; q, k, y: (n, h, d)."""
    q, k, y = (x.transpose(0, 1) for x in (q, k, y))
    scores = torch.einsum("hnd,hnsd->hns", q, k[:, neighbors]) * q.shape[-1] ** -0.5
    return torch.einsum("hns,hnsd->hnd", scores.softmax(-1), y[:, neighbors]).transpose(0, 1)


def mesh_like_neighbors(n: int, s: int, *, seed: int = 0) -> Tensor:
    """Four of five neighbors near the row in memory, one of five anywhere: what a sorted mesh looks like."""
    generator = torch.Generator().manual_seed(seed)
    n_local = s * 4 // 5
    near = torch.randint(-2 * s, 2 * s + 1, (n, n_local), generator=generator)
    local = (torch.arange(n)[:, None] + near) % n
    far = torch.randint(0, n, (n, s - n_local), generator=generator)
    return torch.cat([local, far], 1)


def pattern_of(neighbors: Tensor) -> SparsityPattern[Tensor]:
    n, s = neighbors.shape
    pattern = SparsityPattern.from_csr(torch.arange(0, n * s + 1, s), neighbors.flatten().int())
    _ = pattern.transposed
    return pattern


def compare(
    *, n: int, s: int, n_heads: int = 4, d_head: int = 64, repeats: int = 7, backend: str = "auto"
) -> dict[str, float]:
    """Median seconds of forward and forward + backward for both, and how many times faster the kernel is."""
    generator = torch.Generator().manual_seed(0)
    q, k, y, grad = (torch.randn(n, n_heads, d_head, generator=generator) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, y)]
    neighbors = mesh_like_neighbors(n, s)
    pattern = pattern_of(neighbors)

    def gather() -> Tensor:
        return gather_attention(q=q, k=k, y=y, neighbors=neighbors)

    def fused() -> Tensor:
        return star_attention(q=q, k=k, y=y, pattern=pattern, backend=backend)

    figures: dict[str, float] = {"n": n, "s": s, "n_heads": n_heads, "d_head": d_head}
    for name, run, times in (("gather", gather, 3), ("fused", fused, repeats)):
        figures[f"{name}_forward_s"] = _median_seconds(run, times)
        figures[f"{name}_s"] = _median_seconds(lambda run=run: torch.autograd.grad(run(), leaves, grad), times)
    figures["speedup"] = figures["gather_s"] / figures["fused_s"]
    figures["gflops"] = 12 * n * s * n_heads * d_head / figures["fused_s"] / 1e9
    return figures


def _median_seconds(run: Callable[[], object], repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
