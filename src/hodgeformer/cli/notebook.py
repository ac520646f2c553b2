"""A progress bar in a notebook: one output of the cell, which is replaced while the work continues.

Jupyter, Colab and VS Code show it without an extension: the bar is text.
"""

from __future__ import annotations

import importlib
import io
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

from hodgeformer.cli.results import Pulse

_WIDTH = 110
_EVERY = 0.5  # seconds between two drawings: every one of them is kept in the notebook's messages


class NotebookProgress(Progress):
    """The same bars as in a terminal."""

    def __init__(self, *columns: ProgressColumn) -> None:
        drawn = Console(file=io.StringIO(), width=_WIDTH, color_system=None, force_jupyter=False)
        super().__init__(*columns, console=drawn, auto_refresh=False)
        self._pulse = Pulse(_EVERY)
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
