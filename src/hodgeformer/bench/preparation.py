"""What it costs to prepare a mesh, part by part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hodgeformer.bench.yardsticks import bumpy_torus, human_sized_mesh, median_seconds, product_seconds
from hodgeformer.mesh.features import input_features
from hodgeformer.mesh.geometry import to_unit_sphere
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import OrderName, canonical_faces, canonical_order, inverse
from hodgeformer.mesh.patterns import sparsity_patterns
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.threads import thread_count


@dataclass(frozen=True)
class PreparationCost:
    """Median milliseconds, total and by part, and the total in units of one 2048 x 2048 float32 product."""

    mesh: str
    n_vertices: int
    n_threads: int
    total: float
    order: float
    complex: float
    features: float
    patterns: float
    product: float
    products: float
    target: float


def preparation_costs(*, large: bool = True, repeat: int = 5) -> list[PreparationCost]:
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


def _cost(name: str, mesh: Mesh, config: PrepareConfig, n_threads: int, target: float, repeat: int) -> PreparationCost:
    order = canonical_order(mesh.vertices, mesh.faces, config.order)
    faces, _ = canonical_faces(inverse(order)[mesh.faces])
    vertices = to_unit_sphere(mesh.vertices[order], faces)
    topology = MeshComplex.from_faces(faces, mesh.n_vertices)

    def patterns() -> object:
        sizes = config.row_sizes(topology.n)
        return sparsity_patterns(topology, vertices, sizes=sizes, seed=0, n_threads=n_threads)

    total = median_seconds(lambda: prepare(mesh, config, n_threads=n_threads), repeat)
    product = product_seconds(n_threads)
    return PreparationCost(
        mesh=name,
        n_vertices=mesh.n_vertices,
        n_threads=n_threads,
        total=1e3 * total,
        order=1e3 * median_seconds(lambda: canonical_order(mesh.vertices, mesh.faces, config.order), repeat),
        complex=1e3 * median_seconds(lambda: MeshComplex.from_faces(faces, mesh.n_vertices), repeat),
        features=1e3 * median_seconds(lambda: input_features(vertices, topology, config.features), repeat),
        patterns=1e3 * median_seconds(patterns, repeat),
        product=1e3 * product,
        products=total / product,
        target=target,
    )


def order_costs(n_vertices: int = 1 << 14) -> dict[OrderName, dict[str, float]]:
    """The canonical orders compared: milliseconds to compute, and how far apart neighbors end up in memory."""
    mesh = bumpy_torus(n_vertices)
    names: tuple[OrderName, ...] = ("morton", "rcm")
    costs: dict[OrderName, dict[str, float]] = {}
    for name in names:
        prepared = prepare(mesh, PrepareConfig(order=name))
        pattern = prepared.patterns.e
        row = np.repeat(np.arange(len(pattern)), np.diff(pattern.offsets))
        costs[name] = {
            "milliseconds": 1e3 * median_seconds(lambda n=name: canonical_order(mesh.vertices, mesh.faces, n)),  # type: ignore[misc]
            "median_distance": float(np.median(np.abs(pattern.indices - row))),
        }
    return costs
