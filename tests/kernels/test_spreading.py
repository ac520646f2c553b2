"""Spreading and products of derivatives: compiled loops against the slow truth, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.kernels.spreading import (
    Rings,
    reference_derivative_product,
    spread,
    with_products,
)
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.metric import Surface
from hodgeformer.nn.pack import pack
from meshes import all_kinds, icosphere, open_grid
from soups import soups


def inner_product(y: Tensor, z: Tensor, rings: Rings) -> Tensor:
    return unbounded(y, torch.stack([z, torch.zeros_like(z)], dim=1), rings)


def wedge_product(y: Tensor, z: Tensor, rings: Rings) -> Tensor:
    return unbounded(y, torch.stack([torch.zeros_like(z), z], dim=1), rings)


def unbounded(y: Tensor, z: Tensor, rings: Rings) -> Tensor:
    """The products themselves: tanh(x) = x for small x."""
    small, d = 1e-6, y.shape[1]
    return with_products(y, z, torch.full((d,), small, dtype=y.dtype), rings)[:, d:] / small


def reference(y: Tensor, z: Tensor, scale: Tensor, rings: Rings) -> Tensor:
    return torch.cat([y, torch.tanh(scale * reference_derivative_product(y, z, rings))], dim=1)


def surface_of(*meshes: Mesh, dtype: torch.dtype = torch.float64) -> Surface:
    return pack([prepare(mesh) for mesh in meshes]).to(dtype=dtype).topology.surface


def dense_spread(x: Tensor, surface: Surface) -> Tensor:
    """The slow truth: the matrix M + t L written out, and a dense solve for every time."""
    rings, masses = surface.rings, surface.factor.masses
    n = len(masses)
    owners = torch.repeat_interleave(torch.arange(n), rings.edge_offsets.diff())
    weights = torch.zeros(n, n, dtype=x.dtype)
    weights.index_put_((owners, rings.neighbors.long()), rings.weights, accumulate=True)
    laplacian = torch.diag(weights.sum(1)) - weights
    right = masses[:, None, None] * x
    solved = [torch.linalg.solve(torch.diag(masses) + t * laplacian, right[:, k]) for k, t in enumerate(TIMES)]
    return torch.stack(solved, dim=1)


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_spreading_is_the_dense_solve(mesh):
    surface = surface_of(mesh, icosphere(1))
    x = torch.randn(len(surface.factor.masses), N_TIMES, 13, dtype=torch.float64)
    torch.testing.assert_close(spread(x, surface.factor), dense_spread(x, surface), rtol=1e-9, atol=1e-9)


def test_single_precision_is_accurate_to_single_precision():
    surface, single = surface_of(icosphere(3)), surface_of(icosphere(3), dtype=torch.float32)
    x = torch.randn(len(surface.factor.masses), N_TIMES, 4, dtype=torch.float64)
    torch.testing.assert_close(
        spread(x.float(), single.factor).double(), spread(x, surface.factor), rtol=1e-4, atol=1e-5
    )


def test_spreading_keeps_constants_and_the_integral():
    factor = surface_of(icosphere(2), open_grid()).factor
    x = torch.randn(len(factor.masses), N_TIMES, 2, dtype=torch.float64)
    torch.testing.assert_close(spread(torch.ones_like(x), factor), torch.ones_like(x))
    integral = torch.einsum("n,ntd->td", factor.masses, x)
    torch.testing.assert_close(torch.einsum("n,ntd->td", factor.masses, spread(x, factor)), integral)


def test_longer_times_reach_farther():
    factor = surface_of(icosphere(3)).factor
    x = torch.zeros(len(factor.masses), N_TIMES, 1, dtype=torch.float64)
    x[0] = 1
    at_the_source = spread(x, factor)[0, :, 0]
    assert (at_the_source.diff() < 0).all()


def test_the_gradient_of_spreading_is_the_transposed_solve():
    factor = surface_of(open_grid()).factor
    x = torch.randn(len(factor.masses), N_TIMES, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: spread(x, factor), (x,))


def test_channels_that_fit_no_time_are_refused():
    factor = surface_of(icosphere(1)).factor
    with pytest.raises(BatchError, match="times"):
        spread(torch.zeros(len(factor.masses), N_TIMES + 1, 2), factor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_compiled_products_are_the_reference(mesh, dtype):
    """Of odd widths and of whole vectors."""
    rings = surface_of(mesh, dtype=dtype).rings
    n, largest = len(rings.inverse_masses), max(1.0, float(rings.inverse_masses.max()))
    for width in (5, 48):
        results = []
        for function in (with_products, reference):
            torch.manual_seed(0)
            leaves = [torch.randn(n, *shape, dtype=dtype, requires_grad=True) for shape in ((width,), (2, width))]
            scale = (torch.logspace(-4, 0, width, dtype=dtype) / largest).requires_grad_()
            out = function(*leaves, scale, rings)
            out.backward(torch.randn_like(out))
            results.append((out, leaves[0].grad, leaves[1].grad, scale.grad / largest))
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_gradients_of_products():
    rings = surface_of(open_grid()).rings
    n = len(rings.inverse_masses)
    y, z = (torch.randn(n, *shape, dtype=torch.float64, requires_grad=True) for shape in ((2,), (2, 2)))
    scale = torch.tensor([0.01, 0.1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *leaves: with_products(*leaves, rings), (y, z, scale), rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_bounded_by_tanh_to_rounding(dtype):
    """Over all sizes, of either sign; what is no number stays so."""
    rings = surface_of(icosphere(1), dtype=dtype).rings
    y = torch.randn(len(rings.inverse_masses), 64, dtype=dtype)
    z = torch.randn(len(y), 2, 64, dtype=dtype)
    scale = torch.logspace(-12, 3, 64, dtype=dtype)
    found = with_products(y, z, scale, rings)[:, 64:]
    expected = torch.tanh(scale * reference_derivative_product(y, z, rings))
    torch.testing.assert_close(found, expected, rtol=2e-5 if dtype == torch.float32 else 1e-10, atol=1e-9)
    y[0] = torch.nan
    assert with_products(y, z, scale, rings)[0].isnan().all()


def flat_grid(n: int = 12) -> Mesh:
    """A square of side n in the plane, cut into triangles along one diagonal."""
    x, y = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
    corner = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).ravel()
    faces = [
        np.stack([corner, corner + n + 1, corner + n + 2], axis=1),
        np.stack([corner, corner + n + 2, corner + 1], axis=1),
    ]
    return Mesh(vertices, np.concatenate(faces))


def test_products_of_linear_functions_are_those_of_their_gradients():
    """In the plane, <a . dx, b . dx> = a . b and the wedge is det(a, b), here in units of the whole area."""
    packed = pack([prepare(flat_grid())]).to(dtype=torch.float64)
    rings, positions = packed.topology.surface.rings, packed.topology.positions
    inside = (positions[:, :2] - positions[:, :2].mean(0)).abs().amax(1) < 0.9 * positions[:, 0].max()
    side = positions[:, 0].max() - positions[:, 0].min()
    a, b = torch.tensor([2.0, 1.0]).double(), torch.tensor([-1.0, 3.0]).double()
    y, z = ((positions[:, :2] / side) @ slope[:, None] for slope in (a, b))
    torch.testing.assert_close(inner_product(y, z, rings)[inside], (a @ b).expand(int(inside.sum()), 1))
    det = a[0] * b[1] - a[1] * b[0]
    torch.testing.assert_close(wedge_product(y, z, rings)[inside], det.expand(int(inside.sum()), 1))


def test_turning_the_winding_turns_the_wedge_alone():
    mesh = icosphere(1)
    turned = Mesh(mesh.vertices, mesh.faces[:, ::-1].copy())
    rings: list[Rings] = [surface_of(either).rings for either in (mesh, turned)]
    y, z = torch.randn(2, len(rings[0].inverse_masses), 3, dtype=torch.float64)
    torch.testing.assert_close(inner_product(y, z, rings[0]), inner_product(y, z, rings[1]))
    torch.testing.assert_close(wedge_product(y, z, rings[0]), -wedge_product(y, z, rings[1]))


@settings(max_examples=60, deadline=None)
@given(soups())
def test_any_soup_gives_finite_numbers(mesh):
    surface = surface_of(mesh, dtype=torch.float32)
    x = torch.randn(len(surface.factor.masses), N_TIMES, 2, requires_grad=True)
    y = spread(x, surface.factor).flatten(1)
    assert y.abs().max() <= x.abs().max() * 1.001  # a mean with weights that are not negative
    out = sum(torch.tanh(product(y, y.flip(1), surface.rings)) for product in (inner_product, wedge_product))
    out.sum().backward()
    assert out.isfinite().all() and x.grad is not None and x.grad.isfinite().all()


def test_a_vertex_that_no_face_uses_keeps_what_it_holds():
    mesh = icosphere(1)
    lonely = Mesh(np.concatenate([mesh.vertices, [[0.3, 0.2, 0.1]]]), mesh.faces)
    prepared = prepare(lonely, PrepareConfig())
    at = int(np.flatnonzero(prepared.order.v == mesh.n_vertices)[0])
    factor = pack([prepared]).to(dtype=torch.float64).topology.surface.factor
    x = torch.randn(len(factor.masses), N_TIMES, 2, dtype=torch.float64)
    torch.testing.assert_close(spread(x, factor)[at], x[at])


def test_eliminating_stays_sparse():
    """Entries of the factor grow little faster than vertices, here sixteen times as many."""
    entries = [len(surface_of(icosphere(level)).factor.rows) for level in (2, 4)]
    assert entries[1] / entries[0] < 16 * 2.5
