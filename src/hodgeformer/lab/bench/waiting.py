"""How long a user waits: whole commands, and a prediction step by step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hodgeformer.base.machine import GIGABYTE, peak_memory
from hodgeformer.lab.bench.yardsticks import bumpy_torus, growth, human_sized_mesh, median_seconds
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.inference import make_views
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

_SIZES = (1 << 12, 1 << 14, 1 << 16, 1 << 18)  # vertices
_FEW = 10_000  # vertices of a mesh on which a prediction is worth repeating


def verb_costs(quick: bool) -> list[dict[str, Any]]:
    """Median seconds of whole commands on a mesh of Human size, each in its own process, after one that warms up."""
    mesh = human_sized_mesh()
    return [
        {"verb": name, "total_seconds": median_seconds(partial(_run, words, mesh), 1 if quick else 5)}
        for name, words in islice(_VERBS.items(), 2 if quick else None)
    ]


def _run(words: tuple[str, ...], mesh: Mesh) -> None:
    with TemporaryDirectory() as folder:
        save_mesh(mesh, Path(folder) / "scan.ply")
        command = [sys.executable, "-m", "hodgeformer", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def waiting_costs(quick: bool) -> list[dict[str, Any]]:
    """Seconds of `predict human scan.ply` at full resolution: until the model is loaded, then step by step.

    The cold start is a process of its own; the steps come after one prediction, so that nothing is compiled in them.
    `frames` is a prediction (prepare and model) over one with a single frame; `peak` is that of the process so far.
    """
    words = "from hodgeformer.predict.predictor import Predictor; Predictor.load('human')"
    repeat = 1 if quick else 3
    start = median_seconds(
        partial(subprocess.run, [sys.executable, "-c", words], check=True), repeat, warm_up=repeat // 2
    )
    predictor = Predictor.load("human")
    checkpoint = predictor.checkpoint
    single = Predictor.from_model(predictor.model, prepare=checkpoint.prepare.replace(pose="frame"))
    for either in (predictor, single):
        either.predict(human_sized_mesh(), faces="original")
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scan.ply"
        for mesh in (human_sized_mesh(), *map(bumpy_torus, () if quick else _SIZES)):
            save_mesh(mesh, file)
            timed = partial(_timed, repeat=7 if mesh.n_vertices < _FEW else 1)
            load, scan = timed(partial(load_mesh, file))
            prepare, _ = timed(partial(make_views, scan, checkpoint.at("original"), model=checkpoint.model))
            one, _ = timed(partial(single.predict, scan, faces="original"))
            both, answer = timed(partial(predictor.predict, scan, faces="original"))
            write, _ = timed(partial(answer.save, Path(folder) / "answer.ply"))
            steps = {"cold_start": start, "load": load, "prepare": prepare, "model": both - prepare, "write": write}
            total, peak = start + load + both + write, (peak_memory() or 0) / GIGABYTE
            rows.append({"n_vertices": mesh.n_vertices, **steps, "total": total, "frames": both / one, "peak": peak})
    if not quick:
        exponents = {step: growth(rows, step, 1 << 14) for step in ("load", "prepare", "model", "write", "peak")}
        rows.append({"n_vertices": "growth from 16,384 on", **exponents})
    return rows


def _timed(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Median seconds of a call, and its result."""
    last: list[Any] = [None]

    def call() -> None:
        last[0] = work()

    return median_seconds(call, repeat, warm_up=0), last[0]
