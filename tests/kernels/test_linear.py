"""Our own matrix products against PyTorch's: values, gradients, and that company and threads change no bit."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from hodgeformer.kernels import _numba_linear
from hodgeformer.kernels.linear import Linear, linear, multiply_into, product


@pytest.fixture(autouse=True)
def _ours_everywhere(monkeypatch):
    """Vectors are split where a processor has shorter ones, so the same code runs on all of them."""
    monkeypatch.setattr(_numba_linear, "faster_than_torch", lambda: True)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("n_rows", [1, 11, 12, 29, 500])
@pytest.mark.parametrize(
    ("d_in", "d_out", "biased"),
    [(96, (192,), True), (57, (64,), True), (48, (16, 32, 48), False), (64, (64, 32), True), (530, (32,), True)],
)
def test_products_and_all_gradients_are_those_of_pytorch(n_rows, d_in, d_out, biased):
    x, weights = random(n_rows, d_in), [random(d, d_in, seed=d) for d in d_out]
    bias = random(sum(d_out)) if biased else None
    out, leaves = product(x, *weights, bias=bias), [x, *weights, *([bias] if biased else [])]
    assert type(out.grad_fn).__name__ == "_ProductBackward"
    expected = functional.linear(x.double(), torch.cat(weights).double(), None if bias is None else bias.double())
    grad = random(n_rows, sum(d_out), seed=1).detach()
    found, wanted = torch.autograd.grad(out, leaves, grad), torch.autograd.grad(expected, leaves, grad.double())
    for one, other in zip([out, *found], [expected, *wanted], strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-6 * (d_in + n_rows))


def test_only_what_is_asked_for_is_differentiated():
    x, weight = random(20, 32).detach(), random(16, 32)
    assert torch.autograd.grad(product(x, weight).sum(), weight)[0].shape == (16, 32)
    x, weight = x.requires_grad_(), weight.detach()
    assert torch.autograd.grad(product(x, weight).sum(), x)[0].shape == (20, 32)


def test_rows_are_the_same_to_the_bit_alone_and_in_company():
    x, weight = random(301, 64).detach(), random(96, 64).detach()
    together = product(x, weight)
    for first, last in ((0, 1), (5, 18), (100, 301)):
        assert torch.equal(product(x[first:last], weight), together[first:last])


def test_threads_change_no_bit():
    x, weight = random(20_000, 128), random(256, 128)
    grad, before, found = random(20_000, 256, seed=1).detach(), torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            out = product(x, weight)
            found.append((out, *torch.autograd.grad(out, (x, weight), grad)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_rows_that_are_not_contiguous():
    wide, weight, grad = random(40, 2 * 48).detach(), random(32, 48), random(32, 40, seed=1).detach().t()
    for x in (wide[:, 48:], wide[:, ::2], wide[::2, :48].repeat(2, 1)):
        out = product(x, weight)
        (found,), (wanted,) = (torch.autograd.grad(y, weight, grad) for y in (out, functional.linear(x, weight)))
        torch.testing.assert_close(out, functional.linear(x, weight), rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)


def test_what_is_not_a_number_stays_so():
    x, weight = random(14, 16).detach(), random(16, 16).detach()
    x[3, 5], x[7, 2] = float("nan"), float("inf")
    out = product(x, weight)
    assert out[3].isnan().all() and not out[7].isfinite().any()
    assert out[[0, 13]].isfinite().all()


def test_a_product_continues_a_sum():
    a, b, out = random(13, 20).detach(), random(20, 32).detach(), random(13, 32, seed=2).detach()
    expected = out + a @ b
    multiply_into(out, a, b, start=out)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("change", ["float64", "autocast", "narrow", "processor", "turned"])
def test_everything_else_is_left_to_pytorch(change, monkeypatch):
    layer = linear(32, 30 if change == "narrow" else 32)
    x = torch.ones(4, 32)
    if change == "float64":
        layer, x = layer.double(), x.double()
    if change == "turned":
        layer.weight.data = layer.weight.data.t()
    if change == "processor":
        monkeypatch.setattr(_numba_linear, "faster_than_torch", lambda: False)
    with torch.autocast("cpu", torch.bfloat16, enabled=change == "autocast"):
        out = layer(x)
    assert isinstance(layer, Linear)
    assert "_Product" not in type(out.grad_fn).__name__
    assert out.dtype == x.dtype


def test_no_rows_are_no_rows():
    assert product(torch.zeros(0, 32), torch.zeros(16, 32)).shape == (0, 16)
