"""Places on disk or at an address, and files that are whole or not there."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from hodgeformer.base.errors import ConfigError, OutputError

_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
_ABANDONED = 3600.0  # seconds: no write takes as long
_ON_THIS_MACHINE = ("", "file", "local", "memory")  # protocols


def place(address: str | os.PathLike[str]) -> Path:
    """A path; for an address that fsspec knows, such as s3://bucket/scans, what reads and writes there like a path."""
    if not isinstance(address, str | os.PathLike):  # a place already
        if getattr(address, "protocol", "") not in _ON_THIS_MACHINE:
            refuse_network(str(address), "use a local path: download what is to be read")
        return address
    protocol, sign, _ = str(address).partition("://")
    if not sign:
        return Path(address)
    if protocol not in _ON_THIS_MACHINE:
        refuse_network(str(address), "use a local path: download what is to be read")
    try:
        from fsspec.registry import known_implementations
        from upath import UPath
    except ImportError:
        raise ConfigError(f"{address}: addresses need a package: pip install 'hodgeformer[remote]'") from None
    try:
        found: Any = UPath(str(address))
        _ = found.fs  # looks for the package that speaks the protocol
    except ImportError:
        package, _, inside = known_implementations[protocol]["class"].partition(".")
        wanted = f"'fsspec[{inside.split('.')[1]}]'" if package == "fsspec" else package
        raise ConfigError(f"{address}: addresses of {protocol}:// need a package: pip install {wanted}") from None
    except ValueError as error:
        raise ConfigError(f"{address}: not an address that can be read ({error})") from None
    return Path(found.path) if protocol in ("file", "local") else cast(Path, found)


def files_below(folder: Path) -> list[Path]:
    """All files of a folder and below, in order, wherever it is."""
    if not isinstance(folder, Path):  # one request lists them
        return sorted(_at(folder, name) for name in folder.fs.find(folder.path))
    return sorted(path for path in folder.rglob("*") if path.is_file())


def files_matching(pattern: str) -> list[Path]:
    """The files that a pattern with `*`, `**`, `?` or `[...]` names, in order."""
    whole = place(pattern)
    if not isinstance(whole, Path):
        return sorted(
            _at(whole, name) for name, held in whole.fs.glob(whole.path, detail=True).items() if held["type"] == "file"
        )
    # Path.glob takes no absolute patterns.
    return [Path(name) for name in sorted(glob.glob(str(whole), recursive=True)) if Path(name).is_file()]  # noqa: PTH207


def _at(other: Any, name: str) -> Path:
    """What a store calls by this name, as a place."""
    return place(other.fs.unstrip_protocol(name))


def write_atomically(path: Path, content: bytes, failing: Callable[[str], Exception] = OutputError) -> None:
    """Replace a file so that a reader, a crash or a full disk never sees half of it.

    `failing` makes the error out of its message: an `OutputError`, where the caller has no better one.
    """
    if not isinstance(path, Path):  # stores of objects show whole ones only
        _upload(path, content, failing)
        return
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


def read_range(path: Path, offset: int, size: int) -> bytes:
    """Some bytes of a file, wherever it is, without the others."""
    if not isinstance(path, Path):
        return cast(bytes, path.fs.cat_file(path.path, offset, offset + size))
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(min(size, path.stat().st_size))  # a size that is made up would be asked of memory


def stamp(path: Path) -> str:
    """Changes when a file does: its size and time, or what a store knows in their place; empty where there is none."""
    try:
        if not isinstance(path, Path):
            return cast(str, path.fs.ukey(path.path))
        held = path.stat()
        return f"{held.st_size} {held.st_mtime_ns}"
    except OSError:
        return ""


def _upload(path: Any, content: bytes, failing: Callable[[str], Exception]) -> None:
    try:
        path.write_bytes(content)
    except Exception as error:  # each kind of store has errors of its own
        raise failing(f"{path}: cannot be written ({type(error).__name__}: {error})") from error


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


def refuse_network(address: str, remedy: str, failing: Callable[[str], Exception] = ConfigError) -> None:
    """Whoever is about to contact another machine asks here first."""
    if offline():
        raise failing(f"HODGEFORMER_OFFLINE is set, so {address} is not contacted; {remedy}")
