"""Time and memory on the machine at hand: the paper's size table and runtime table.

Every figure is measured in a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeVar

import torch

from hodgeformer.base.machine import GIGABYTE, peak_memory, used_memory
from hodgeformer.base.settings import Table
from hodgeformer.lab.bench.yardsticks import bumpy_torus
from hodgeformer.mesh.features import PAPER_GROUPS
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack
from hodgeformer.training.config import with_overrides
from hodgeformer.training.setup import set_up
from hodgeformer.training.trial import timed_steps

T = TypeVar("T")
Work = Literal["encoder, training", "encoder, inference", "layer, inference"]
WORKS: tuple[Work, ...] = ("encoder, training", "encoder, inference", "layer, inference")
PAPER_EXPONENTS = (8, 10, 12, 14)
PAPER_MILLISECONDS: dict[Work, tuple[float, ...]] = {
    "encoder, training": (5.78, 8.98, 29.72, 197.9),
    "encoder, inference": (2.50, 3.42, 10.96, 66.13),
    "layer, inference": (1.08, 1.91, 9.42, 55.25),
}
PAPER_GIGABYTES: dict[Work, tuple[float, ...]] = {
    "encoder, training": (0.12, 0.40, 2.54, 19.23),
    "encoder, inference": (0.09, 0.31, 2.08, 15.89),
    "layer, inference": (0.09, 0.31, 2.08, 15.89),
}
PAPER_RUNTIME = {
    "training": {"epoch_seconds": 17.58, "model_seconds": 8.36, "batch_milliseconds": 263.57, "gigabytes": 14.21},
    "testing": {"epoch_seconds": 1.97, "model_seconds": 0.40, "batch_milliseconds": 22.41, "gigabytes": 0.41},
}
"""On one RTX 4090, Human, batch size 12 in training and 1 in testing; `model_seconds` are those of the GPU."""
ONE_LAYER = ModelConfig(task="segmentation", n_classes=8, element="face", blocks="H", updates="v")
HUMAN_MODEL: Table = {"blocks": "HHTHHTHH", "updates": "v", "d_model": 256, "d_hidden": 512, "n_heads": 4}
HUMAN_PREPARE: Table = {"size": "sphere", "features": list(PAPER_GROUPS)}
HUMAN_BATCH = 12
_BATCHES, _MESHES = 3, 8  # that are measured
ENOUGH_SECONDS = 1.0  # after which a median needs no more repetitions


@dataclass(frozen=True)
class Cost:
    """The median time of one pass, and the peak of memory above that of the interpreter with its libraries."""

    seconds: float
    gigabytes: float


def size_rows(exponents: Iterable[int], config: PrepareConfig) -> Iterator[dict[str, Any]]:
    """Each kind of work on tori of 2^k vertices, each in its own process."""
    small = bumpy_torus(64)
    for work in WORKS:
        for exponent in exponents:
            cost = apart(size_cost, bumpy_torus(1 << exponent), small, work, config)
            yield size_row(work, 1 << exponent, cost)


def size_row(work: Work, n_vertices: int, cost: Cost) -> dict[str, Any]:
    """For tables, with the paper's figures where it has them."""
    exponent = n_vertices.bit_length() - 1
    place = PAPER_EXPONENTS.index(exponent) if exponent in PAPER_EXPONENTS else None
    return {
        "work": work,
        "vertices": n_vertices,
        "milliseconds": round(1e3 * cost.seconds, 2),
        "gigabytes": round(cost.gigabytes, 3),
        "paper_milliseconds": None if place is None else PAPER_MILLISECONDS[work][place],
        "paper_gigabytes": None if place is None else PAPER_GIGABYTES[work][place],
    }


def human_tables(source: Table, settings: Sequence[str]) -> dict[str, Table]:
    """The paper's Human model on the data of `source`, with changed settings."""
    train = {"batch_size": HUMAN_BATCH, "workers": 0}
    return with_overrides({"data": source, "prepare": HUMAN_PREPARE, "model": HUMAN_MODEL, "train": train}, settings)


def runtime_rows(tables: Table) -> list[dict[str, Any]]:
    """Training and testing as `tables` describe them; an epoch is scaled up from some batches and meshes.

    Preparation runs in the process of the model, so that its share is the true one.
    """
    rows: list[dict[str, Any]] = []
    for name, measure, number in (("training", _training_cost, _BATCHES), ("testing", _testing_cost, _MESHES)):
        paper = {f"paper_{key}": figure for key, figure in PAPER_RUNTIME[name].items()}
        rows.append({"part": name, **apart(measure, tables, number), **paper})
    return rows


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of this project in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def size_cost(mesh: Mesh, small: Mesh, work: Work, config: PrepareConfig) -> Cost:
    """One pass over a mesh; `small` compiles kernels and loads libraries before."""
    torch.manual_seed(0)
    model = HodgeFormer(ONE_LAYER).train(work == "encoder, training")
    prepared = prepare(mesh, config)
    _pass_over(model, pack([prepare(small, config)]), work)()
    before = used_memory() or 0
    batch = pack([prepared], transpose=model.training)
    del prepared
    run = _pass_over(model, batch, work)
    run()
    seconds: list[float] = []
    while len(seconds) < 3 or (sum(seconds) < ENOUGH_SECONDS and len(seconds) < 30):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return Cost(statistics.median(seconds), ((peak_memory() or 0) - before) / GIGABYTE)


def _pass_over(model: HodgeFormer, batch: Batch, work: Work) -> Callable[[], object]:
    if work == "encoder, training":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        target = torch.arange(batch.n.f) % model.config.n_classes

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), target).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return step
    with torch.inference_mode():
        x = model.embedding(batch.x_in, batch.topology)

    def infer() -> object:
        with torch.inference_mode():
            return model.encoder.blocks[0](x, batch.topology) if work == "layer, inference" else model(batch)

    return infer


def _training_cost(tables: Table, n_batches: int) -> dict[str, float]:
    setup = set_up(tables, ".")
    return _runtime(*timed_steps(setup, setup.learner(), n_batches))


def _testing_cost(tables: Table, n_meshes: int) -> dict[str, float]:
    """Batch size 1: read, prepare and predict mesh by mesh."""
    setup = set_up(tables, ".")
    samples = setup.dataset.split(setup.tested or "train")
    model = setup.learner().model.eval()
    waited, model_seconds = 0.0, []
    for number, sample in enumerate([samples[0], *islice(samples, n_meshes)]):
        began = time.perf_counter()
        batch = pack([prepare(setup.dataset.load(sample)[0], setup.config.prepare)])
        ready = time.perf_counter()
        with torch.inference_mode():
            model(batch)
        if number:  # the first one compiles kernels
            waited += ready - began
            model_seconds.append(time.perf_counter() - ready)
    return _runtime(model_seconds, waited, len(samples))


def _runtime(model_seconds: Sequence[float], prepare_seconds: float, n_batches: int) -> dict[str, float]:
    n, model = len(model_seconds), sum(model_seconds)
    return {
        "batches": n_batches,
        "epoch_seconds": round((model + prepare_seconds) / n * n_batches, 3),
        "model_seconds": round(model / n * n_batches, 3),
        "batch_milliseconds": round(1e3 * statistics.median(model_seconds), 2),
        "preparation_share": round(prepare_seconds / (model + prepare_seconds), 4),
        "gigabytes": round((peak_memory() or 0) / GIGABYTE, 3),
    }
