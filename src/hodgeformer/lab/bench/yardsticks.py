"""Shared by the measurements: closed meshes of any size, and medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.simplify import simplify


def bumpy_torus(n_vertices: int, seed: int = 0) -> Mesh:
    """A closed, irregular torus of n_vertices (a power of two), numbered at random."""
    exponent = n_vertices.bit_length() - 1
    if n_vertices != 1 << exponent or exponent < 4:
        raise ValueError(f"the torus has 2^k vertices, k at least 4, got {n_vertices}")
    rng = np.random.default_rng(seed)
    n_around, n_across = 1 << (exponent + 1) // 2, 1 << exponent // 2
    i, j = np.divmod(np.arange(n_vertices), n_across)
    angle, turn = (
        (i + rng.uniform(0, 0.4, n_vertices)) / n_around,
        (j + rng.uniform(0, 0.4, n_vertices)) / n_across,
    )
    angle, turn = 2 * np.pi * angle, 2 * np.pi * turn
    radius = 1 + (0.4 + 0.05 * np.sin(5 * angle)) * np.cos(turn)
    vertices = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.4 * np.sin(turn)], axis=1)
    right, up = (i + 1) % n_around * n_across + j, i * n_across + (j + 1) % n_across
    corner = (i + 1) % n_around * n_across + (j + 1) % n_across
    here = np.arange(n_vertices)
    faces = np.concatenate([np.stack([here, right, corner], 1), np.stack([here, corner, up], 1)])
    number = rng.permutation(n_vertices)
    renumbered = np.empty_like(vertices)
    renumbered[number] = vertices
    return Mesh(renumbered, number[faces], name=f"torus-{n_vertices}")


def human_sized_mesh() -> Mesh:
    """A closed mesh of 752 vertices and 1,500 faces or nearly so, the size of the Human benchmark."""
    return simplify(bumpy_torus(4096), 1504).mesh


def median_seconds(work: Callable[[], object], repeat: int = 5, warm_up: int = 1) -> float:
    """The median wall time of a call, after `warm_up` calls that do not count."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def growth(rows: Sequence[Mapping[str, Any]], key: str, smallest: int = 1) -> float:
    """The exponent of growth with the number of vertices, fitted over the rows of at least `smallest` vertices."""
    fitted = [row for row in rows if row["n_vertices"] >= smallest and row[key] > 0]
    if len(fitted) < 2:
        return float("nan")
    return float(np.polyfit(np.log([row["n_vertices"] for row in fitted]), np.log([row[key] for row in fitted]), 1)[0])
