"""Time and memory of a one-layer encoder over mesh sizes, and how they grow."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from hodgeformer.bench.memory import GIGABYTE, peak_resident, resident
from hodgeformer.bench.meshes import bumpy_torus
from hodgeformer.bench.training import training_step
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.batch import Batch
from hodgeformer.packed.pack import pack

ONE_LAYER = ModelConfig(task="segmentation", n_classes=8, blocks="H", updates="v")
Row = dict[str, float]


def one_layer(n_vertices: int, *, training: bool, capped: bool, repeat: int = 3) -> Row:
    """Median time, and the peak of resident memory above the interpreter; for a process of its own."""
    config = PrepareConfig() if capped else PrepareConfig(max_neighbors=None)
    prepared = [prepare(bumpy_torus(n_vertices), config)]
    small = pack([prepare(bumpy_torus(64), config)], transpose=training)
    model = HodgeFormer(ONE_LAYER).train(training)
    _runner(model, small, training)()  # compiles kernels and loads libraries
    base = resident()
    batch = pack(prepared, transpose=training)
    del prepared
    run = _runner(model, batch, training)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return {
        "n_vertices": n_vertices,
        "seconds": statistics.median(seconds),
        "gigabytes": (peak_resident() - base) / GIGABYTE,
    }


def _runner(model: HodgeFormer, batch: Batch, training: bool) -> Callable[[], None]:
    if training:
        return training_step(model, batch)

    def infer() -> None:
        with torch.inference_mode():
            model(batch)

    return infer


def measured_apart(n_vertices: int, *, training: bool, capped: bool) -> Row:
    """`one_layer` in a fresh process, so that its peak is its own."""
    call = f"one_layer({n_vertices}, training={training}, capped={capped})"
    code = f"import json; from hodgeformer.bench.sizes import one_layer; print(json.dumps({call}))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    row: Row = json.loads(run.stdout)
    return row


def size_rows(exponents: range) -> Iterator[tuple[str, Row]]:
    """(configuration, row) for each kind of pass and each size 2^k, as they are measured."""
    for capped in (False, True):
        for training in (False, True):
            name = f"{'training' if training else 'inference'}, {'capped' if capped else 'sqrt'} neighbors"
            for k in exponents:
                yield name, measured_apart(2**k, training=training, capped=capped)


def growth(rows: list[Row], key: str, smallest: int = 1) -> float:
    """The exponent of growth with the number of vertices, fitted over the rows of at least `smallest` vertices."""
    fitted = [row for row in rows if row["n_vertices"] >= smallest and row[key] > 0]
    if len(fitted) < 2:
        return float("nan")
    return float(np.polyfit(np.log([row["n_vertices"] for row in fitted]), np.log([row[key] for row in fitted]), 1)[0])
