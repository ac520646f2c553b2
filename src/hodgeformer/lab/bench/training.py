"""A training step of the paper's models compared with its dense matrix products, and an epoch of a recipe."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hodgeformer.base.machine import thread_count
from hodgeformer.kernels import linear
from hodgeformer.lab.bench.yardsticks import bumpy_torus, human_sized_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack
from hodgeformer.training.setup import Setup, set_up

MODELS: dict[str, tuple[ModelConfig, Callable[[], Mesh]]] = {
    "Human": (ModelConfig(task="segmentation", n_classes=8, blocks="HHHHHHTT", updates="v"), human_sized_mesh),
    "SHREC11": (
        ModelConfig(task="classification", n_classes=30, blocks="HHHHHH", updates="v"),
        lambda: bumpy_torus(256),
    ),
}
"""The paper's two sizes: 752 vertices, and about 250."""
_WAITED_BATCHES = 100


def batch_of(mesh: Mesh, n_meshes: int) -> Batch:
    """Copies of the mesh, with 32 neighbors for vertices and faces and 48 for edges, other random ones in each copy."""
    config = PrepareConfig(n_neighbors={"v": 32, "e": 48, "f": 32})
    return pack([prepare(mesh, config, seed=i) for i in range(n_meshes)], transpose=True)


def training_step(model: HodgeFormer, batch: Batch) -> Callable[[], None]:
    """Forward, backward and optimizer on one batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    n_rows = len(batch) if model.config.target_kind is None else batch.n.f
    target = torch.arange(n_rows) % model.config.n_classes

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), target, label_smoothing=0.2)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the matrix products computed within it, and repeats them alone on the same operands.

    They are repeated as they were computed, by PyTorch or by our own code; `by_torch` gives all of them to PyTorch.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operands: list[tuple[Tensor, Tensor]] = []
        self._own: list[bool] = []

    def __enter__(self) -> Self:
        self._multiply_into = linear.multiply_into
        linear.multiply_into = self._record_own
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        linear.multiply_into = self._multiply_into
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def _record_own(self, out: Tensor, a: Tensor, b: Tensor, *, start: Tensor | None = None) -> None:
        self._record(a, b, own=True)
        self._multiply_into(out, a, b, start=start)

    def _record(self, a: Tensor, b: Tensor, *, own: bool) -> None:
        self.operands.append((a.detach(), b.detach()))
        self._own.append(own)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            self._record(*args[-2:], own=False)
        return func(*args, **(kwargs or {}))

    def repeat(self) -> None:
        for (a, b), own in zip(self.operands, self._own, strict=True):
            if own:
                linear.multiply_into(a.new_empty(a.shape[0], b.shape[1]), a, b)
            else:
                torch.matmul(a, b)

    def by_torch(self) -> None:
        for a, b in self.operands:
            torch.matmul(a, b)


def step_costs(quick: bool) -> list[dict[str, Any]]:
    sizes = [("SHREC11", 1)] if quick else [("Human", 1), ("Human", 4), ("Human", 12), ("SHREC11", 16)]
    return [_step_cost(*size, repeat=1 if quick else 5) for size in sizes]


def _step_cost(name: str, n_meshes: int, repeat: int) -> dict[str, Any]:
    """Median seconds of a step and of its products, measured in turns, and their ratio."""
    torch.manual_seed(0)
    config, mesh = MODELS[name]
    batch, model = batch_of(mesh(), n_meshes), HodgeFormer(config).train()
    step, products = training_step(model, batch), Products()
    with products:
        step()
    parts = {"step": step, "products": products.repeat, "products by torch": products.by_torch}
    seconds: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(repeat):
        for part, work in parts.items():
            start = time.perf_counter()
            work()
            seconds[part].append(time.perf_counter() - start)
    step_seconds, product_seconds, torch_seconds = (statistics.median(seconds[part]) for part in parts)
    return {
        "model": name,
        "meshes": n_meshes,
        "threads": torch.get_num_threads(),
        "step_seconds": step_seconds,
        "product_seconds": product_seconds,
        "torch_product_seconds": torch_seconds,
        "ratio": step_seconds / product_seconds,
        "ratio_to_torch": step_seconds / torch_seconds,
        "target": 1.5,
    }


STARS: dict[str, dict[str, Any]] = {
    "DDDD, cotangent stars": {"blocks": "DDDD", "star_bound": 0.0},
    "DDDD, learned stars": {"blocks": "DDDD", "star_bound": 3.0},
    "DHDD, learned stars": {"blocks": "DHDD", "star_bound": 3.0},
    "DHDD, learned stars with signs": {"blocks": "DHDD", "star_bound": 3.0, "signed_stars": True},
}


def star_costs(quick: bool) -> list[dict[str, Any]]:
    """A step of each, in turns, on a mesh of Human size: the surface measured, forward, backward and optimizer.

    What does not depend on the stars (augmentation, input features, patterns) is not counted, so a ratio is larger than
    that of whole epochs.
    """
    prepare_config = PrepareConfig(n_neighbors=32, features=("coords", "normals", "distances"))
    batch = pack([prepare(human_sized_mesh(), prepare_config)], transpose=True)
    shape = {"task": "segmentation", "n_classes": 8, "updates": "v", "d_model": 96, "d_hidden": 192, "n_heads": 4}
    given = {"in_features": dict(prepare_config.widths.items()), "edge_reversal": prepare_config.edge_reversal}
    steps = {
        name: training_step(HodgeFormer(ModelConfig.parse({**shape, **given, **changes})).train(), batch)
        for name, changes in STARS.items()
    }
    milliseconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(5 if quick else 62):
        for name, step in steps.items():
            batch.topology.__dict__.pop("surface", None)
            start = time.process_time()
            step()
            if turn >= 2:  # the first ones compile
                milliseconds[name].append(1e3 * (time.process_time() - start))
    medians = {name: statistics.median(values) for name, values in milliseconds.items()}
    fixed = medians["DDDD, cotangent stars"]
    return [{"blocks": name, "step_ms": median, "ratio": median / fixed} for name, median in medians.items()]


def recipe_cost(recipe: Path | str) -> dict[str, Any]:
    """Processor seconds of one epoch of a configuration in one process, and the share of time waiting for workers.

    The second epoch is measured: the first reads files.
    """
    with TemporaryDirectory() as folder:
        setup = set_up(recipe, folder, settings=["train.workers=0"])
    learner, loader, seconds = setup.learner(), setup.training_loader(), {"prepare": 0.0, "learn": 0.0}
    for _ in loader.batches(0):
        pass
    batches = iter(loader.batches(1))
    for _ in range(loader.n_batches):
        start = time.process_time()
        batch = next(batches)
        ready = time.process_time()
        learner.learn(batch, 1e-3)
        seconds["prepare"] += ready - start
        seconds["learn"] += time.process_time() - ready
    total = seconds["prepare"] + seconds["learn"]
    return {
        "model": Path(recipe).stem,
        "meshes": setup.config.train.batch_size,
        "threads": torch.get_num_threads(),
        "epoch_cpu_seconds": total,
        "prepare_share": seconds["prepare"] / total,
        "waited_share": waited_share(setup),
    }


def waited_share(setup: Setup) -> float:
    """The share of wall time that a step waits for its batch, with as many workers as a plan gives."""
    learner = setup.learner()
    with setup.training_loader(workers=min(2, thread_count())) as loader:
        next(iter(loader.batches(0)))  # starts the workers
        waited, start = loader.seconds_waited, time.perf_counter()
        for batch in islice(loader.batches(0, 1), _WAITED_BATCHES):
            learner.learn(batch, 1e-3)
        return (loader.seconds_waited - waited) / (time.perf_counter() - start)
