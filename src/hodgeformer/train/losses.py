"""What training minimizes, as a sum and the weight it must be divided by.

The two come apart because meshes differ in size: the mean over a batch that several processes share is the total of
their sums over the total of their weights, not the mean of their means.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional

from hodgeformer.mesh.elements import UNLABELLED


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """`total / weight` is the loss."""

    total: Float[Tensor, ""]
    weight: Float[Tensor, ""]


@dataclass(frozen=True, eq=False)
class CrossEntropy:
    """Cross entropy with label smoothing and class weights; rows labelled -1 do not count.

    As in torch: the smoothed part is weighted by the weight of each class it is spread over, and the mean divides by
    the weights of the true classes.
    """

    smoothing: float = 0.0
    class_weights: Float[Tensor, " classes"] | None = None

    def __call__(self, output: Float[Tensor, "rows classes"], target: Shaped[Tensor, " rows"]) -> WeightedSum:
        weights = None if self.class_weights is None else self.class_weights.to(output)
        total = functional.cross_entropy(
            output,
            target,
            weight=weights,
            ignore_index=UNLABELLED,
            reduction="sum",
            label_smoothing=self.smoothing,
        )
        counted = target[target != UNLABELLED]
        weight = torch.tensor(float(len(counted))) if weights is None else weights[counted].sum()
        return WeightedSum(total, weight.to(total))


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Mean squared error of standardized values: targets have wide and different units."""

    mean: Float[Tensor, " values"]
    std: Float[Tensor, " values"]

    def __call__(self, output: Float[Tensor, "rows values"], target: Shaped[Tensor, "rows values"]) -> WeightedSum:
        standardized = (target - self.mean.to(output)) / self.std.to(output)
        total = functional.mse_loss(output, standardized, reduction="sum")
        return WeightedSum(total, total.new_tensor(float(target.numel())))

    def values(self, output: Tensor) -> Tensor:
        """Outputs in the units of the targets."""
        return output * self.std.to(output) + self.mean.to(output)


Loss = CrossEntropy | SquaredError


def inverse_frequency(counts: Shaped[Tensor, " classes"], power: float = 1.0) -> Float[Tensor, " classes"]:
    """Weight (n / (classes * n_c))^power: at 1 every class present contributes alike, at 0 every element.

    A class never seen gets weight one.
    """
    counts = counts.double()
    present = counts > 0
    weights = (counts.sum() / (present.sum().clamp(min=1) * counts.clamp(min=1))) ** power
    return torch.where(present, weights, 1.0).float()
