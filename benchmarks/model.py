"""Speed and memory of the model: ratios inside one run, and peaks of processes of their own.

Run `python benchmarks/model.py` for the figures, or import the functions, which return plain dictionaries.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.batch import Batch
from hodgeformer.packed.pack import pack

GIGABYTE = 2**30
HUMAN = ModelConfig(task="segmentation", n_classes=8, blocks="HHHHHHTT", updates="v")
ONE_LAYER = ModelConfig(task="segmentation", n_classes=8, blocks="H", updates="v")


def torus(around: int, across: int) -> Mesh:
    """A closed mesh of around * across vertices and twice as many faces."""
    i, j = np.divmod(np.arange(around * across), across)
    phi, psi = 2 * np.pi * i / around, 2 * np.pi * (j + 0.3 * np.sin(i)) / across
    radius = 1 + (0.4 + 0.05 * np.sin(5 * phi)) * np.cos(psi)
    vertices = np.stack([radius * np.cos(phi), radius * np.sin(phi), 0.4 * np.sin(psi)], axis=1)
    right, up = (i + 1) % around * across + j, i * across + (j + 1) % across
    corner = (i + 1) % around * across + (j + 1) % across
    here = np.arange(around * across)
    return Mesh(vertices, np.concatenate([np.stack([here, right, corner], 1), np.stack([here, corner, up], 1)]))


def human_batch(n_meshes: int = 12) -> Batch:
    """Meshes of 752 vertices with 32 neighbors for vertices and faces and 48 for edges."""
    config = PrepareConfig(n_neighbors={"v": 32, "e": 48, "f": 32})
    return pack([prepare(torus(47, 16), config, seed=i) for i in range(n_meshes)], transpose=True)


def training_step(model: HodgeFormer, batch: Batch) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    target = torch.arange(batch.n.f) % model.config.n_classes

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), target, label_smoothing=0.2).backward()
        optimizer.step()

    return step


class Products(TorchDispatchMode):
    """Records the matrix products of what runs under it, and can repeat them alone."""

    def __init__(self) -> None:
        super().__init__()
        self.operands: dict[Any, tuple[int, Tensor, Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            a, b = args[-2:]
            key = (a.shape, a.stride(), b.shape, b.stride())
            count = self.operands[key][0] if key in self.operands else 0
            self.operands[key] = (count + 1, a.detach(), b.detach())
        return func(*args, **(kwargs or {}))

    @property
    def flops(self) -> int:
        return sum(2 * count * a.numel() * b.shape[-1] for count, a, b in self.operands.values())

    def repeat(self) -> None:
        for count, a, b in self.operands.values():
            for _ in range(count):
                torch.matmul(a, b)


def human_step(n_meshes: int = 12, repeat: int = 5) -> dict[str, float]:
    """A training step of the Human configuration against its dense matrix products alone, in turns."""
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
        "step_seconds": step_seconds,
        "product_seconds": product_seconds,
        "ratio": step_seconds / product_seconds,
        "ratio_of_best": min(seconds["step"]) / min(seconds["products"]),
        "gigaflops_of_products": products.flops / 1e9,
    }


def one_layer(n_vertices: int, *, training: bool, capped: bool, repeat: int = 3) -> dict[str, float]:
    """Time, and the peak of resident memory above the interpreter with its libraries; for a process of its own."""
    half = (n_vertices.bit_length() - 1) // 2
    config = PrepareConfig() if capped else PrepareConfig(max_neighbors=None)
    small = pack([prepare(torus(8, 8), config)])
    model = HodgeFormer(ONE_LAYER).train(training)
    _runner(model, small, training)()  # compiles kernels and loads libraries
    base = psutil.Process().memory_info().rss
    batch = pack([prepare(torus(n_vertices >> half, 1 << half), config)], transpose=training)
    run = _runner(model, batch, training)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    nnz = batch.topology.patterns.map(lambda pattern: pattern.nnz)
    return {
        "n_vertices": n_vertices,
        "seconds": statistics.median(seconds),
        "gigabytes": (_peak_resident() - base) / GIGABYTE,
        "estimated_gigabytes": model.activation_memory(batch.n, nnz, training=training) / GIGABYTE,
    }


def _runner(model: HodgeFormer, batch: Batch, training: bool) -> Callable[[], None]:
    if training:
        return training_step(model, batch)

    def infer() -> None:
        with torch.inference_mode():
            model(batch)

    return infer


def _peak_resident() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured_apart(n_vertices: int, *, training: bool, capped: bool) -> dict[str, float]:
    """`one_layer` in a fresh process, so that its peak is its own."""
    call = f"one_layer({n_vertices}, training={training}, capped={capped})"
    code = f"import json; from model import one_layer; print(json.dumps({call}))"
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    ).stdout
    result: dict[str, float] = json.loads(out)
    return result


def size_table(exponents: range = range(8, 17)) -> dict[str, Any]:
    """One-layer encoder over 2^8 ... 2^16 vertices: rows, and the fitted exponents of growth from 2^12 on."""
    table: dict[str, Any] = {}
    for capped in (False, True):
        for training in (False, True):
            name = f"{'training' if training else 'inference'}, {'capped' if capped else 'sqrt'} neighbors"
            rows = [measured_apart(2**k, training=training, capped=capped) for k in exponents]
            table[name] = {"rows": rows, "growth": {key: _growth(rows, key) for key in ("seconds", "gigabytes")}}
    return table


def _growth(rows: list[dict[str, float]], key: str) -> float:
    large = [row for row in rows if row["n_vertices"] >= 2**12 and row[key] > 0]
    if len(large) < 2:
        return float("nan")
    return float(np.polyfit(np.log([row["n_vertices"] for row in large]), np.log([row[key] for row in large]), 1)[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=16, help="exponent of the largest mesh of the size table")
    parser.add_argument("--only", choices=("step", "sizes"))
    chosen = parser.parse_args()
    if chosen.only != "sizes":
        print(json.dumps(human_step(), indent=1))
    if chosen.only != "step":
        print(json.dumps(size_table(range(8, chosen.largest + 1)), indent=1))
