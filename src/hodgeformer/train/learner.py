"""One step of training: forward, loss, backward, gradients of all processes, clip, update."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hodgeformer.errors import ConfigError
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.batch import Batch
from hodgeformer.train.config import TrainConfig
from hodgeformer.train.distributed import Processes, share_statistics
from hodgeformer.train.losses import Loss


@dataclass(frozen=True)
class Learned:
    """What a step saw: the loss as a sum over `weight`, and `hits` right answers in `rows`, over all processes."""

    loss: float
    weight: float
    hits: float
    rows: float


class Learner:
    """A model, its optimizer and the running average of its weights.

    Initial weights come from the seed alone, so all processes begin alike; dropout differs from process to process.
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
        torch.manual_seed(_process_seed(config.seed, processes.rank))
        self.optimizer = _optimizer(self.model, config)
        self.average = copy.deepcopy(self.model).requires_grad_(False) if config.ema else None
        self._config, self._loss = config, loss
        self._device, self._processes = device, processes

    @property
    def finished(self) -> HodgeFormer:
        """The weights that are evaluated and saved."""
        return self.model if self.average is None else self.average

    def learn(self, batch: Batch, rate: float) -> Learned:
        """Change the weights by one step at this learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        learned = self._gradients(batch.to(self._device))
        self._processes.sum_gradients(self.model.parameters())
        if self._config.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self._config.clip)
        self.optimizer.step()
        if self.average is not None:
            self._follow(self.average)
        return learned

    def _gradients(self, batch: Batch) -> Learned:
        assert batch.target is not None
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._config.uses_bfloat16(self._device)):
            output = self.model(batch)
        loss = self._loss(output.float(), batch.target)
        hits, rows = _right(output.detach(), batch.target)
        local = torch.stack([loss.total.detach(), loss.weight, hits, rows]).double()
        total, weight, all_hits, all_rows = self._processes.total(local).tolist()
        if not np.isfinite(total):
            raise ConfigError(
                f"the loss became {total} on a batch with '{batch.names[0]}'; lower train.lr, or set train.clip"
            )
        # Of the whole batch: a mean of the means of unequal shares would be another loss.
        (loss.total / max(weight, 1e-12)).backward()
        return Learned(total, weight, all_hits, all_rows)

    @torch.no_grad()
    def _follow(self, average: HodgeFormer) -> None:
        """average <- ema average + (1 - ema) weights; counters and running statistics are taken over."""
        assert self._config.ema is not None
        for mean, new in zip(average.parameters(), self.model.parameters(), strict=True):
            mean.lerp_(new, 1.0 - self._config.ema)
        for kept, current in zip(average.buffers(), self.model.buffers(), strict=True):
            kept.copy_(current)


def _right(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if target.is_floating_point():
        return output.new_zeros(()), output.new_zeros(())
    known = target >= 0
    return ((output.argmax(dim=1) == target) & known).sum().to(output), known.sum().to(output)


def _optimizer(model: nn.Module, config: TrainConfig) -> Optimizer:
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # Decay pulls matrices towards zero; biases and scales have no reason to be small.
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return kind(groups, lr=0.0, fused=True)


def _process_seed(seed: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1))
