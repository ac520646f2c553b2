"""The folder of a run: config.toml, metrics.csv, best and last checkpoint, state, env.json, report.html."""

from __future__ import annotations

import csv
import getpass
import io
import json
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import write_atomically
from hodgeformer.base.machine import thread_count
from hodgeformer.predict.checkpoint import versions


class InUseError(ConfigError):
    """Another process is training in the folder."""


class RunFolder:
    """Paths and small files of one run. Only the first process writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config, self.metrics, self.report = root / "config.toml", root / "metrics.csv", root / "report.html"
        self.best, self.last, self.state = (root / f"{name}.safetensors" for name in ("best", "last", "state"))
        self._lock, self._owner, self._env = root / ".lock", root / ".owner.json", root / "env.json"

    def check_free(self) -> None:
        """Refuse a folder that already contains a run or other files."""
        if self.config.exists() or self.state.exists():
            raise ConfigError(
                f"{self.root} already contains a run; continue it with `hodgeformer train --resume {self.root}`, or "
                "choose another --out"
            )
        # A run that was killed before its configuration was written has left nothing useful.
        if self.root.exists() and (not self.root.is_dir() or set(self.root.iterdir()) - self._leftovers()):
            raise ConfigError(f"{self.root} exists and is not empty; choose another --out")

    def check_run(self) -> None:
        if self.config.is_file():
            return
        if self._env.exists() and not set(self.root.iterdir()) - self._leftovers():
            raise CheckpointError(
                f"{self.root}: this run was stopped before it began, so it cannot be resumed; start it again with the "
                "original command"
            )
        raise CheckpointError(f"{self.root}: not a run folder; config.toml is missing")

    def _leftovers(self) -> set[Path]:
        """The files that a run writes before its configuration, and incomplete drafts."""
        return {self._lock, self._owner, self._env, *self.root.glob(".*.tmp"), *self.rehearsals}

    @property
    def rehearsals(self) -> list[Path]:
        """The folders of shorter runs beside this one, which are removed at its end."""
        return sorted(self.root.glob("rehearsal-*"))

    @contextmanager
    def owned(self, *, new: bool) -> Iterator[None]:
        """Lock the folder while this process trains; `new` for a run that creates it.

        The system releases the lock when a process ends, however it ends: a killed process leaves no stale lock.
        """
        if new:
            self.check_free()
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CheckpointError(
                    f"{self.root}: the run folder cannot be created ({error.strerror}); choose another --out"
                ) from None
        else:
            self.check_run()
        lock = FileLock(self._lock, blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise InUseError(f"{self.root} is in use: {self._owner_text()}; wait, or choose another --out") from None
        try:
            if new:
                self.check_free()  # another process may have been faster
            for draft in self.root.glob(".*.tmp"):
                draft.unlink(missing_ok=True)
            for begun in self.rehearsals if new else ():  # of a run that was killed before it began
                shutil.rmtree(begun)
            write_atomically(self._owner, json.dumps(_presence()).encode())
            yield
        finally:
            for file in (self._owner, self._lock):
                with suppress(OSError):  # Windows does not delete open files
                    file.unlink()
            lock.release()
            with suppress(OSError):
                self.root.rmdir()  # only succeeds if it is empty

    def _owner_text(self) -> str:
        try:
            return str(json.loads(self._owner.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return "another process is training there"

    def create(self, config: str) -> None:
        """Write the environment of the run and its resolved configuration."""
        write_atomically(self._env, json.dumps(environment(), indent=2).encode())
        self.rewrite(config)  # last, because from now on the folder counts as a run

    def rewrite(self, config: str) -> None:
        write_atomically(self.config, config.encode())

    def rows(self) -> tuple[list[dict[str, str]], int]:
        """The rows of metrics.csv that can be read, and how many cannot."""
        if not self.metrics.is_file():
            return [], 0
        # A damaged file may contain anything; the run itself only needs the state.
        text = self.metrics.read_text(encoding="utf-8", errors="replace").replace("\0", "")
        try:
            rows = list(csv.DictReader(io.StringIO(text)))
        except csv.Error:
            return [], 1
        whole = [row for row in rows if _is_whole(row)]
        return whole, len(rows) - len(whole)


def _is_whole(row: Mapping[Any, Any]) -> bool:
    try:
        return int(row["epoch"]) > 0 and math.isfinite(float(row["train_loss"])) and None not in row
    except (KeyError, TypeError, ValueError):
        return False


def _presence() -> str:
    """Who trains here, for other processes to report."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # the user may have no name in a container
        user = "an unknown user"
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return f"process {os.getpid()} of {user} on {platform.node()} has been training there since {since}"


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table atomically, with the columns that rows name; None becomes an empty cell."""
    text, columns = io.StringIO(newline=""), dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode())


@cache
def commit() -> str | None:
    """The commit of the checkout this code runs from, with a + if files were changed since; None if installed.

    Cached: a commit during a study does not change the running code.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(root)]
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"], capture_output=True, check=False)
    except (OSError, subprocess.CalledProcessError):
        return None  # git is missing or refuses the repository
    return head.stdout.strip() + ("+" if changes.returncode else "")


def environment() -> dict[str, object]:
    """The software and hardware of the run, for the record."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        # `python -m hodgeformer` is the same command.
        "command": [Path(sys.argv[0]).name.replace("__main__.py", "hodgeformer"), *sys.argv[1:]],
        "versions": versions(),
        "commit": commit(),
        "platform": platform.platform(),
        "processor": _processor(),
        "threads": thread_count(),
        "torch_threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _processor() -> str:
    """The model of the processor, which Linux reports in a file and `platform` does not."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8", errors="replace").splitlines() if information.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
