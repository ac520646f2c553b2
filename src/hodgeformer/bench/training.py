"""A training step of the Human configuration against its dense matrix products alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hodgeformer.bench.yardsticks import human_sized_mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.pack import Batch, pack

HUMAN = ModelConfig(task="segmentation", n_classes=8, blocks="HHHHHHTT", updates="v")


def human_batch(n_meshes: int = 12) -> Batch:
    """Meshes of 752 vertices with 32 neighbors for vertices and faces and 48 for edges."""
    config = PrepareConfig(n_neighbors={"v": 32, "e": 48, "f": 32})
    mesh = human_sized_mesh()
    return pack([prepare(mesh, config, seed=i) for i in range(n_meshes)], transpose=True)


def training_step(model: HodgeFormer, batch: Batch) -> Callable[[], None]:
    """Forward, backward and optimizer on one batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    target = torch.arange(batch.n.f) % model.config.n_classes

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), target, label_smoothing=0.2)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the matrix products of what runs under it, and can repeat them alone, on the same operands in turn."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operands: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            a, b = args[-2:]
            self.operands.append((a.detach(), b.detach()))
        return func(*args, **(kwargs or {}))

    @property
    def flops(self) -> int:
        return sum(2 * a.numel() * b.shape[-1] for a, b in self.operands)

    def repeat(self) -> None:
        for a, b in self.operands:
            torch.matmul(a, b)


def human_step(n_meshes: int = 12, repeat: int = 5) -> dict[str, float]:
    """Median seconds of a step and of its products, measured in turns, and their ratio."""
    torch.manual_seed(0)
    batch, model = human_batch(n_meshes), HodgeFormer(HUMAN).train()
    step, products = training_step(model, batch), Products()
    with products:
        step()
    seconds: dict[str, list[float]] = {"step": [], "products": []}
    for _ in range(repeat):
        for name, work in (("step", step), ("products", products.repeat)):
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    step_seconds, product_seconds = (statistics.median(seconds[name]) for name in ("step", "products"))
    return {
        "meshes": n_meshes,
        "threads": torch.get_num_threads(),
        "step_seconds": step_seconds,
        "product_seconds": product_seconds,
        "ratio": step_seconds / product_seconds,
        "ratio_of_best": min(seconds["step"]) / min(seconds["products"]),
        "gigaflops_of_products": products.flops / 1e9,
        "target": 1.8,
    }
