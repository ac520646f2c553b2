"""The output of training while it runs: bars in a terminal or a notebook, plain lines elsewhere, or JSON."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from hodgeformer.cli.results import LOG_EVERY, Pulse, duration
from hodgeformer.draw.page import in_notebook
from hodgeformer.training.listener import Callback, Listener, Row, Standing
from hodgeformer.training.run import train as train_silently

EVENT_EVERY = 2.0
"""Seconds between two progress events."""
_NOTEBOOK_WIDTH = 110
_DRAWN_EVERY = 0.5  # seconds between two drawings: every one of them is kept in the notebook's messages


class Display(Listener):
    """Prints the events of a run. Without bars: a line for each evaluation, and now and then one in between."""

    def __init__(self) -> None:
        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[state]}")
        if in_notebook():
            self._console = Console(force_jupyter=False)
            self._bar: Progress = NotebookProgress(*columns, TimeElapsedColumn())
        else:
            self._console = Console(stderr=True)
            self._bar = Progress(
                *columns, TimeElapsedColumn(), console=self._console, disable=not self._console.is_terminal
            )
        self._bar.start()
        self._tasks: dict[str, TaskID] = {}
        self._pulse = Pulse(LOG_EVERY)

    def close(self) -> None:
        self._bar.stop()

    def reading(self, done: int, total: int) -> None:
        self._advance("reading meshes", done / total, f"{done} of {total}", visible=done < total)

    def warned(self, message: str) -> None:
        self._print(f"note: {message}")

    def planned(self, reason: str) -> None:
        self._print(f"plan: {reason}")

    def resumed(self, epoch: int, batch: int) -> None:
        self._print(f"continuing at epoch {epoch + 1}, batch {batch + 1}")

    def stepped(self, standing: Standing) -> None:
        total = "" if standing.epochs is None else f"/{standing.epochs}"
        accuracy = "" if standing.accuracy is None else f", accuracy {100 * standing.accuracy:.1f} %"
        left = standing.elapsed * (1 - standing.share) / standing.share if standing.share > 0.002 else None
        state = f"epoch {standing.epoch + 1}{total}, loss {standing.loss:.3f}{accuracy}"
        state += "" if left is None else f", {duration(left)} left"
        self._advance("training", min(standing.share, 1.0), state)

    def beside(self, work: str, share: float) -> None:
        self._advance(f"{work} with shorter runs", share, f"{share:.0%}")

    def evaluated(self, row: Row) -> None:
        shown = [f"epoch {row['epoch']:>4}", f"loss {float(row['train_loss']):.4f}"]
        for name, value in row.items():
            if name.endswith(("_accuracy", "_r2", "_mean_iou")):
                shown.append(f"{name.replace('_', ' ')} {float(value):.4f}")
        self._print("  ".join(shown))

    def _advance(self, work: str, share: float, state: str, *, visible: bool = True) -> None:
        if work not in self._tasks:
            self._tasks[work] = self._bar.add_task(work, total=1.0, state="")
        self._bar.update(self._tasks[work], completed=share, state=state, visible=visible)
        if self._bar.disable and self._pulse.due():
            self._print(f"{work}: {state}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Events(Listener):
    """Prints the events of a run as JSON, one object per line, on standard output."""

    def __init__(self) -> None:
        self._pulse = Pulse(EVENT_EVERY)

    def reading(self, done: int, total: int) -> None:
        if self._pulse.due():
            print_event("reading", done=done, total=total)

    def warned(self, message: str) -> None:
        print_event("note", message=message)

    def planned(self, reason: str) -> None:
        print_event("plan", message=reason)

    def resumed(self, epoch: int, batch: int) -> None:
        print_event("resumed", epoch=epoch + 1, batch=batch + 1)

    def stepped(self, standing: Standing) -> None:
        if self._pulse.due():
            print_event("progress", **{**vars(standing), "epoch": standing.epoch + 1})

    def beside(self, work: str, share: float) -> None:
        if self._pulse.due():
            print_event("beside", work=work, share=share)

    def evaluated(self, row: Row) -> None:
        print_event("epoch", **row)

    def saved(self, checkpoint: Path) -> None:
        print_event("saved", path=str(checkpoint))


def print_event(event: str, **content: Any) -> None:
    """Print one event as a line of JSON."""
    print(json.dumps({"event": event, **content}), flush=True)


def display(*, quiet: bool = False, as_json: bool = False) -> AbstractContextManager[Listener]:
    """A display that restores the terminal whatever happens."""
    if quiet:
        return nullcontext(Listener())
    return nullcontext(Events()) if as_json else closing(Display())


@wraps(train_silently)
def train(*arguments: Any, callbacks: Sequence[Callback] | None = None, **settings: Any) -> Any:
    """`hf.train`: with the display of the command line, unless there are callbacks."""
    processes = settings.get("processes")
    is_shown = callbacks is None and (processes is None or processes.is_first)
    with display(quiet=not is_shown) as listener:
        return train_silently(*arguments, callbacks=[*(callbacks or ()), listener], **settings)


class NotebookProgress(Progress):
    """The same bars as in a terminal, as text in one output of the cell, which is replaced while the work continues.

    Jupyter, Colab and VS Code show it without an extension.
    """

    def __init__(self, *columns: ProgressColumn) -> None:
        drawn = Console(file=io.StringIO(), width=_NOTEBOOK_WIDTH, color_system=None, force_jupyter=False)
        super().__init__(*columns, console=drawn, auto_refresh=False)
        self._pulse = Pulse(_DRAWN_EVERY)
        display = importlib.import_module("IPython.display").display
        self._output = display({"text/plain": ""}, raw=True, display_id=True)

    def start(self) -> None:
        """There is no thread to start: the work itself draws."""

    def stop(self) -> None:
        self._draw()

    def refresh(self) -> None:
        if self._pulse.due():
            self._draw()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self.refresh()

    def _draw(self) -> None:
        with self.console.capture() as drawn:
            self.console.print(self.get_renderable())
        self._output.update({"text/plain": drawn.get().rstrip()}, raw=True)
