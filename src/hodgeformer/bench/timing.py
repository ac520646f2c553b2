"""How time is measured: medians of repetitions, and ratios to a matrix product timed in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def median_seconds(work: Callable[[], object], repeat: int = 5, warm_up: int = 1) -> float:
    """The median wall time of a call, after `warm_up` calls that do not count."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def product_seconds(n_threads: int, size: int = 2048, repeat: int = 7) -> float:
    """One size x size float32 matrix product, the yardstick that takes the machine out of the figures."""
    import torch

    with torch_threads(n_threads):
        a, b = torch.rand(2, size, size).unbind()
        return median_seconds(lambda: a @ b, repeat=repeat, warm_up=2)


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
