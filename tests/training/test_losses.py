"""Losses against torch's own, and sums that add up over any division of a batch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from hodgeformer.training.learner import CrossEntropy, SquaredError, inverse_frequency


@pytest.fixture
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    target = torch.randint(-1, 4, (40,), generator=generator)
    return torch.randn(40, 4, generator=generator), target


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 0.2, 5.0, 0.7])])
def test_cross_entropy_is_that_of_torch(
    rows: tuple[torch.Tensor, torch.Tensor], smoothing: float, weights: torch.Tensor | None
) -> None:
    output, target = rows
    loss = CrossEntropy(smoothing, weights)(output, target)
    expected = functional.cross_entropy(output, target, weights, ignore_index=-1, label_smoothing=smoothing)
    torch.testing.assert_close(loss.total / loss.weight, expected)


def test_shares_of_a_batch_add_up(rows: tuple[torch.Tensor, torch.Tensor]) -> None:
    output, target = rows
    loss = CrossEntropy(0.2, torch.tensor([1.0, 0.2, 5.0, 0.7]))
    whole, first, second = (loss(output[part], target[part]) for part in (slice(None), slice(7), slice(7, None)))
    torch.testing.assert_close(
        whole.total / whole.weight, (first.total + second.total) / (first.weight + second.weight)
    )
    mean_of_means = (first.total / first.weight + second.total / second.weight) / 2
    assert abs(mean_of_means - whole.total / whole.weight) > 0.01


def test_unlabeled_rows_have_no_gradient() -> None:
    output = torch.randn(3, 4, requires_grad=True)
    CrossEntropy(0.2)(output, torch.tensor([2, -1, 0])).total.backward()
    assert output.grad is not None
    assert not output.grad[1].any() and output.grad[0].any()


def test_a_batch_without_any_label_costs_nothing() -> None:
    loss = CrossEntropy(0.2)(torch.randn(3, 4), torch.full((3,), -1))
    assert float(loss.total) == 0 and float(loss.weight) == 0


def test_inverse_frequency_gives_every_class_the_same_say() -> None:
    counts = torch.tensor([10, 30, 0, 60])
    weights = inverse_frequency(counts)
    said = (weights * counts)[counts > 0]
    torch.testing.assert_close(said, torch.full((3,), 100 / 3))
    assert weights[2] == 1


def test_squared_error_is_measured_in_standard_deviations() -> None:
    loss = SquaredError(mean=torch.tensor([5.0, 0.0]), std=torch.tensor([2.0, 0.1]))
    target = torch.tensor([[7.0, 0.1], [5.0, -0.1]])
    output = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    found = loss(output, target)
    assert float(found.total / found.weight) == pytest.approx(4.0 / 4)
