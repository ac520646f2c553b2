"""The folder of a run: config.toml, metrics.csv, best and last checkpoint, state, env.json, report.html."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from hodgeformer.checkpoint import versions
from hodgeformer.errors import CheckpointError, ConfigError
from hodgeformer.files import write_atomically
from hodgeformer.threads import thread_count
from hodgeformer.train.listener import Row


class RunFolder:
    """Paths and small files of one run. Only the first process writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config, self.metrics, self.report = root / "config.toml", root / "metrics.csv", root / "report.html"
        self.best, self.last, self.state = (root / f"{name}.safetensors" for name in ("best", "last", "state"))

    def check_free(self) -> None:
        """Refuse a folder that holds a run already, or cannot be written."""
        if self.config.exists() or self.state.exists():
            raise ConfigError(
                f"{self.root} holds a run already; go on with `hodgeformer train --resume {self.root}`, or choose "
                "another --out"
            )
        if self.root.exists() and (not self.root.is_dir() or any(self.root.iterdir())):
            raise ConfigError(f"{self.root} exists and is not empty; choose another --out")

    def create(self, config: str) -> None:
        """Make the folder with the resolved configuration and what it ran on."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"{self.root}: the run folder cannot be made ({error.strerror}); choose another --out"
            ) from None
        write_atomically(self.root / "env.json", json.dumps(environment(), indent=2).encode())
        # Last, because from now on the folder counts as a run.
        write_atomically(self.config, config.encode())

    def check_run(self) -> None:
        if not self.config.is_file():
            raise CheckpointError(f"{self.root}: not the folder of a run, there is no config.toml in it")

    def rows(self) -> list[dict[str, str]]:
        if not self.metrics.is_file():
            return []
        with self.metrics.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    def write_rows(self, rows: Sequence[Row]) -> None:
        """The whole table anew: a run has at most some hundred rows, and a resumed one drops its last ones."""
        write_csv(self.metrics, rows)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """All columns in the order in which rows first name them."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file as a whole; None becomes an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns_of(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode())


@cache
def commit() -> str | None:
    """The commit of the checkout this code runs from, with a + if files were changed since; None when installed.

    Asked once: what is committed while a study runs is not what it runs.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(root)]
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"], capture_output=True, check=False)
    except (OSError, subprocess.CalledProcessError):
        return None  # no git, or a repository of somebody else
    return head.stdout.strip() + ("+" if changes.returncode else "")


def environment() -> dict[str, object]:
    """What the run runs on, for the record."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "versions": versions(),
        "commit": commit(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "threads": thread_count(),
        "torch_threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
