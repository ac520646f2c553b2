"""The two compiled element-wise layers against PyTorch's own, in values and gradients."""

from __future__ import annotations

from threading import Thread

import pytest
import torch
from torch.nn import functional

from hodgeformer.kernels.linear import FeedForward
from hodgeformer.kernels.rows import dropout, few_threads, normalized, normalized_parts, relu_dropout, threads_for


def random(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_layer_norm_is_that_of_pytorch(width, dtype):
    x, grad = random(700, width, dtype=dtype), random(700, width, dtype=dtype).detach()
    out, expected = normalized(x), functional.layer_norm(x, (width,))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)
    (found,), (wanted,) = torch.autograd.grad(out, x, grad), torch.autograd.grad(expected, x, grad)
    scale = max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(found / scale, wanted / scale, rtol=0, atol=10 * tolerance)


def test_parts_are_normalized_by_head_and_their_gradients_meet():
    x = random(9, 2, 3, 4)
    grads = random(9, 3, 4).detach(), random(9, 3, 4).detach() ** 2
    parts, expected = normalized_parts(x), functional.layer_norm(x, (4,)).unbind(1)
    for one, other in zip(parts, expected, strict=True):
        torch.testing.assert_close(one, other)
    (found,), (wanted,) = torch.autograd.grad(parts, x, grads), torch.autograd.grad(expected, x, grads)
    torch.testing.assert_close(found, wanted)


def test_a_constant_row_becomes_zero_and_large_offsets_do_no_harm():
    x = torch.full((3, 8), 1e4)
    assert torch.equal(normalized(x), torch.zeros(3, 8))
    assert torch.isfinite(normalized(x + torch.arange(8.0))).all()


def test_layer_norm_of_strided_rows():
    x = random(6, 20)
    torch.testing.assert_close(normalized(x[:, ::2]), functional.layer_norm(x[:, ::2], (10,)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout_drops_its_share_evenly_and_keeps_the_mean(dtype):
    torch.manual_seed(0)
    out = relu_dropout(torch.ones(3000, 400, dtype=dtype), 0.3)
    kept = (out > 0).double()
    assert sorted(set(out.flatten().tolist())) == pytest.approx([0, 1 / 0.7])
    assert float(kept.mean()) == pytest.approx(0.7, abs=0.002)
    # Rows and columns fluctuate as independent draws do, not more.
    assert float(kept.mean(0).std()) == pytest.approx((0.21 / 3000) ** 0.5, rel=0.15)
    assert float(kept.mean(1).std()) == pytest.approx((0.21 / 400) ** 0.5, rel=0.15)


def test_dropout_passes_gradients_where_it_passed_values():
    x = random(50, 30)
    torch.manual_seed(3)
    out = relu_dropout(x * 1, 0.4)
    (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(grad, (out > 0) / 0.6, check_dtype=False)
    assert bool(((out == 0) | torch.isclose(out, x / 0.6)).all())
    assert bool((out[x <= 0] == 0).all())


def test_another_seed_drops_other_elements():
    torch.manual_seed(0)
    first, second = (relu_dropout(torch.ones(100, 100), 0.5) for _ in range(2))
    assert 0.4 < float((first != second).float().mean()) < 0.6


def test_feed_forward_without_dropout_is_the_formula():
    torch.manual_seed(0)
    layer, x = FeedForward(6, 9, 4, dropout=0.5).double().eval(), random(7, 6)
    hidden = (x @ layer.expand.weight.T + layer.expand.bias).clamp(min=0)
    torch.testing.assert_close(layer(x), hidden @ layer.contract.weight.T + layer.contract.bias)


def test_weights_before_a_relu_keep_the_variance():
    torch.manual_seed(0)
    layer = FeedForward(300, 400, 500)
    assert float(layer.expand.weight.detach().std()) == pytest.approx((2 / 300) ** 0.5, rel=0.02)
    assert float(layer.contract.weight.detach().std()) == pytest.approx((2 / 900) ** 0.5, rel=0.02)
    assert not layer.expand.bias.any()


def test_plain_dropout_draws_the_same_elements_on_the_way_back():
    x = random(40, 30)
    torch.manual_seed(3)
    out = dropout(x, 0.4)
    (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(out, x.detach() * grad)
    assert float((grad == 0).double().mean()) == pytest.approx(0.4, abs=0.05)
    assert bool((out < 0).any())


@pytest.mark.parametrize("layer", [dropout, relu_dropout])
def test_what_is_not_a_number_is_not_hidden(layer):
    assert layer(torch.full((20, 20), torch.nan), 0.1).isnan().float().mean() > 0.8


def test_bfloat16_rounds_factors_and_leaves_float32_to_the_kernels():
    torch.manual_seed(0)
    layer, x = FeedForward(8, 16, 8), random(40, 8, dtype=torch.float32)
    expected = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.float32 and not torch.equal(out, expected)
    torch.testing.assert_close(out, expected, rtol=0, atol=3e-2)
    (found,), (wanted,) = torch.autograd.grad(out.sum(), x), torch.autograd.grad(expected.sum(), x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.1)


def test_small_work_wakes_no_threads_and_the_number_comes_back():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert [threads_for(numbers) for numbers in (0, 1e6, 2.2e6, 1e9)] == [1, 1, 2, 3]
        with pytest.raises(KeyError), few_threads(1e6):
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 3
        with few_threads(1e9):
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_thread_that_begins_meanwhile_gets_all_threads_back():
    before, found = torch.get_num_threads(), []

    def work():
        with few_threads(0):
            found.append(torch.get_num_threads())
        found.append(torch.get_num_threads())

    try:
        torch.set_num_threads(2)
        with few_threads(0):
            other = Thread(target=work)
            other.start()
            other.join()
        assert found == [1, 2] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
