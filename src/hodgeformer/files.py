"""Files that are whole or not there, where compiled code is kept, and whether the network may be asked for a file."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from hodgeformer.errors import OutputError

_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
_ABANDONED = 3600.0  # seconds: no write takes as long


def write_atomically(path: Path, content: bytes, failing: Callable[[str], Exception] = OutputError) -> None:
    """Replace a file so that a reader, a crash or a full disk never sees half of it.

    `failing` makes the error out of its message: an `OutputError`, where the caller has no better one.
    """
    _remove_drafts(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except KeyboardInterrupt:
        draft.unlink(missing_ok=True)
        raise
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


@lru_cache(maxsize=1024)
def _remove_drafts(folder: Path) -> None:
    """What a process left here that was killed while it wrote; looked for once, since folders may be large."""
    with contextlib.suppress(OSError):  # whoever may not, may not write either, and is told so then
        for draft in folder.glob(".*.tmp"):
            if _DRAFT.fullmatch(draft.name) and time.time() - draft.stat().st_mtime > _ABANDONED:
                draft.unlink(missing_ok=True)


def offline() -> bool:
    """HODGEFORMER_OFFLINE forbids the network, unless it is empty, 0, false or no."""
    return os.environ.get("HODGEFORMER_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def keep_compiled_code(package: Path) -> None:
    """Give numba a place for what it compiles where neither the installation nor the home can be written.

    Containers and services are like that, and numba then refuses to compile at all. A folder of temporary files is
    taken that nobody else can write; without one, every process compiles anew.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if os.name != "posix" or "NUMBA_CACHE_DIR" in os.environ or _can_write(package / "mesh") or _can_write(caches):
        return
    try:
        folder = Path(tempfile.gettempdir()) / f"hodgeformer-numba-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        held = folder.lstat()
        if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.getuid() or held.st_mode & 0o077:
            raise PermissionError(f"{folder} belongs to somebody else")
    except OSError:
        from numba.core.dispatcher import Dispatcher

        # The one switch that reaches functions which are declared with `cache=True`.
        Dispatcher.enable_caching = lambda self: None  # type: ignore[method-assign]
        warnings.warn("no folder can be written to keep compiled code in; every start compiles anew", stacklevel=2)
        return
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # which has read it already
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    warnings.warn(
        f"neither the installation nor {caches} can be written; compiled code is kept in {folder}, or where "
        "NUMBA_CACHE_DIR says",
        stacklevel=2,
    )


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder that is there or can be made."""
    there = next((place for place in (folder / "__pycache__", folder, *folder.parents) if place.exists()), None)
    return there is not None and os.access(there, os.W_OK)
