"""d0 and d1 as matrices: products, adjoints, d1 d0 = 0."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.incidence import Incidence, curl, d0, d0_t, d1, d1_t, gradient

EDGES = torch.tensor([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]])
SIDES, SIGNS = torch.tensor([[0, 2, 1], [2, 4, 3]]), torch.tensor([[1, 1, -1], [1, 1, -1]])
D0, D1 = gradient(EDGES, 5), curl(SIDES, SIGNS, 5)


def matrix(a: Incidence) -> Tensor:
    dense = torch.zeros(a.n_out, a.n_in, dtype=torch.float64)
    rows = torch.arange(a.n_out)[:, None].expand(a.indices.shape)
    return dense.index_put_((rows, a.indices.long()), a.signs.double(), accumulate=True)


@pytest.mark.parametrize("a", [D0, D1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_both_directions_are_the_matrix_products(a: Incidence, dtype: torch.dtype) -> None:
    x, y = torch.randn(a.n_in, 3, dtype=dtype), torch.randn(a.n_out, 3, dtype=dtype)
    torch.testing.assert_close(a.apply(x), (matrix(a) @ x.double()).to(dtype))
    torch.testing.assert_close(a.apply_t(y), (matrix(a).T @ y.double()).to(dtype))


def test_edges_run_from_tail_to_head_and_circles_close() -> None:
    x = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(D0.apply(x), x[EDGES[:, 1]] - x[EDGES[:, 0]])
    assert D1.apply(D0.apply(x)).abs().max() < 1e-15
    assert torch.equal(D0.apply_t(torch.ones(5, 1))[4], torch.zeros(1))


def test_the_functions_take_the_complex_as_tensors() -> None:
    x, y, z = (torch.randn(n, 3) for n in (5, 5, 2))
    assert torch.equal(d0(x, EDGES), D0.apply(x))
    assert torch.equal(d0_t(y, EDGES, 5), D0.apply_t(y))
    assert torch.equal(d1(y, SIDES, SIGNS), D1.apply(y))
    assert torch.equal(d1_t(z, SIDES, SIGNS, 5), D1.apply_t(z))


@pytest.mark.parametrize("a", [D0, D1])
def test_each_direction_is_the_derivative_of_the_other(a: Incidence) -> None:
    x = torch.randn(a.n_in, 2, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(a.n_out, 2, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close((a.apply(x) * y).sum(), (x * a.apply_t(y)).sum())
    assert torch.autograd.gradcheck(a.apply, x)
    assert torch.autograd.gradcheck(a.apply_t, y)


def test_strided_rows_and_many_rows() -> None:
    n = 3000
    edges = torch.stack([torch.arange(n), torch.arange(n).roll(-1)], 1)
    a = gradient(edges, n)
    x = torch.randn(n, 24)[:, 8:16]
    assert torch.equal(a.apply(x), x.roll(-1, 0) - x)
    assert torch.equal(a.apply_t(x), x.roll(1, 0) - x)
    assert torch.equal(a.apply(x[:, 0]), x[:, 0].roll(-1) - x[:, 0])


def test_the_door() -> None:
    with pytest.raises(BatchError, match=r"\[0, 3\), got 0 to 3"):
        gradient(EDGES, 3)
    with pytest.raises(BatchError, match=r"\(5, 2\) and \(5, 3\)"):
        Incidence.from_rows(EDGES, torch.ones(5, 3), 5)
    with pytest.raises(BatchError, match=r"apply_t of a 5 x 5 incidence needs 5 rows, got \(4, 2\)"):
        D0.apply_t(torch.zeros(4, 2))
    with pytest.raises(BatchError, match="on cpu but its argument is on meta"):
        D0.apply(torch.zeros(5, 2, device="meta"))
