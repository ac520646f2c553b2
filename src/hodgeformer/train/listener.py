"""What a run tells while it goes on. Nothing is printed here: the command line listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hodgeformer.errors import ConfigError
from hodgeformer.train.metrics import Scores

Row = Mapping[str, float | int | str]
"""An epoch in metrics.csv."""


@dataclass(frozen=True)
class Standing:
    """After a step: `share` of the run that is done in [0, 1], and loss and accuracy of the epoch so far."""

    step: int
    epoch: int
    epochs: int | None
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

    def planned(self, reason: str) -> None:
        """A sentence on what the run will do, and why."""

    def resumed(self, epoch: int, batch: int) -> None:
        """A stopped run goes on."""

    def stepped(self, standing: Standing) -> None:
        """A step was taken."""

    def evaluated(self, row: Row) -> None:
        """An epoch was evaluated; a row of metrics.csv."""


class TensorBoard(Listener):
    """Writes scalars to event files, and passes everything on to another listener."""

    def __init__(self, folder: Path, then: Listener) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError(
                "train.tensorboard needs the package tensorboard: pip install 'hodgeformer[track]'"
            ) from None
        self._writer = SummaryWriter(str(folder))
        self._then = then
        for name in ("reading", "warned", "planned", "resumed"):
            setattr(self, name, getattr(then, name))

    def stepped(self, standing: Standing) -> None:
        self._writer.add_scalar("step/loss", standing.loss, standing.step)
        self._writer.add_scalar("step/rate", standing.rate, standing.step)
        self._then.stepped(standing)

    def evaluated(self, row: Row) -> None:
        for name, value in row.items():
            if name not in ("epoch", "step"):
                self._writer.add_scalar(f"epoch/{name}", float(value), int(row["step"]))
        self._writer.flush()
        self._then.evaluated(row)

    def close(self) -> None:
        """Nothing more will be told."""
        self._writer.close()
