"""The memory of this process: how much it holds, how much it held at most, and what becomes of freed blocks."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

GIGABYTE = 2**30
_sharing = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4  # of glibc's malloc.h


def held_memory() -> int | None:
    """Bytes of memory held now, or at most where the system tells no more; None where it tells nothing."""
    held = _status("VmRSS")
    return peak_memory() if held is None else held


def peak_memory() -> int | None:
    """Bytes of memory held at most; None where the system does not say.

    From /proc where there is one: the peak that getrusage tells includes that of the process which started this one.
    """
    peak = _status("VmHWM")
    if peak is not None or sys.platform == "win32":
        return peak
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def free_memory() -> int:
    """Bytes that can still be used, as the system or the limit of its container says; 4 GB where neither does."""
    known = [4 * GIGABYTE]
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        lines = (line.split() for line in meminfo.read_text().splitlines())
        known = [int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"] or known
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.is_file() and (most := limit.read_text().strip()) != "max":
        known.append(int(most) - int(used.read_text()))
    return max(0, min(known)) // _sharing


def share_memory(n_processes: int) -> None:
    """From now on only a part of what is free may be used here: so many processes of the machine do the same."""
    global _sharing  # noqa: PLW0603 - of the process, like all that is said here
    _sharing = n_processes


def keep_freed_memory() -> bool:
    """Let large blocks be reused in place of handing them back and fetching them again; True where it is done.

    A training step frees and asks for the same activations again and again. By default glibc maps each large one
    anew, and touching fresh pages costs a tenth of the step. Memory then stays at its peak until the process ends,
    so training calls this, and a library that is only imported does not.
    """
    return _set_malloc(_M_MMAP_MAX, 0) and _set_malloc(_M_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> bool:
    """Let every large block be handed back when it is freed, for a process that was told how much it may hold.

    By default glibc learns from the blocks that are freed to keep ones of up to 32 MB, and after a few patches of a
    large mesh holds several times what is in use.
    """
    return _set_malloc(_M_MMAP_THRESHOLD, 2**20)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: of Python and NumPy, of torch on any device, or of onnxruntime, by their words."""
    words = ("out of memory", "can't allocate memory", "not enough memory", "failed to allocate memory", "bad_alloc")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)


def _set_malloc(option: int, value: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return bool(mallopt and mallopt(option, value))  # other C libraries, such as musl, have none


def _status(field: str) -> int | None:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    found = next((line for line in lines if line.startswith(f"{field}:")), None)
    return None if found is None else int(found.split()[1]) * 1024
