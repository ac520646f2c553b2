"""Files that are whole or not there, and whether the network may be asked for one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from hodgeformer.errors import OutputError


def write_atomically(path: Path, content: bytes, failing: Callable[[str], Exception] = OutputError) -> None:
    """Replace a file so that a reader, a crash or a full disk never sees half of it.

    `failing` makes the error out of its message: an `OutputError`, where the caller has no better one.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        hint = "does its folder exist?" if isinstance(error, FileNotFoundError) else "what was there is unchanged"
        raise failing(f"{path}: cannot be written ({error.strerror or error}); {hint}") from error
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def offline() -> bool:
    """HODGEFORMER_OFFLINE forbids the network, unless it is empty, 0, false or no."""
    return os.environ.get("HODGEFORMER_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")
