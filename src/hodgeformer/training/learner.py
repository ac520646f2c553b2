"""One step of training: forward, loss, backward, gradients of all processes, clip, update; and models to evaluate.

A loss is a sum and the weight to divide it by. They are separate because meshes differ in size: the mean over a batch
that several processes share is the total of their sums over the total of their weights, not the mean of their means.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.rows import few_threads
from hodgeformer.mesh.elements import UNLABELED
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.heads import MeshHead
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch
from hodgeformer.training.config import TrainConfig
from hodgeformer.training.distributed import Processes, share_statistics


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """`total / weight` is the loss."""

    total: Float[Tensor, ""]
    weight: Float[Tensor, ""]


@dataclass(frozen=True, eq=False)
class CrossEntropy:
    """Cross entropy with label smoothing and class weights; rows labeled -1 do not count.

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
            ignore_index=UNLABELED,
            reduction="sum",
            label_smoothing=self.smoothing,
        )
        counted = target[target != UNLABELED]
        weight = torch.tensor(float(len(counted))) if weights is None else weights[counted].sum()
        return WeightedSum(total, weight.to(total))


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Mean squared error of standardized values, since units differ widely; NaN rows do not count."""

    mean: Float[Tensor, " values"]
    std: Float[Tensor, " values"]

    def __call__(self, output: Float[Tensor, "rows values"], target: Shaped[Tensor, "rows values"]) -> WeightedSum:
        known = ~target.isnan().any(dim=1)
        standardized = (target[known] - self.mean.to(output)) / self.std.to(output)
        total = functional.mse_loss(output[known], standardized, reduction="sum")
        return WeightedSum(total, total.new_tensor(float(standardized.numel())))

    @torch.no_grad()
    def to_units(self, model: HodgeFormer) -> None:
        """Let a model answer in the units of the targets, so that evaluation and prediction need no statistics."""
        out = model.head.out
        out.weight.mul_(self.std.to(out.weight)[:, None])
        out.bias.mul_(self.std.to(out.bias)).add_(self.mean.to(out.bias))


Loss = CrossEntropy | SquaredError


def inverse_frequency(counts: Shaped[Tensor, " classes"], power: float = 1.0) -> Float[Tensor, " classes"]:
    """Weight (n / (classes * n_c))^power: at 1 every class contributes equally, at 0 every element.

    A class without elements gets weight one.
    """
    counts = counts.double()
    present = counts > 0
    weights = (counts.sum() / (present.sum().clamp(min=1) * counts.clamp(min=1))) ** power
    return torch.where(present, weights, 1.0).float()


class DivergedError(ConfigError):
    """Training diverged: values are infinite or NaN."""


@dataclass(frozen=True)
class Learned:
    """Totals over steps and processes: the loss as a sum over `weight`, and `hits` correct answers in `rows`."""

    loss: float = 0.0
    weight: float = 0.0
    hits: float = 0.0
    rows: float = 0.0

    def __add__(self, other: Learned) -> Learned:
        return Learned(
            self.loss + other.loss, self.weight + other.weight, self.hits + other.hits, self.rows + other.rows
        )

    @property
    def mean_loss(self) -> float:
        return self.loss / max(self.weight, 1e-12)

    @property
    def accuracy(self) -> float | None:
        """None if there is nothing to count, as in a regression."""
        return self.hits / self.rows if self.rows else None


class Learner:
    """A model and its optimizer.

    Initial weights depend only on the seed, so all processes start equal; dropout differs between processes.
    """

    def __init__(
        self,
        model: ModelConfig,
        config: TrainConfig,
        loss: Loss,
        *,
        device: torch.device,
        processes: Processes,
    ) -> None:
        torch.manual_seed(config.seed)
        self.model = HodgeFormer(model).to(device)
        share_statistics(self.model, processes)
        if config.freeze is not None:
            self.model.embedding.requires_grad_(False)
        if config.freeze == "encoder":
            self.model.encoder.requires_grad_(False)
        own = np.random.SeedSequence([config.seed, processes.rank]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(own >> np.uint64(1)))
        self.optimizer = _optimizer(self.model, config)
        self._config, self._loss = config, loss
        self._device, self._processes = device, processes
        self._half = config.uses_bfloat16(device)

    def learn(self, batch: Batch, rate: float) -> Learned:
        """Change the weights by one step at this learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if not self.model.training:
            self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        with few_threads(self.model.numbers_of(batch)):
            learned = self._gradients(batch.to(self._device))
            if self._processes.count > 1:
                self._processes.sum_gradients(self.model.parameters())
            if self._config.clip is not None:
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._config.clip)
                if not torch.isfinite(norm):
                    raise DivergedError(f"the gradient became {float(norm)} on a batch with '{batch.names[0]}'")
            self.optimizer.step()
        return learned

    def _gradients(self, batch: Batch) -> Learned:
        assert batch.target is not None
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._half):
            output = self.model(batch)
        loss = self._loss(output.float(), batch.target)
        mine = torch.stack([loss.total.detach(), loss.weight, *_right(output.detach(), batch.target)]).double()
        mine = self._processes.total(mine) if self._processes.count > 1 else mine
        learned = Learned(*mine.tolist())
        if not np.isfinite(learned.loss):
            raise DivergedError(f"the loss became {learned.loss} on a batch with '{batch.names[0]}'")
        # By the weight of the whole batch: a mean of the means of unequal shares would be another loss.
        (loss.total / max(learned.weight, 1e-12)).backward()  # type: ignore[no-untyped-call]
        return learned

    def ready(self, batches: Iterable[Batch]) -> HodgeFormer:
        """A copy of the model to evaluate and to save, with the statistics of these training batches."""
        model = recentered(self.model, batches)
        if isinstance(self._loss, SquaredError):
            self._loss.to_units(model)
        return model

    def check_weights(self) -> None:
        """Raise an error if a weight is not finite: the loss shows a step that was too large only in the next step."""
        if not all(bool(torch.isfinite(weight).all()) for weight in self.model.parameters()):
            raise DivergedError("the weights became infinite or NaN")


@torch.no_grad()
def recentered(model: HodgeFormer, batches: Iterable[Batch]) -> HodgeFormer:
    """A copy of the model, ready to evaluate, with the mean of the statistics of these training batches.

    While the learning rate is high, the running statistics of the head lag so far behind the weights that an accuracy
    computed with them is meaningless. The model in training is not changed, so that the frequency of evaluation does
    not affect a run. Models without such a head are only copied.
    """
    ready = copy.deepcopy(model).eval()
    center = ready.head.center if isinstance(ready.head, MeshHead) else None
    if center is None:
        return ready
    momentum, center.momentum = center.momentum, None
    center.reset_running_stats()
    center.train()
    device = ready.head.out.weight.device
    for batch in batches:
        ready(batch.to(device))
    center.eval()
    center.momentum = momentum
    return ready


def _right(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if target.is_floating_point():
        return output.new_zeros(()), output.new_zeros(())
    known = target >= 0
    return ((output.argmax(dim=1) == target) & known).sum().to(output), known.sum().to(output)


def _optimizer(model: nn.Module, config: TrainConfig) -> Optimizer:
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # Only matrices decay; biases and scales need not be small.
    learned = [p for p in model.parameters() if p.requires_grad]
    matrices, vectors = [p for p in learned if p.ndim > 1], [p for p in learned if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return kind(groups, lr=0.0, fused=True)
