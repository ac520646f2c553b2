"""How far training is, and the learning rate that belongs there."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then cosine to zero, as a function of progress in [0, 1].

    Progress counts epochs, or the share of a time budget that has passed; both end at a learning rate of zero.
    """

    peak: float
    warmup: float
    epochs: int | None = None
    minutes: float | None = None

    def rate(self, progress: float) -> float:
        """The learning rate at this progress."""
        progress = min(max(progress, 0.0), 1.0)
        if progress < self.warmup:
            return self.peak * progress / self.warmup
        rest = (progress - self.warmup) / (1.0 - self.warmup)
        return self.peak * 0.5 * (1.0 + math.cos(math.pi * rest))

    def progress(self, *, epoch: int, batch: int, n_batches: int, elapsed: float) -> float:
        """The share of training that lies behind the given batch of the given epoch after `elapsed` seconds."""
        if self.minutes is not None:
            return elapsed / (60.0 * self.minutes)
        assert self.epochs is not None
        return (epoch + batch / n_batches) / self.epochs
