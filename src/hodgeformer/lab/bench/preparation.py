"""The cost of preparing a mesh, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hodgeformer.base.threads import thread_count
from hodgeformer.lab.bench.yardsticks import bumpy_torus, human_sized_mesh, median_seconds, product_seconds
from hodgeformer.mesh.features import input_features
from hodgeformer.mesh.geometry import to_unit_sphere
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import canonical_faces, canonical_order
from hodgeformer.mesh.patterns import patterns_of
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.topology import MeshComplex, inverse_permutation


def preparation_costs(quick: bool) -> list[dict[str, Any]]:
    """Three sizes, each with its target."""
    n_threads = thread_count()
    fixed = PrepareConfig(n_neighbors={"v": 32, "e": 48, "f": 32})
    rows = [_cost("Human size, neighbors 32/48/32", human_sized_mesh(), fixed, 1, 0.15, 15)]
    if not quick:
        uncapped = PrepareConfig(max_neighbors=None)
        rows.append(_cost("16,384 vertices, no cap", bumpy_torus(1 << 14), uncapped, n_threads, 8.0, 5))
        large_mesh, capped = bumpy_torus(1 << 17), PrepareConfig()
        rows.append(_cost("131,072 vertices, default caps", large_mesh, capped, n_threads, 25.0, 5))
    return rows


def _cost(name: str, mesh: Mesh, config: PrepareConfig, n_threads: int, target: float, repeat: int) -> dict[str, Any]:
    """Median milliseconds, total and by part, and the total in units of one 2048 x 2048 float32 product."""
    order = canonical_order(mesh.vertices, mesh.faces)
    faces, _ = canonical_faces(inverse_permutation(order)[mesh.faces])
    vertices = to_unit_sphere(mesh.vertices[order], faces)
    topology = MeshComplex.from_faces(faces, mesh.n_vertices)

    def patterns() -> object:
        return patterns_of(topology, vertices, config.row_sizes(topology.n), 0, n_threads)

    total = median_seconds(lambda: prepare(mesh, config, n_threads=n_threads), repeat)
    product = product_seconds(n_threads)
    parts: dict[str, Callable[[], object]] = {
        "order": lambda: canonical_order(mesh.vertices, mesh.faces),
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
