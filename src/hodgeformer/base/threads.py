"""Row-parallel work in plain Python threads.

Compiled kernels release the GIL and work on a range of rows, so one pool of ordinary threads serves all of them. It is
safe if several Python threads call at once, the result does not depend on the number of threads, and OMP_NUM_THREADS is
the only setting. numba's own parallel layer guarantees none of the three everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise


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
