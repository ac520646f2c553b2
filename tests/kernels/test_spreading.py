"""Spreading and products of derivatives: compiled loops against the slow truth, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.kernels.spreading import (
    DiagonalStars,
    Surface,
    dense_spread,
    reference_derivative_product,
    spread,
    with_products,
)
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.pack import pack
from meshes import all_kinds, icosphere, non_manifold_fan, open_grid
from soups import soups


def surface_of(*meshes: Mesh, dtype: torch.dtype = torch.float64) -> Surface:
    return pack([prepare(mesh) for mesh in meshes]).to(dtype=dtype).topology.surface


def some_stars(surface: Surface, seed: int = 0, size: float = 1.15) -> DiagonalStars:
    """The textbook's stars times random factors up to exp(size), other ones for every time and element."""
    draw = torch.Generator().manual_seed(seed)
    factors = [
        torch.exp(size * (2 * torch.rand(len(star), N_TIMES, generator=draw, dtype=star.dtype) - 1)).requires_grad_()
        for star in (surface.star0, surface.star1)
    ]
    return DiagonalStars(surface.star0[:, None] * factors[0], surface.star1[:, None] * factors[1], surface)


def inner_product(y: Tensor, z: Tensor, surface: Surface) -> Tensor:
    return unbounded(y, torch.stack([z, torch.zeros_like(z)], dim=1), surface)


def wedge_product(y: Tensor, z: Tensor, surface: Surface) -> Tensor:
    return unbounded(y, torch.stack([torch.zeros_like(z), z], dim=1), surface)


def unbounded(y: Tensor, z: Tensor, surface: Surface) -> Tensor:
    """The products themselves: tanh(x) = x for small x."""
    small, d = 1e-6, y.shape[1]
    scale = torch.full((d,), small, dtype=y.dtype)
    return with_products(y, z, scale, surface.stars.star1, surface)[:, d:] / small


def reference(y: Tensor, z: Tensor, scale: Tensor, star1: Tensor, surface: Surface) -> Tensor:
    return torch.cat([y, torch.tanh(scale * reference_derivative_product(y, z, star1, surface))], dim=1)


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_spreading_is_the_dense_solve(mesh):
    """With the textbook's stars and with others, and in every gradient; two meshes, of which one is always the same."""
    surface = surface_of(mesh, icosphere(1))
    x = torch.randn(len(surface.star0), 13 * N_TIMES, dtype=torch.float64)
    torch.testing.assert_close(spread(x, surface.stars), dense_spread(x, surface.stars), rtol=1e-9, atol=1e-9)
    results = []
    for function in (spread, dense_spread):
        stars, x = some_stars(surface), x.detach().requires_grad_()
        out = function(x, stars)
        grads = torch.autograd.grad((out * out.detach().cos()).sum(), (x, stars.star0, stars.star1))
        results.append((out, grads[0], grads[1] * surface.star0[:, None], grads[2] * surface.star1[:, None]))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("mesh", [icosphere(3), *all_kinds()], ids=lambda mesh: mesh.name)
def test_single_precision_is_accurate_to_single_precision(mesh):
    """Also with stars that differ by a factor of 160,000, and on faces without area: nothing cancels."""
    surface, single = surface_of(mesh), surface_of(mesh, dtype=torch.float32)
    x = torch.randn(len(surface.star0), 4 * N_TIMES, dtype=torch.float64)
    learned = some_stars(surface, size=6.0)
    rounded = DiagonalStars(learned.star0.float(), learned.star1.float(), single)
    for exact, rough in ((surface.stars, single.stars), (learned, rounded)):
        torch.testing.assert_close(spread(x.float(), rough).double(), spread(x, exact), rtol=1e-4, atol=1e-5)


def test_spreading_keeps_constants_and_the_integral():
    surface = surface_of(icosphere(2), open_grid())
    for stars in (surface.stars, some_stars(surface)):
        x = torch.randn(len(surface.star0), 2 * N_TIMES, dtype=torch.float64)
        torch.testing.assert_close(spread(torch.ones_like(x), stars), torch.ones_like(x))
        star0 = stars.star0.repeat_interleave(2, dim=1)
        torch.testing.assert_close((star0 * spread(x, stars)).sum(0), (star0 * x).sum(0))


def test_longer_times_reach_farther():
    surface = surface_of(icosphere(3))
    x = torch.zeros(len(surface.star0), N_TIMES, dtype=torch.float64)
    x[0] = 1
    assert (spread(x, surface.stars)[0].diff() < 0).all()


def test_gradients_of_spreading_are_finite_differences():
    surface = surface_of(open_grid())
    x = torch.randn(len(surface.star0), N_TIMES, dtype=torch.float64, requires_grad=True)
    stars = [star.detach().requires_grad_() for star in (some_stars(surface).star0, some_stars(surface).star1)]
    assert torch.autograd.gradcheck(lambda x, *stars: spread(x, DiagonalStars(*stars, surface)), (x, *stars))


def test_channels_that_fit_no_time_are_refused():
    surface = surface_of(icosphere(1))
    with pytest.raises(BatchError, match="multiple of"):
        spread(torch.zeros(len(surface.star0), N_TIMES + 1), surface.stars)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_compiled_products_are_the_reference(mesh, dtype):
    """Of odd widths and of whole vectors, in every gradient."""
    surface = surface_of(mesh, dtype=dtype)
    n, largest = len(surface.star0), max(1.0, float(1 / surface.star0.min()))
    for width in (N_TIMES, 3 * N_TIMES, 12 * N_TIMES):
        results = []
        for function in (with_products, reference):
            torch.manual_seed(0)
            leaves = [torch.randn(n, *shape, dtype=dtype, requires_grad=True) for shape in ((width,), (2, width))]
            scale = (torch.logspace(-4, 0, width, dtype=dtype) / largest).requires_grad_()
            star1 = some_stars(surface).star1
            out = function(*leaves, scale, star1, surface)
            grads = torch.autograd.grad(out, (*leaves, scale, star1), torch.randn_like(out))
            results.append((out, *grads[:2], grads[2] / largest, grads[3] * surface.star1[:, None]))
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)


def test_gradients_of_products():
    surface = surface_of(open_grid())
    n, d = len(surface.star0), N_TIMES
    y, z = (torch.randn(n, *shape, dtype=torch.float64, requires_grad=True) for shape in ((d,), (2, d)))
    scale = torch.linspace(0.01, 0.1, d, dtype=torch.float64).requires_grad_()
    star1 = some_stars(surface).star1.detach().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *leaves: with_products(*leaves, surface), (y, z, scale, star1), rtol=1e-4, fast_mode=True
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_bounded_by_tanh_to_rounding(dtype):
    """Over all sizes, of either sign; what is no number stays so."""
    surface = surface_of(icosphere(1), dtype=dtype)
    star1 = surface.stars.star1
    y = torch.randn(len(surface.star0), 64, dtype=dtype)
    z = torch.stack([y, 0 * y], dim=1)  # a sum of squares, in which nothing cancels
    scale = torch.logspace(-12, 3, 64, dtype=dtype) * torch.tensor([1, -1]).repeat(32)
    found = with_products(y, z, scale, star1, surface)[:, 64:]
    expected = torch.tanh(scale * reference_derivative_product(y, z, star1, surface))
    torch.testing.assert_close(found, expected, rtol=2e-5 if dtype == torch.float32 else 1e-10, atol=1e-9)
    y[0] = torch.nan
    assert with_products(y, z, scale, star1, surface)[0].isnan().all()


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
    surface, positions = packed.topology.surface, packed.topology.positions
    inside = (positions[:, :2] - positions[:, :2].mean(0)).abs().amax(1) < 0.9 * positions[:, 0].max()
    side = positions[:, 0].max() - positions[:, 0].min()
    a, b = torch.tensor([2.0, 1.0]).double(), torch.tensor([-1.0, 3.0]).double()
    y, z = (((positions[:, :2] / side) @ slope[:, None]).expand(-1, N_TIMES) for slope in (a, b))
    torch.testing.assert_close(inner_product(y, z, surface)[inside], (a @ b).expand(int(inside.sum()), N_TIMES))
    det = a[0] * b[1] - a[1] * b[0]
    torch.testing.assert_close(wedge_product(y, z, surface)[inside], det.expand(int(inside.sum()), N_TIMES))


def test_turning_the_winding_turns_the_wedge_alone():
    mesh = icosphere(1)
    turned = Mesh(mesh.vertices, mesh.faces[:, ::-1].copy())
    surfaces = [surface_of(either) for either in (mesh, turned)]
    y, z = torch.randn(2, len(surfaces[0].star0), N_TIMES, dtype=torch.float64)
    torch.testing.assert_close(inner_product(y, z, surfaces[0]), inner_product(y, z, surfaces[1]))
    torch.testing.assert_close(wedge_product(y, z, surfaces[0]), -wedge_product(y, z, surfaces[1]))


@settings(max_examples=60, deadline=None)
@given(soups())
def test_any_soup_gives_finite_numbers(mesh):
    surface = surface_of(mesh, dtype=torch.float32)
    x = torch.randn(len(surface.star0), 2 * N_TIMES, requires_grad=True)
    y = spread(x, some_stars(surface))
    assert y.abs().max() <= x.abs().max() * 1.001  # a mean with weights that are not negative
    out = sum(torch.tanh(product(y, y.flip(1), surface)) for product in (inner_product, wedge_product))
    out.sum().backward()
    assert out.isfinite().all() and x.grad is not None and x.grad.isfinite().all()


def test_a_vertex_that_no_face_uses_keeps_what_it_holds():
    mesh = icosphere(1)
    lonely = Mesh(np.concatenate([mesh.vertices, [[0.3, 0.2, 0.1]]]), mesh.faces)
    prepared = prepare(lonely, PrepareConfig())
    at = int(np.flatnonzero(prepared.order.v == mesh.n_vertices)[0])
    surface = pack([prepared]).to(dtype=torch.float64).topology.surface
    x = torch.randn(len(surface.star0), 2 * N_TIMES, dtype=torch.float64)
    torch.testing.assert_close(spread(x, surface.stars)[at], x[at])


def test_eliminating_stays_sparse():
    """Entries of the factor grow little faster than vertices, here sixteen times as many."""
    entries = [len(surface_of(icosphere(level)).textbook_factor.rows) for level in (2, 4)]
    assert entries[1] / entries[0] < 16 * 2.5


def test_hubs_are_eliminated_last():
    """Each of their thousands of neighbors would look through all others, and be tied to them."""
    mesh = non_manifold_fan(20_000)
    factor = surface_of(mesh).textbook_factor
    hubs = np.argsort(-np.bincount(mesh.faces.ravel()))[:2]
    prepared = prepare(mesh)
    assert set(prepared.order.v[factor.order[-2:]]) == set(hubs)
    assert len(factor.rows) == 2 * 20_000 + 1
