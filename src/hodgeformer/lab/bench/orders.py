"""What the order of the vertices costs and brings: how far apart neighbors lie in memory, and how long kernels take."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from hodgeformer.base.containers import SparsityPattern
from hodgeformer.base.threads import thread_count
from hodgeformer.kernels.incidence import gradient
from hodgeformer.kernels.star_attention import star_attention
from hodgeformer.lab.bench.yardsticks import bumpy_torus, median_seconds
from hodgeformer.mesh.mesh import IntArray
from hodgeformer.mesh.order import canonical_faces, canonical_order, inverse
from hodgeformer.mesh.patterns import sparsity_pattern
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.mesh.topology import MeshComplex

Arrangement = Literal["morton", "file, ring by ring", "file, at random"]
_HEADS, _WIDTH = 2, 32


def order_costs(n_vertices: int, *, repeat: int = 7) -> list[dict[str, Any]]:
    """The canonical order against what a file may have, on one torus: a row for each.

    `median_distance` is that in memory of a vertex and another in its row of the pattern, of neighbors along the
    surface alone; a fifth of a row are random connections, which no order brings nearer. Milliseconds are those of
    sorting, and of star attention over vertices and of d0, forward and backward, two heads of 32; all orders in turns.
    """
    found = [_arranged(n_vertices, name) for name in get_args(Arrangement)]
    seconds: dict[tuple[int, str], list[float]] = {}
    for _ in range(repeat):
        for i, (_, works) in enumerate(found):
            for what, work in works.items():
                seconds.setdefault((i, what), []).append(median_seconds(work, repeat=1))
    return [
        about | {f"{what}_ms": 1e3 * statistics.median(seconds[i, what]) for what in works}
        for i, (about, works) in enumerate(found)
    ]


def _arranged(n_vertices: int, name: Arrangement) -> tuple[dict[str, Any], dict[str, Callable[[], object]]]:
    """What is to be said of an order without a clock, and what is to be timed."""
    mesh = bumpy_torus(n_vertices, shuffled=name != "file, ring by ring")
    faces, vertices, works = mesh.faces, mesh.vertices, {}
    if name == "morton":
        works["sort"] = partial(canonical_order, mesh.vertices, mesh.faces)
        order = works["sort"]()
        faces, vertices = canonical_faces(inverse(order)[mesh.faces])[0], mesh.vertices[order]
    topology = MeshComplex.from_faces(faces, n_vertices)
    n_local, n_random = PrepareConfig().row_sizes(topology.n).v
    local, full = (
        sparsity_pattern("v", topology, vertices, size=size, seed=0, n_threads=thread_count())
        for size in ((n_local, 0), (n_local, n_random))
    )
    row = np.repeat(np.arange(n_vertices), np.diff(local.offsets))
    distance = float(np.median(np.abs(local.indices.astype(np.int64) - row)))
    about = {"n_vertices": n_vertices, "order": name, "median_distance": distance}
    return about, works | _kernels(topology.edges, full, n_vertices)


def _kernels(edges: IntArray, stored: SparsityPattern[Any], n_vertices: int) -> dict[str, Callable[[], object]]:
    """Both passes of star attention over vertices, and of d0."""
    pattern: SparsityPattern[Tensor] = SparsityPattern.from_csr(
        torch.from_numpy(stored.offsets), torch.from_numpy(stored.indices)
    )
    _ = pattern.transposed
    generator = torch.Generator().manual_seed(0)
    q, k, y, grad = (torch.randn(n_vertices, _HEADS, _WIDTH, generator=generator) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, y)]
    incidence = gradient(torch.from_numpy(edges), n_vertices)
    over_edges = torch.randn(len(edges), _HEADS, _WIDTH, generator=generator)

    def attention() -> object:
        return torch.autograd.grad(star_attention(q=q, k=k, y=y, pattern=pattern), leaves, grad)

    def d0() -> object:
        return torch.autograd.grad(incidence.apply(y), y, over_edges)

    return {"star_attention": attention, "d0": d0}
