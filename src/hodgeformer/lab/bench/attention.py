"""The direct form of star attention that the kernels replace: keys and values gathered to (h, n, s, d)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hodgeformer.base.containers import SparsityPattern
from hodgeformer.base.memory import peak_memory, used_memory
from hodgeformer.kernels.star import star_attention
from hodgeformer.lab.bench.yardsticks import median_seconds


def gather_attention(*, q: Tensor, k: Tensor, y: Tensor, neighbors: Tensor) -> Tensor:
    """Attention of every row over neighbors (n, s), by indexing; q, k, y: (n, h, d)."""
    q, k, y = (x.transpose(0, 1) for x in (q, k, y))
    scores = torch.einsum("hnd,hnsd->hns", q, k[:, neighbors]) * q.shape[-1] ** -0.5
    return torch.einsum("hns,hnsd->hnd", scores.softmax(-1), y[:, neighbors]).transpose(0, 1)


def mesh_like_neighbors(n: int, s: int, *, seed: int = 0) -> Tensor:
    """Four of five neighbors near the row in memory, one of five anywhere: like a sorted mesh."""
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


def attention_costs(quick: bool) -> list[dict[str, Any]]:
    """The kernel compared with the gather at two sizes."""
    sizes = [(512, 16)] if quick else [(2250, 48), (9216, 96)]
    return [{**_compared(n, s), "target_speedup": 20.0, "target_memory": 3.0} for n, s in sizes]


def _compared(n: int, s: int, n_heads: int = 4, d_head: int = 64) -> dict[str, float]:
    """Median seconds of forward and of forward + backward for both, their ratio, and the kernel's extra memory.

    Extra memory is everything except q, k, y, the pattern and the incoming gradient: result, gradients and what is
    saved between the passes, as a multiple of q, k and y. NaN if the system does not report it.
    """
    generator = torch.Generator().manual_seed(0)
    q, k, y, grad = (torch.randn(n, n_heads, d_head, generator=generator) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, y)]
    neighbors = mesh_like_neighbors(n, s)
    pattern = pattern_of(neighbors)

    def gather() -> Tensor:
        return gather_attention(q=q, k=k, y=y, neighbors=neighbors)

    def fused() -> Tensor:
        return star_attention(q=q, k=k, y=y, pattern=pattern)

    def both_passes(run: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(run(), leaves, grad)

    _warm_up(n_heads, d_head)
    figures: dict[str, float] = {"n": n, "s": s, "n_heads": n_heads, "d_head": d_head}
    figures["extra_memory"] = _extra_bytes(both_passes(fused)) / (3 * q.numel() * q.element_size())
    for name, run, times in (("fused", fused, 7), ("gather", gather, 3)):
        figures[f"{name}_forward_s"] = median_seconds(run, times)
        figures[f"{name}_s"] = median_seconds(both_passes(run), times)
    figures["speedup"] = figures["gather_s"] / figures["fused_s"]
    figures["gflops"] = 12 * n * s * n_heads * d_head / figures["fused_s"] / 1e9
    return figures


def _warm_up(n_heads: int, d_head: int) -> None:
    """Compile on a tiny problem, so that neither time nor memory of it is counted."""
    q, k, y = (torch.zeros(256, n_heads, d_head, requires_grad=True) for _ in range(3))
    pattern = pattern_of(mesh_like_neighbors(256, 4))
    out = star_attention(q=q, k=k, y=y, pattern=pattern)
    torch.autograd.grad(out, (q, k, y), torch.ones_like(out))


def _extra_bytes(run: Callable[[], object]) -> float:
    """The rise of the resident memory during a call, on Linux."""
    clear = Path("/proc/self/clear_refs")
    if not clear.exists():
        return math.nan
    clear.write_text("5")  # resets the high-water mark
    before = used_memory() or 0
    run()
    return (peak_memory() or 0) - before
