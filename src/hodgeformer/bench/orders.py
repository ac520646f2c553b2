"""What the order of the vertices costs and brings: how far apart neighbors lie in memory, and how long kernels take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from hodgeformer.bench.yardsticks import bumpy_torus, median_seconds
from hodgeformer.containers import SparsityPattern
from hodgeformer.mesh.mesh import IntArray
from hodgeformer.mesh.order import canonical_faces, canonical_order, inverse
from hodgeformer.mesh.patterns import sparsity_pattern
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.ops.incidence import gradient
from hodgeformer.ops.star_attention import star_attention
from hodgeformer.threads import thread_count

Arrangement = Literal["morton", "rcm", "file, ring by ring", "file, at random"]
_HEADS, _WIDTH = 2, 32


def order_costs(
    n_vertices: int, arrangements: tuple[Arrangement, ...] = get_args(Arrangement), *, repeat: int = 5
) -> list[dict[str, Any]]:
    """The canonical orders against what a file may have, on one torus: a row for each.

    `median_distance` is that in memory of a vertex and another in its row of the pattern, of neighbors along the
    surface alone; a fifth of a row are random connections, which no order brings nearer. Milliseconds are those of
    sorting, and of star attention over vertices and of d0, forward and backward, two heads of 32.
    """
    return [_cost(n_vertices, name, repeat) for name in arrangements]


def _cost(n_vertices: int, name: Arrangement, repeat: int) -> dict[str, Any]:
    mesh = bumpy_torus(n_vertices, shuffled=name != "file, ring by ring")
    faces, vertices, sorting = mesh.faces, mesh.vertices, 0.0
    if name in ("morton", "rcm"):
        order = canonical_order(mesh.vertices, mesh.faces, name)
        sorting = median_seconds(partial(canonical_order, mesh.vertices, mesh.faces, name), repeat)
        faces, vertices = canonical_faces(inverse(order)[mesh.faces])[0], mesh.vertices[order]
    topology = MeshComplex.from_faces(faces, n_vertices)
    n_local, n_random = PrepareConfig().row_sizes(topology.n).v
    local, full = (
        sparsity_pattern("v", topology, vertices, size=size, seed=0, n_threads=thread_count())
        for size in ((n_local, 0), (n_local, n_random))
    )
    row = np.repeat(np.arange(n_vertices), np.diff(local.offsets))
    attention, d0 = _kernels(topology.edges, full, n_vertices)
    return {
        "n_vertices": n_vertices,
        "order": name,
        "median_distance": float(np.median(np.abs(local.indices - row))),
        "sort_ms": 1e3 * sorting,
        "star_attention_ms": 1e3 * median_seconds(attention, repeat),
        "d0_ms": 1e3 * median_seconds(d0, repeat),
    }


def _kernels(
    edges: IntArray, stored: SparsityPattern[Any], n_vertices: int
) -> tuple[Callable[[], object], Callable[[], object]]:
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

    return attention, d0
