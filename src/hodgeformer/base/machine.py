"""What this process may use of the machine: threads for row-parallel work, and memory.

Compiled kernels release the GIL and work on a range of rows, so one pool of ordinary threads serves all of them. It is
safe if several Python threads call at once, the result does not depend on the number of threads, and OMP_NUM_THREADS is
the only setting. numba's own parallel layer guarantees none of the three everywhere.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")

GIGABYTE = 2**30
_MOST_AHEAD = 256
_CONTAINER = Path("/sys/fs/cgroup")  # of a Linux container: its limit of memory, and what is used
_sharing = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4  # of glibc's malloc.h


def thread_count() -> int:
    """OMP_NUM_THREADS if it is set, else the processors this process may use."""
    requested = os.environ.get("OMP_NUM_THREADS", "")
    if requested.isdigit() and int(requested) > 0:
        return int(requested)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_row_ranges(work: Callable[[int, int], object], n_rows: int, *, n_threads: int, min_rows: int = 256) -> None:
    """Call work(first, last) on ranges that cover range(n_rows), in up to n_threads threads including this one.

    Four ranges per thread balance rows of different cost: each thread takes the next range when it is done.
    """
    n_threads = max(1, min(n_threads, n_rows // min_rows))
    if n_threads == 1:
        work(0, n_rows)
        return
    n_ranges = 4 * n_threads
    bounds = [n_rows * i // n_ranges for i in range(n_ranges + 1)]
    ranges = iter([(first, last) for first, last in pairwise(bounds) if first < last])

    def take() -> None:
        for first, last in ranges:
            work(first, last)

    others = [_pool(os.getpid(), n_threads - 1).submit(take) for _ in range(n_threads - 1)]
    try:
        take()
    finally:
        for other in others:
            if not other.cancel():  # it has started
                other.result()


@lru_cache(maxsize=8)
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """One pool per size; the process id is part of the key because threads do not survive a fork."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="hodgeformer")


def worked_ahead(
    work: Callable[[T], U], items: Iterable[T], *, size: Callable[[U], int], most: int
) -> Iterator[tuple[T, Future[U]]]:
    """Each item with its outcome, in order, while other threads work on those that follow.

    Results wait up to a total size of `most`, each counted as the largest so far; at least one per thread.
    """
    ahead = n_threads = thread_count()
    largest, source, waiting = 1, iter(items), deque[tuple[T, Future[U]]]()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="ahead") as pool:
        try:
            while True:
                for item in islice(source, max(0, ahead + 1 - len(waiting))):
                    waiting.append((item, pool.submit(work, item)))
                if not waiting:
                    return
                item, outcome = waiting.popleft()
                if outcome.exception() is None:
                    largest = max(largest, size(outcome.result()))
                    ahead = max(n_threads, min(_MOST_AHEAD, most // largest))
                yield item, outcome
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def used_memory() -> int | None:
    """Bytes of memory in use, or their peak if the system reports only that; None if it reports neither."""
    used = _status("VmRSS")
    return peak_memory() if used is None else used


def peak_memory() -> int | None:
    """The peak of the memory in use, in bytes; None if the system does not report it.

    /proc is preferred: the peak that getrusage reports includes that of the parent process.
    """
    peak = _status("VmHWM")
    if peak is not None or sys.platform == "win32":
        return peak
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def free_memory() -> int:
    """Bytes that are free according to the system and the limit of its container; 4 GB if neither is known."""
    known = [4 * GIGABYTE]
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        lines = (line.split() for line in meminfo.read_text().splitlines())
        known = [int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"] or known
    limit = _CONTAINER / "memory.max"
    if limit.is_file() and (most := limit.read_text().strip()) != "max":
        # What is used counts cached files too; those not read lately are given up when memory is needed.
        cached = re.search(r"^inactive_file (\d+)", (_CONTAINER / "memory.stat").read_text(), re.M)
        used = int((_CONTAINER / "memory.current").read_text()) - (int(cached[1]) if cached else 0)
        known.append(int(most) - used)
    return max(0, min(known)) // _sharing


def share_memory(n_processes: int) -> None:
    """Count only this process's share as free from now on: this many processes of the machine work at once."""
    global _sharing  # noqa: PLW0603 - a property of the process
    _sharing = n_processes


def keep_freed_memory() -> bool:
    """Reuse large blocks instead of returning them to the system; False if the C library does not support it.

    A training step frees and allocates the same activations again and again. By default glibc maps each large one
    again, and touching new pages takes a tenth of the step. The memory then stays at its peak until the process ends.
    """
    return _set_malloc(_M_MMAP_MAX, 0) and _set_malloc(_M_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> bool:
    """Return large blocks to the system when they are freed, for a process with a memory limit.

    By default glibc learns to keep blocks of up to 32 MB, and after a few large meshes holds several times the memory
    in use.
    """
    return _set_malloc(_M_MMAP_THRESHOLD, 2**20)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out in Python, NumPy, torch on any device, or onnxruntime, judging by the message."""
    words = ("out of memory", "can't allocate memory", "not enough memory", "failed to allocate memory", "bad_alloc")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)


def _set_malloc(option: int, value: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return bool(mallopt and mallopt(option, value))  # other C libraries, such as musl, do not have it


def _status(field: str) -> int | None:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    found = next((line for line in lines if line.startswith(f"{field}:")), None)
    return None if found is None else int(found.split()[1]) * 1024
