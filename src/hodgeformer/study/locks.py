"""One process per run: a second one that is started on the same study takes other runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file with our process number; one left behind by a process that is gone does not count."""
    while True:
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            break
        except FileExistsError:
            if _is_held(path):
                raise Busy(path) from None
            path.unlink(missing_ok=True)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(str(os.getpid()))
        yield
    finally:
        path.unlink(missing_ok=True)


def _is_held(path: Path) -> bool:
    if os.name == "nt":  # there, asking whether a process lives would interrupt it
        return path.exists()
    try:
        holder = int(path.read_text() or os.getpid())
        os.kill(holder, 0)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
