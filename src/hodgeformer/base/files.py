"""Local paths and URLs, and files that are written completely or not at all."""

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

from hodgeformer.base.errors import ConfigError, DataError, OutputError

_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
_ABANDONED = 3600.0  # seconds; no write takes that long
_ON_THIS_MACHINE = ("", "file", "local", "memory")  # protocols


def place(address: str | os.PathLike[str]) -> Path:
    """A path; for a URL that fsspec supports, such as s3://bucket/scans, an object that behaves like a path."""
    is_text = isinstance(address, str | os.PathLike)
    protocol = str(address).partition("://")[0] if is_text else getattr(address, "protocol", "")
    if is_text and "://" not in str(address):
        return Path(address)
    if protocol not in _ON_THIS_MACHINE:
        refuse_network(str(address), "download the files and use a local path")
    if not is_text:
        return cast(Path, address)
    try:
        from fsspec.registry import known_implementations
        from upath import UPath
    except ImportError:
        raise ConfigError(f"{address}: URLs need a package: pip install 'hodgeformer[remote]'") from None
    try:
        found: Any = UPath(str(address))
        _ = found.fs  # imports the package that implements the protocol
    except ImportError:
        package, _, inside = known_implementations[protocol]["class"].partition(".")
        wanted = f"'fsspec[{inside.split('.')[1]}]'" if package == "fsspec" else package
        raise ConfigError(f"{address}: {protocol}:// URLs need a package: pip install {wanted}") from None
    except ValueError as error:
        raise ConfigError(f"{address}: unsupported URL ({error})") from None
    return Path(found.path) if protocol in ("file", "local") else cast(Path, found)


def is_folder(path: Path) -> bool:
    """Whether it is a folder; not if its server does not answer: reading it as a file says why."""
    return _answer(path, path.is_dir)


def is_file(path: Path) -> bool:
    """Whether it is a file; not if its server does not answer."""
    return _answer(path, path.is_file)


def _answer(path: Path, question: Callable[[], bool]) -> bool:
    try:
        return question()
    except Exception:  # each kind of store raises its own errors
        if isinstance(path, Path):
            raise
        return False


def files_below(folder: Path) -> list[Path]:
    """All files in a folder and its subfolders, sorted; local or remote. Linked folders are entered once."""
    if not isinstance(folder, Path):  # one request lists them all
        return sorted(_at(folder, name) for name in folder.fs.find(folder.path))
    found, seen = list[Path](), set[str]()
    for here, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(here)) in seen:
            folders.clear()  # a link to a folder above would never end
            continue
        seen.add(real)
        found += [path for name in names if (path := Path(here, name)).is_file()]
    return sorted(found)


def files_matching(pattern: str) -> list[Path]:
    """The files that match a pattern with `*`, `**`, `?` or `[...]`, sorted."""
    whole = place(pattern)
    if not isinstance(whole, Path):
        try:
            found = whole.fs.glob(whole.path, detail=True)
        except Exception as error:  # each kind of store raises its own errors
            raise ConfigError(f"{pattern}: the files there cannot be listed ({error})") from error
        return sorted(_at(whole, name) for name, info in found.items() if info["type"] == "file")
    # Path.glob does not accept absolute patterns.
    return [Path(name) for name in sorted(glob.glob(str(whole), recursive=True)) if Path(name).is_file()]  # noqa: PTH207


def _at(other: Any, name: str) -> Path:
    """A file of a remote store, by its name there."""
    return place(other.fs.unstrip_protocol(name))


def write_atomically(path: Path, content: bytes, failing: Callable[[str], Exception] = OutputError) -> None:
    """Replace a file so that neither a reader nor a crash nor a full disk leaves half of it.

    `failing` is the class of the error that is raised.
    """
    if not isinstance(path, Path):  # object stores show only complete objects
        try:
            path.write_bytes(content)
        except Exception as error:  # each kind of store raises its own errors
            raise failing(f"{path}: cannot be written ({type(error).__name__}: {error})") from error
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
        with contextlib.suppress(OSError):  # a read-only file system refuses this even if there is no such file
            draft.unlink(missing_ok=True)
        hint = "; does its folder exist?" if isinstance(error, FileNotFoundError) else ""
        hint = "; the old file is unchanged" if path.exists() else hint
        raise failing(f"{path}: cannot be written ({error.strerror or error}){hint}") from error
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_range(path: Path, offset: int, size: int) -> bytes:
    """Read only these bytes of a file, local or remote."""
    if not isinstance(path, Path):
        content = cast(bytes, path.fs.cat_file(path.path, offset, offset + size))
        if len(content) > size:
            raise DataError(f"{path}: its server sends whole files only, not ranges of bytes; use another server")
        return content
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(min(size, path.stat().st_size))  # a damaged file may claim any size


def stamp(path: Path) -> str:
    """A string that changes with the file: its size and time, or a remote store's own key; empty without a file."""
    try:
        if not isinstance(path, Path):
            return cast(str, path.fs.ukey(path.path))
        status = path.stat()
        return f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        return ""


@lru_cache(maxsize=1024)
def _remove_drafts(folder: Path) -> None:
    """Delete what processes left that were killed while writing, once per folder: folders may be large."""
    with contextlib.suppress(OSError):  # without permission the write itself fails, with a better message
        for draft in folder.glob(".*.tmp"):
            if _DRAFT.fullmatch(draft.name) and time.time() - draft.stat().st_mtime > _ABANDONED:
                draft.unlink(missing_ok=True)


def offline() -> bool:
    """HODGEFORMER_OFFLINE forbids the network, unless it is empty, 0, false or no."""
    return os.environ.get("HODGEFORMER_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def refuse_network(address: str, remedy: str, failing: Callable[[str], Exception] = ConfigError) -> None:
    """Call this before contacting another machine."""
    if offline():
        raise failing(f"HODGEFORMER_OFFLINE is set, so {address} is not contacted; {remedy}")
