"""Fetch a file from the first of several sources that has it: resumed, checked, and complete or absent."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from hodgeformer.errors import DataError
from hodgeformer.files import offline

_BLOCK = 1 << 20
Progress = Callable[[int, int | None], None]


def home() -> Path:
    """Where downloads and caches live: HODGEFORMER_HOME, or the user's cache folder."""
    chosen = os.environ.get("HODGEFORMER_HOME")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return Path(base) / "hodgeformer" if base else Path.home() / ".cache" / "hodgeformer"


def data_folder() -> Path:
    """Where data sets live: HODGEFORMER_DATA, or `data` below the home folder."""
    chosen = os.environ.get("HODGEFORMER_DATA")
    return Path(chosen) if chosen else home() / "data"


def fetch(
    sources: Sequence[str],
    path: Path,
    *,
    sha256: str,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """The file at `path`, downloaded unless it is already there with this checksum.

    A broken download leaves `<name>.part` behind and goes on from its end the next time, or at the next source.
    `progress(bytes so far, total or None)` is called for every block.
    """
    if path.is_file() and _sha256(path) == sha256:
        return path
    if offline():
        raise DataError(f"{path.name} is not here and HODGEFORMER_OFFLINE is set. {_by_hand(sources, path)}")
    part = path.with_name(path.name + ".part")
    _make_folder(path.parent)
    failures = []
    for url in sources:
        try:
            _receive(url, part, progress, timeout)
        except (OSError, ValueError) as error:  # URLError is an OSError; ValueError is an address that is none
            failures.append(f"{url}: {getattr(error, 'reason', None) or error}")
            continue
        found = _sha256(part)
        if found == sha256:
            part.replace(path)
            return path
        part.unlink()
        failures.append(f"{url}: the file has checksum {found[:12]}..., expected {sha256[:12]}...")
    tried = "; ".join(failures) or "no source is known"
    raise DataError(f"{path.name} could not be downloaded ({tried}). {_by_hand(sources, path)}")


def _receive(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """Append what is missing of `part`, or start over where the server cannot continue."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing, or the part belongs to another file: the checksum tells
            return
        raise
    with response:
        resumed = response.status == 206
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as stream:
            while block := response.read(_BLOCK):
                stream.write(block)
                have += len(block)
                if progress is not None:
                    progress(have, total)
    if total is not None and have < total:
        raise OSError(f"the connection ended after {have} of {total} bytes")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder {folder} ({error.strerror}); set HODGEFORMER_HOME to another"
        ) from None


def _by_hand(sources: Sequence[str], path: Path) -> str:
    where = f" from {' or '.join(sources)}" if sources else ""
    return f"Get it by hand{where} and put it at {path}"
