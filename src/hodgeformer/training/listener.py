"""The events of a run. Nothing is printed here: the command line listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hodgeformer.base.errors import ConfigError

Row = Mapping[str, float | int | str]
"""An epoch in metrics.csv."""


@dataclass(frozen=True)
class Standing:
    """The state after a step: the `share` of the run that is done, in [0, 1], and loss and accuracy of the epoch."""

    step: int
    epoch: int
    epochs: int | None
    share: float
    elapsed: float
    loss: float
    accuracy: float | None
    rate: float


class Listener:
    """Receives the events of a run and ignores them. The run calls it in its own thread and waits until it returns."""

    def reading(self, done: int, total: int) -> None:
        """`done` of `total` meshes were read, before training; called after each."""

    def warned(self, message: str) -> None:
        """There is a warning about the data."""

    def planned(self, reason: str) -> None:
        """A sentence about the plan of the run; all come before the first step, also in a resumed run."""

    def resumed(self, epoch: int, batch: int) -> None:
        """A stopped run continues at this epoch and batch, counted from zero."""

    def stepped(self, standing: Standing) -> None:
        """A step is done."""

    def evaluated(self, row: Row) -> None:
        """An epoch was evaluated: its row of metrics.csv, with `epoch`, `step`, `minutes`, `train_loss` and scores."""

    def beside(self, work: str, share: float) -> None:
        """The share of the shorter runs beside the training that is done: trials before it, rehearsals after it."""

    def saved(self, checkpoint: Path) -> None:
        """A checkpoint was written, best.safetensors or last.safetensors; it can be used immediately."""


class PartOf(Listener):
    """Reports the progress of one of several shorter runs as that of all of them."""

    def __init__(self, listener: Listener, work: str, number: int, total: int) -> None:
        self._listener, self._work, self._number, self._total = listener, work, number, total

    def stepped(self, standing: Standing) -> None:
        self._listener.beside(self._work, (self._number + min(standing.share, 1.0)) / self._total)


Callback = Listener | Callable[[Row], None]
"""A listener, or a function that is called with the row of each epoch that was evaluated."""

_EVENTS = tuple(name for name in vars(Listener) if not name.startswith("_"))


class Listeners(Listener):
    """Passes the events of a run on to several callbacks, in turn."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        for each in callbacks:
            if not callable(each) and not isinstance(each, Listener):
                raise ConfigError(f"a callback must be a function or a Listener, got a {type(each).__name__}")
        for event in _EVENTS:
            setattr(self, event, partial(_pass_on, event, callbacks))


def _pass_on(event: str, callbacks: Sequence[Callback], *arguments: Any) -> None:
    for each in callbacks:
        if isinstance(each, Listener):
            getattr(each, event)(*arguments)
        elif event == "evaluated":
            each(*arguments)
