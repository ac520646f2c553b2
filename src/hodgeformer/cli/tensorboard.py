"""Scalars of a run for TensorBoard, beside what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hodgeformer.errors import ConfigError
from hodgeformer.train.progress import Listener, Progress


class TensorBoard(Listener):
    """Passes everything on to another listener and writes the scalars to event files."""

    def __init__(self, folder: Path, then: Listener) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError(
                "train.tensorboard needs the package tensorboard: pip install 'hodgeformer[track]'"
            ) from None
        self._writer = SummaryWriter(str(folder))
        self._then = then

    def resumed(self, epoch: int, batch: int) -> None:
        self._then.resumed(epoch, batch)

    def stepped(self, progress: Progress) -> None:
        self._writer.add_scalar("step/loss", progress.loss, progress.step)
        self._writer.add_scalar("step/rate", progress.rate, progress.step)
        self._then.stepped(progress)

    def evaluated(self, row: Mapping[str, float | int | str]) -> None:
        for name, value in row.items():
            if name not in ("epoch", "step"):
                self._writer.add_scalar(f"epoch/{name}", float(value), int(row["step"]))
        self._writer.flush()
        self._then.evaluated(row)

    def close(self) -> None:
        self._writer.close()
        self._then.close()
