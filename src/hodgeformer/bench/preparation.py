"""What it costs to prepare a mesh, part by part, and what a user waits for between the command and the files."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hodgeformer.bench.yardsticks import bumpy_torus, human_sized_mesh, median_seconds, product_seconds
from hodgeformer.mesh.features import input_features
from hodgeformer.mesh.geometry import to_unit_sphere
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import canonical_faces, canonical_order, inverse
from hodgeformer.mesh.prepare import PrepareConfig, patterns_of, prepare
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.predict.inference import see
from hodgeformer.predict.predictor import Predictor
from hodgeformer.threads import thread_count


def preparation_costs(*, large: bool = True, repeat: int = 5) -> list[dict[str, Any]]:
    """The three sizes that the project holds itself to."""
    n_threads = thread_count()
    fixed = PrepareConfig(n_neighbors={"v": 32, "e": 48, "f": 32})
    rows = [_cost("Human size, neighbors 32/48/32", human_sized_mesh(), fixed, 1, 0.15, max(repeat, 15))]
    if large:
        uncapped = PrepareConfig(max_neighbors=None)
        rows.append(_cost("16,384 vertices, no cap", bumpy_torus(1 << 14), uncapped, n_threads, 8.0, repeat))
        large_mesh, capped = bumpy_torus(1 << 17), PrepareConfig()
        rows.append(_cost("131,072 vertices, default caps", large_mesh, capped, n_threads, 25.0, repeat))
    return rows


def _cost(name: str, mesh: Mesh, config: PrepareConfig, n_threads: int, target: float, repeat: int) -> dict[str, Any]:
    """Median milliseconds, total and by part, and the total in units of one 2048 x 2048 float32 product."""
    order = canonical_order(mesh.vertices, mesh.faces, config.order)
    faces, _ = canonical_faces(inverse(order)[mesh.faces])
    vertices = to_unit_sphere(mesh.vertices[order], faces)
    topology = MeshComplex.from_faces(faces, mesh.n_vertices)

    def patterns() -> object:
        return patterns_of(topology, vertices, config, topology.n, 0, n_threads)

    total = median_seconds(lambda: prepare(mesh, config, n_threads=n_threads), repeat)
    product = product_seconds(n_threads)
    parts: dict[str, Callable[[], object]] = {
        "order": lambda: canonical_order(mesh.vertices, mesh.faces, config.order),
        "complex": lambda: MeshComplex.from_faces(faces, mesh.n_vertices),
        "features": lambda: input_features(vertices, topology, config.features),
        "patterns": patterns,
    }
    return {
        "mesh": name,
        "n_vertices": mesh.n_vertices,
        "n_threads": n_threads,
        "total": 1e3 * total,
        **{part: 1e3 * median_seconds(work, repeat) for part, work in parts.items()},
        "product": 1e3 * product,
        "products": total / product,
        "target": target,
    }


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
