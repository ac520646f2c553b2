"""What a user waits for: each verb from the command to its end, and a prediction step by step."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hodgeformer.bench.yardsticks import bumpy_torus, human_sized_mesh, median_seconds
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.inference import see
from hodgeformer.predict.predictor import Predictor

_VERBS: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "check scan.ply": ("check", "scan.ply"),
    "predict human scan.ply": ("predict", "human", "scan.ply"),
    "predict shrec11 scan.ply": ("predict", "shrec11", "scan.ply"),
    "train, one epoch of one batch": (
        "train", "synthetic_cubes", "--set", "data.n_train=1", "--set", "data.n_test=1", "--set", "data.n_classes=2",
        "--set", "train.epochs=1", "--set", "train.workers=0", "--out", "run",
    ),
}  # fmt: skip


def verb_costs(first: int | None = None, repeat: int = 5) -> list[dict[str, Any]]:
    """Median seconds of whole commands on a mesh of Human size, each a process of its own, after one that warms up.

    `first` leaves out all but so many.
    """
    mesh = human_sized_mesh()
    return [
        {"verb": name, "total_seconds": median_seconds(partial(_run, words, mesh), repeat)}
        for name, words in islice(_VERBS.items(), first)
    ]


def _run(words: tuple[str, ...], mesh: Mesh) -> None:
    with TemporaryDirectory() as folder:
        save_mesh(mesh, Path(folder) / "scan.ply")
        command = [sys.executable, "-m", "hodgeformer", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def waiting_costs(model: str, n_vertices: tuple[int, ...]) -> list[dict[str, Any]]:
    """Seconds of `predict MODEL scan.ply` at full resolution: until the model is there, then step by step.

    The cold start is a process of its own; the steps come after one prediction, so that nothing is compiled in them.
    """
    words = f"from hodgeformer.predict.predictor import Predictor; Predictor.load({model!r})"
    repeat = 3 if n_vertices else 1
    start = median_seconds(
        partial(subprocess.run, [sys.executable, "-c", words], check=True), repeat, warm_up=repeat // 2
    )
    predictor = Predictor.load(model)
    predictor.predict(human_sized_mesh(), faces="original")
    config, rows = predictor.checkpoint.at("original"), []
    meshes = [human_sized_mesh(), *map(bumpy_torus, n_vertices)]
    with TemporaryDirectory() as folder:
        for mesh in meshes:
            file = Path(folder) / "scan.ply"
            save_mesh(mesh, file)
            times = [time.perf_counter()]
            scan = load_mesh(file)
            times.append(time.perf_counter())
            see(scan, config, reads_order=predictor.checkpoint.model.reads_order)
            times.append(time.perf_counter())
            result = predictor.predict(scan, faces="original")
            times.append(time.perf_counter())
            result.save(Path(folder) / "answer.ply")
            times.append(time.perf_counter())
            load, prepared, both, write = np.diff(times)
            steps = {"cold_start": start, "load": load, "prepare": prepared, "model": both - prepared, "write": write}
            rows.append({"n_vertices": mesh.n_vertices, **steps, "total_seconds": start + load + both + write})
    return rows
