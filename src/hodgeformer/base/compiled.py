"""Compiled functions, and where their machine code is cached."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(*, cache: bool = False, **options: Any) -> Callable[[F], F]:
    """`numba.njit` that compiles even if numba finds no writable folder for its cache.

    In containers and services, neither the installation nor the home directory may be writable, and numba then refuses
    to compile. Our functions are then cached in a private temporary folder, which starts with the compiled code that is
    shipped beside the package. If that fails too, every process compiles again.

    Nobody calls our functions from C, so the wrappers for that, a tenth of the time of compiling, are left out.
    """
    options["no_cfunc_wrapper"] = True

    def compiled(function: F) -> F:
        try:
            return cast(F, numba.njit(cache=cache, **options)(function))
        except RuntimeError:  # numba found no writable folder
            folder = _temporary_folder()
            # Only while this function is decorated: functions of other packages do not belong in our folder.
            config: Any = numba.config
            given, config.CACHE_DIR = config.CACHE_DIR, str(folder or "")
            try:
                return cast(F, numba.njit(cache=folder is not None, **options)(function))
            finally:
                config.CACHE_DIR = given

    return compiled


@lru_cache(maxsize=1)
def _temporary_folder() -> Path | None:
    """A folder of this user alone, with the compiled code from beside the package; None if it cannot be created."""
    try:
        user = os.getuid() if os.name == "posix" else 0
        folder = Path(tempfile.gettempdir()) / f"hodgeformer-numba-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if os.name == "posix" and (not stat.S_ISDIR(status.st_mode) or status.st_uid != user or status.st_mode & 0o077):
            raise PermissionError(f"{folder} belongs to another user")
        _copy_compiled(Path(__file__).parents[1], folder)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        warnings.warn("no writable folder for compiled code; every start compiles again", stacklevel=4)
        return None
    warnings.warn(
        f"neither the installation nor the home directory is writable; compiled code is cached in {folder}; set "
        "NUMBA_CACHE_DIR to use another folder",
        stacklevel=4,
    )
    return folder


def _copy_compiled(package: Path, folder: Path) -> None:
    """Copy the cache that numba keeps beside the modules of a package."""
    for module in {path.parent.parent for path in package.rglob("__pycache__/*.nbi")}:
        place = folder / _subfolder(module)
        if not place.exists():
            draft = Path(tempfile.mkdtemp(dir=folder))
            for path in (module / "__pycache__").glob("*.nb[ci]"):
                shutil.copyfile(path, draft / path.name)
            try:
                draft.rename(place)
            except OSError:  # another process was first
                shutil.rmtree(draft)


def _subfolder(module: Path) -> str:
    """The name that numba gives to the folder of a module in its cache."""
    return f"{module.name}_{hashlib.sha1(str(module).encode(), usedforsecurity=False).hexdigest()}"
