"""What a run tells while it goes on. Nothing is printed here: the command line listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hodgeformer.train.metrics import Scores


@dataclass(frozen=True)
class Progress:
    """After a step: `share` of the run that is done in [0, 1], and loss and accuracy of the epoch so far."""

    step: int
    epoch: int
    epochs: int | None
    batch: int
    n_batches: int
    share: float
    elapsed: float
    loss: float
    accuracy: float | None
    rate: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a run. `chosen` is the checkpoint to use, `scores` are those of `split`; `waited` is the share of time
    spent waiting for data."""

    folder: Path
    chosen: Path
    split: str | None
    scores: Scores | None
    epochs: int
    elapsed: float
    waited: float


class Listener:
    """Hears what a run tells; does nothing with it."""

    def reading(self, done: int, total: int) -> None:
        """Meshes are being looked at before training."""

    def warned(self, message: str) -> None:
        """Something about the data is worth knowing."""

    def resumed(self, epoch: int, batch: int) -> None:
        """A stopped run goes on."""

    def stepped(self, progress: Progress) -> None:
        """A step was taken."""

    def evaluated(self, row: Mapping[str, float | int | str]) -> None:
        """An epoch was evaluated; a row of metrics.csv."""

    def close(self) -> None:
        """Nothing more will be told."""
