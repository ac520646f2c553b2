"""Fine-tuning from the viewer: the ordinary training of the command line, in a process of its own."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from hodgeformer.data.folder import open_folder
from hodgeformer.data.folder_spec import FILE_NAME
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.models import ModelList, OfferedModel
from hodgeformer.web.viewer.open_meshes import Progress

MIN_MESHES = 3
MAX_MINUTES = 600.0
ENDS = ("idle", "done", "stopped", "failed")
"""Stages in which no training runs."""


class Learning:
    """One training at a time. Its model is added to the list."""

    def __init__(self, models: ModelList) -> None:
        self.progress = Progress()
        self._models = models
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self, data: Path, model: str, minutes: float) -> None:
        """Fine-tune the model on the data set; refused while another training runs, or with too few meshes."""
        self._models.check_name(model)
        if not 0 < minutes <= MAX_MINUTES:
            raise Refusal(400, f"Set the minutes to a number between 0 and {MAX_MINUTES:.0f}.")
        n = len(open_folder(data).splits.get("train", ())) if (data / FILE_NAME).is_file() else 0
        if n < MIN_MESHES:
            raise Refusal(
                409,
                f"There is too little to learn from: {n} of at least {MIN_MESHES} corrected meshes, not counting those "
                "held out for the test. Correct some more.",
            )
        with self._lock:
            if self.progress.stage not in ENDS:
                raise Refusal(409, "A training is running; wait until it ends, or stop it.")
            out = _free_run(data.parent / "runs", data.name)
            # -P: a folder here with the name of the package is not imported instead of it.
            command = [sys.executable, "-P", "-m", "hodgeformer", "train", data, "--out", out, "--json"]
            command += ["--from", str(self._models.offered[model].source), "--set", f"train.minutes={minutes}"]
            self.progress = Progress("starting")
            self._process = subprocess.Popen(
                list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
            )
        threading.Thread(target=self._follow, args=(self._process, out, n), daemon=True).start()

    def stop(self) -> None:
        """Stop the training; it saves its state and can be resumed."""
        if self._process is not None:
            self._process.terminate()

    def _follow(self, process: subprocess.Popen[str], out: Path, n_meshes: int) -> None:
        """Read the events of the training until it ends."""
        message, result = "", None
        assert process.stdout is not None
        with process, process.stdout as lines:
            for line in lines:
                event = _event(line)
                message = event.get("message", message)
                if event["event"] == "progress":
                    self.progress = Progress("learning", min(float(event["share"]), 1.0))
                elif event["event"] == "result":
                    result = event
                elif event["event"] == "stopped":
                    self.progress = Progress("stopping")
        if result is not None and process.returncode == 0:
            self._models.offered[out.name] = OfferedModel(str(out), out)
            self.progress = Progress("done", 1.0, model=out.name, told=_summary(n_meshes, result))
        elif self.progress.stage == "stopping" or process.returncode < 0:
            begun = (out / "config.toml").is_file()
            again = f" Continue with: hodgeformer train --resume {out}" if begun else ""
            self.progress = Progress("stopped", told=f"Stopped.{again}")
        else:
            self.progress = Progress(
                "failed", error=message or f"The training ended with exit code {process.returncode}."
            )


def _event(line: str) -> dict[str, Any]:
    """The event in a line of the training; any other line is a message."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"event": "message", "message": line.strip()}


def _summary(n_meshes: int, result: dict[str, Any]) -> str:
    learned = f"Learned from {n_meshes} meshes"
    if result["scores"] is None:
        return f"{learned}; none of the corrected meshes is held out for the test yet."
    right = result["scores"]["metrics"]["face_accuracy"]
    n_tested = len(result["scores"]["face_accuracy_of_meshes"])
    return (
        f"{learned}: {100 * right:.1f} % of the faces of {n_tested} held-out mesh{'es' * (n_tested > 1)} are correct."
    )


def _free_run(runs: Path, name: str) -> Path:
    return next(run for number in itertools.count(1) if not (run := runs / f"{name}-{number}").exists())
