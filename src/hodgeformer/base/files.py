"""Places on disk or at an address, files that are whole or not there, and where compiled code is kept."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
import warnings
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
        return stream.read(size)


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


def keep_compiled_code(package: Path) -> None:
    """Give numba a place for what it compiles where neither the installation nor the home can be written.

    Containers and services are like that, and numba then refuses to compile at all. A folder of temporary files is
    taken that nobody else can write, and begins with what lies compiled beside the package; without one, every process
    compiles anew.
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
        _copy_compiled(package, folder)
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


def _copy_compiled(package: Path, folder: Path) -> None:
    """What numba keeps beside the modules of a package, to where it looks for it when it is told a folder."""
    for module in {path.parent.parent for path in package.rglob("__pycache__/*.nbi")}:
        place = folder / f"{module.name}_{hashlib.sha1(str(module).encode(), usedforsecurity=False).hexdigest()}"
        if not place.exists():
            draft = Path(tempfile.mkdtemp(dir=folder))
            for path in (module / "__pycache__").glob("*.nb[ci]"):
                shutil.copyfile(path, draft / path.name)
            try:
                draft.rename(place)
            except OSError:  # another process was first
                shutil.rmtree(draft)


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder that is there or can be made."""
    there = next((place for place in (folder / "__pycache__", folder, *folder.parents) if place.exists()), None)
    return there is not None and os.access(there, os.W_OK)
