"""Sparsity patterns: breadth-first rings, random connections, sizes, seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

import meshes
from hodgeformer.base.containers import KINDS, ElementKind, PerElement, SparsityPattern
from hodgeformer.mesh.geometry import centers as centers_of
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.patterns import sparsity_pattern
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.mesh.topology import MeshComplex
from soups import soups, usable


def adjacency(kind: ElementKind, topology: MeshComplex) -> csr_array:
    """Adjacent elements: vertices over edges, edges in a vertex, faces in an edge."""
    if kind == "f":
        meeting = abs(topology.d1_matrix()) @ abs(topology.d1_matrix()).T
    else:
        ends = abs(topology.d0_matrix())
        meeting = ends.T @ ends if kind == "v" else ends @ ends.T
    return csr_array(meeting)


def row(pattern: SparsityPattern[np.ndarray], i: int) -> np.ndarray:
    return pattern.indices[pattern.offsets[i] : pattern.offsets[i + 1]]


def pattern_of(
    mesh: Mesh, kind: ElementKind, n_local: int, n_random: int, seed: int = 0
) -> SparsityPattern[np.ndarray]:
    topology = MeshComplex.from_faces(usable(mesh), mesh.n_vertices)
    return sparsity_pattern(kind, topology, mesh.vertices, size=(n_local, n_random), seed=seed)


def assert_rows_are_nearest(mesh: Mesh, kind: ElementKind, n_local: int) -> None:
    """Each row is the closed rings around i by graph distance, and of the last ring the nearest centers."""
    topology = MeshComplex.from_faces(usable(mesh), mesh.n_vertices)
    hops = shortest_path(adjacency(kind, topology).toarray(), unweighted=True)
    centers = centers_of(kind, topology, mesh.vertices)
    pattern = pattern_of(mesh, kind, n_local, 0)
    for i in range(topology.n[kind]):
        reached = np.flatnonzero(np.isfinite(hops[i]))
        apart = ((centers[reached] - centers[i]) ** 2).sum(axis=1)
        by_ring_then_distance = reached[np.lexsort((reached, apart, hops[i, reached]))]
        kept = by_ring_then_distance[:n_local]
        last_ring = hops[i, kept[-1]]
        inner = reached[hops[i, reached] < last_ring]
        mine = row(pattern, i)
        assert len(mine) == len(kept)
        assert set(inner) <= set(mine)
        assert (hops[i, mine] <= last_ring).all()
        expected = np.sort(((centers[kept] - centers[i]) ** 2).sum(axis=1)[hops[i, kept] == last_ring])
        found = np.sort(((centers[mine] - centers[i]) ** 2).sum(axis=1)[hops[i, mine] == last_ring])
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "mesh", [meshes.icosphere(2), meshes.two_components(), meshes.open_grid()], ids=lambda m: m.name
)
def test_rings_equal_graph_distances(mesh: Mesh, kind: ElementKind) -> None:
    for n_local in (1, 5, 13, 30):
        assert_rows_are_nearest(mesh, kind, n_local)


@given(soups())
def test_rings_of_any_soup_equal_graph_distances(mesh: Mesh) -> None:
    for kind in KINDS:
        assert_rows_are_nearest(mesh, kind, 4)


@given(soups())
def test_rows_hold_themselves_and_nothing_twice(mesh: Mesh) -> None:
    for kind in KINDS:
        pattern = pattern_of(mesh, kind, 3, 2)
        SparsityPattern.from_csr(pattern.offsets, pattern.indices)
        for i in range(len(pattern)):
            mine = row(pattern, i)
            assert mine[0] == i
            assert len(set(mine)) == len(mine)


def test_full_rows_and_seeds() -> None:
    mesh = meshes.icosphere(2)
    first, again, other = (pattern_of(mesh, "e", 20, 5, seed) for seed in (7, 7, 8))
    assert (np.diff(first.offsets) == 25).all()
    np.testing.assert_array_equal(first.indices, again.indices)
    local, other_local = (p.indices.reshape(-1, 25)[:, :20] for p in (first, other))
    np.testing.assert_array_equal(local, other_local)
    assert (first.indices != other.indices).any()


def test_random_connections_are_spread_over_the_mesh() -> None:
    drawn = pattern_of(meshes.icosphere(3), "v", 1, 40).indices.reshape(-1, 41)[:, 1:]
    counts = np.bincount(drawn.ravel(), minlength=len(drawn))
    assert counts.min() > 10
    assert counts.max() < 90


def test_a_small_component_gives_shorter_rows_and_its_random_part_reaches_out() -> None:
    mesh = meshes.two_components()  # 42 vertices of a sphere, 4 of a tetrahedron, 1 alone
    lengths = np.diff(pattern_of(mesh, "v", 10, 3).offsets)
    assert (lengths[:42] == 13).all()
    assert (lengths[42:46] == 7).all()
    assert lengths[46] == 4


def test_threads_do_not_change_the_pattern() -> None:
    mesh = meshes.icosphere(4)
    topology = MeshComplex.from_faces(mesh.faces, mesh.n_vertices)
    one, three = (sparsity_pattern("e", topology, mesh.vertices, size=(30, 6), seed=1, n_threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one.indices, three.indices)


@pytest.mark.parametrize(
    ("n", "fixed", "cap", "expected"),
    [
        (752, None, None, (22, 5)),
        (752, 32, None, (26, 6)),
        (10_000, None, 64, (51, 13)),
        (10_000, None, None, (80, 20)),
        (752, 1, None, (1, 0)),
        (1, None, None, (1, 0)),
        (5, 32, None, (4, 1)),
    ],
)
def test_sizes(n: int, fixed: int | None, cap: int | None, expected: tuple[int, int]) -> None:
    config = PrepareConfig(n_neighbors=fixed or "sqrt", max_neighbors=None if cap is None else {"v": cap})
    assert config.row_sizes(PerElement(n, n, n)).v == expected


def test_a_hub_of_thousands_of_edges_is_searched_in_part() -> None:
    n = 3000
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    faces = np.stack([np.zeros(n, dtype=int), 1 + np.arange(n), 1 + (np.arange(n) + 1) % n], axis=1)
    pattern = pattern_of(Mesh(np.vstack([[0, 0, 0.5], rim]), faces), "v", 20, 4)
    assert pattern.nnz == 24 * (n + 1)
