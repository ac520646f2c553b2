"""What a run tells while it goes on. Nothing is printed here: the command line listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import refuse_network

Row = Mapping[str, float | int | str]
"""An epoch in metrics.csv."""

Track = Literal["csv", "tensorboard", "wandb"]
"""Who keeps the numbers of a run; metrics.csv always does."""


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


class Listener:
    """Hears what a run tells; does nothing with it. The run calls it from its own thread and waits until it returns."""

    def reading(self, done: int, total: int) -> None:
        """So many of the meshes were looked at, before training; called after each."""

    def warned(self, message: str) -> None:
        """Something about the data is worth knowing."""

    def planned(self, reason: str) -> None:
        """A sentence on what the run will do, and why; all of them before the first step, also of a resumed run."""

    def resumed(self, epoch: int, batch: int) -> None:
        """A stopped run goes on at this epoch and batch, counted from zero."""

    def stepped(self, standing: Standing) -> None:
        """A step was taken."""

    def evaluated(self, row: Row) -> None:
        """An epoch was evaluated: its row of metrics.csv, with `epoch`, `step`, `minutes`, `train_loss` and scores."""

    def saved(self, checkpoint: Path) -> None:
        """A checkpoint was written, best.safetensors or last.safetensors; it can be used at once."""


Callback = Listener | Callable[[Row], None]
"""Who hears what a run tells: a listener, or a function that gets the row of each epoch that was evaluated."""

_TOLD = tuple(name for name in vars(Listener) if not name.startswith("_"))


class Listeners(Listener):
    """Tells several what a run tells, in turn."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        for name in _TOLD:
            setattr(self, name, partial(self._tell, [heard for each in callbacks if (heard := _heard(each, name))]))

    @staticmethod
    def _tell(heard: Sequence[Callable[..., None]], *told: Any) -> None:
        for each in heard:
            each(*told)


def _heard(callback: Callback, name: str) -> Callable[..., None] | None:
    if isinstance(callback, Listener):
        return getattr(callback, name)  # type: ignore[no-any-return]
    if not callable(callback):
        raise ConfigError(f"a callback is a function of an epoch's row, or a Listener; got a {type(callback).__name__}")
    return callback if name == "evaluated" else None


class Tracker(Listener):
    """Gives the numbers of steps and epochs to somebody who keeps them, and passes everything on to another listener.

    `keep` is called with numbers by name, and the step they belong to.
    """

    def __init__(self, keep: Callable[[dict[str, float], int], None], then: Listener) -> None:
        self._keep, self._then = keep, then
        for name in ("reading", "warned", "planned", "resumed", "saved"):
            setattr(self, name, getattr(then, name))

    def stepped(self, standing: Standing) -> None:
        self._keep({"step/loss": standing.loss, "step/rate": standing.rate}, standing.step)
        self._then.stepped(standing)

    def evaluated(self, row: Row) -> None:
        values = {f"epoch/{name}": float(value) for name, value in row.items() if name not in ("epoch", "step")}
        self._keep(values, int(row["step"]))
        self._then.evaluated(row)


def check_track(track: Track) -> None:
    """Refuse a tracker that is not installed or not allowed, before anything is begun."""
    if track == "wandb":
        refuse_network("Weights & Biases", "set train.track to 'csv' or 'tensorboard'")
    if track != "csv" and find_spec(track) is None:
        raise ConfigError(f"train.track = '{track}' needs the package {track}: pip install 'hodgeformer[track]'")


@contextmanager
def tracked(listener: Listener, track: Track, folder: Path, settings: dict[str, Any]) -> Iterator[Listener]:
    """The listener, behind whoever else keeps the numbers of the run in `folder`."""
    if track == "csv":
        yield listener
    elif track == "tensorboard":
        with _tensorboard(folder / "tensorboard") as keep:
            yield Tracker(keep, listener)
    else:
        with _wandb(folder, settings) as keep:
            yield Tracker(keep, listener)


@contextmanager
def _tensorboard(folder: Path) -> Iterator[Callable[[dict[str, float], int], None]]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder), flush_secs=30)

    def keep(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    try:
        yield keep
    finally:
        writer.close()


@contextmanager
def _wandb(folder: Path, settings: dict[str, Any]) -> Iterator[Callable[[dict[str, float], int], None]]:
    """A run of Weights & Biases, named as the folder; WANDB_MODE=offline keeps it there until `wandb sync`."""
    import wandb

    # The id follows from the folder, so that a resumed run goes on there too.
    name = "-".join(folder.resolve().parts[-2:])
    run = wandb.init(project="hodgeformer", id=name, name=name, dir=str(folder), config=settings, resume="allow")

    def keep(values: dict[str, float], step: int) -> None:
        run.log(values, step=step)

    try:
        yield keep
    except BaseException:
        run.finish(exit_code=1)
        raise
    run.finish()
