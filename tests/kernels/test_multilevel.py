"""Solving with coarser levels gives what elimination gives, on any soup, alone and in company."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from hodgeformer.kernels import coarsening
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.kernels.multilevel import Multilevel
from hodgeformer.kernels.spreading import Apart, spread
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import prepare
from hodgeformer.nn import metric
from hodgeformer.nn.metric import Surface
from hodgeformer.nn.pack import pack
from meshes import all_kinds, icosphere
from soups import soups


@pytest.fixture(autouse=True)
def _few_unknowns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small meshes are large ones here, with several levels."""
    monkeypatch.setattr(metric, "EXACT", 0)
    monkeypatch.setattr(coarsening, "_COARSEST", 2)
    yield


def surface_of(*meshes: Mesh) -> Surface:
    return pack([prepare(mesh) for mesh in meshes]).topology.surface


def error(mesh: Mesh, x: Tensor | None = None) -> float:
    """The distance to what elimination gives, as a share of it, over the surface; the largest over times."""
    topology = pack([prepare(mesh)]).topology
    large = topology.surface
    assert isinstance(large.factor, Apart) and isinstance(large.factor.solvers[0], Multilevel)
    x = torch.randn(mesh.n_vertices, N_TIMES, 18) if x is None else x
    exact = spread(x, metric._eliminated(_laplacians(mesh), topology.positions))
    root = large.factor.masses.sqrt()[:, None, None]
    parts = [(root * each).square().sum(dim=(0, 2)).sqrt() for each in (spread(x, large.factor) - exact, exact)]
    return float((parts[0] / parts[1]).max())


def _laplacians(mesh: Mesh) -> list[metric.Laplacian]:
    one = prepare(mesh)
    lists = one.topology
    return [metric.Laplacian.from_surface(one.positions, lists.faces, lists.edges, lists.face_edges)]


@pytest.mark.parametrize("mesh", [*all_kinds(), icosphere(4)], ids=lambda mesh: mesh.name)
def test_levels_give_what_elimination_gives(mesh: Mesh) -> None:
    torch.manual_seed(0)
    assert error(mesh) < 2e-3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(soups(coincident=False))
def test_so_they_do_on_any_soup(mesh: Mesh) -> None:
    torch.manual_seed(0)
    assert error(mesh) < 5e-3


def test_constants_stay_and_nothing_is_made_of_nothing() -> None:
    mesh = icosphere(3)
    factor = surface_of(mesh).factor
    ones = torch.ones(mesh.n_vertices, N_TIMES, 3)
    torch.testing.assert_close(spread(ones, factor), ones, rtol=1e-3, atol=1e-3)
    assert not spread(0 * ones, factor).any()


def test_company_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mesh that is eliminated and one that is not, packed together: both as they are alone, to the bit."""
    monkeypatch.setattr(metric, "EXACT", 500)
    small, large = icosphere(2), icosphere(3)
    assert small.n_vertices < 500 < large.n_vertices
    x = torch.randn(small.n_vertices + large.n_vertices, N_TIMES, 5)
    together = spread(x, surface_of(small, large).factor)
    first, second = x.split([small.n_vertices, large.n_vertices])
    alone = torch.cat([spread(first, surface_of(small).factor), spread(second, surface_of(large).factor)])
    assert torch.equal(together, alone)


def test_a_column_depends_neither_on_others_nor_on_threads() -> None:
    mesh = icosphere(3)
    factor = surface_of(mesh).factor
    x = torch.randn(mesh.n_vertices, N_TIMES, 20)
    x[..., ::2] = x[:1, :, ::2]  # solved sooner than the others
    whole, n_threads = spread(x, factor), torch.get_num_threads()
    assert torch.equal(whole[..., 3:8], spread(x[..., 3:8].contiguous(), factor))
    torch.set_num_threads(n_threads + 1)
    try:
        assert torch.equal(whole, spread(x, factor))
    finally:
        torch.set_num_threads(n_threads)


def test_gradients_are_the_same_solve() -> None:
    mesh = icosphere(3)
    factor = surface_of(mesh).factor
    x = torch.randn(mesh.n_vertices, N_TIMES, 2, requires_grad=True)
    y = torch.randn(mesh.n_vertices, N_TIMES, 2)
    (spread(x, factor) * y).sum().backward()
    assert x.grad is not None
    adjoint = factor.masses[:, None, None] * spread(y / factor.masses[:, None, None], factor)
    torch.testing.assert_close(x.grad, adjoint, rtol=1e-4, atol=1e-4)
