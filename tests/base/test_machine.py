"""Ranges of rows in threads; what a process holds; and keeping freed memory, in a process of its own."""

from __future__ import annotations

import mmap
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.base.machine import for_row_ranges, free_memory, peak_memory, share_memory, used_memory, worked_ahead


@pytest.mark.parametrize(("n_rows", "n_threads", "min_rows"), [(0, 2, 1), (1, 3, 1), (1000, 4, 1), (1000, 2, 600)])
def test_every_row_is_worked_on_once(n_rows, n_threads, min_rows):
    counts = np.zeros(n_rows, dtype=int)

    def work(first, last):
        counts[first:last] += 1

    for_row_ranges(work, n_rows, n_threads=n_threads, min_rows=min_rows)
    assert (counts == 1).all()


def test_callers_from_many_threads_and_from_within_do_not_wait_for_each_other():
    counts = np.zeros((6, 64), dtype=int)

    def call(caller):
        def work(first, last):
            def inner(start, end):
                counts[caller, first + start : first + end] += 1

            for_row_ranges(inner, last - first, n_threads=2, min_rows=1)

        for_row_ranges(work, 64, n_threads=2, min_rows=1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))
    assert (counts == 1).all()


@pytest.mark.parametrize("failing", [0, 999])
def test_an_error_reaches_the_caller(failing):
    def work(first, last):
        if first <= failing < last:
            raise ValueError("row")

    with pytest.raises(ValueError, match="row"):
        for_row_ranges(work, 1000, n_threads=2, min_rows=1)


def test_work_ahead_comes_in_order_from_an_endless_source_and_errors_with_their_item():
    started = []

    def work(item):
        started.append(item)
        return 1 / (item - 3)

    found = worked_ahead(work, count(), size=lambda _: 1, most=4)
    outcomes = dict(next(found) for _ in range(6))
    found.close()
    assert list(outcomes) == list(range(6)) and len(started) < 20
    assert isinstance(outcomes[3].exception(), ZeroDivisionError) and outcomes[5].result() == 0.5


CODE = """
import resource, sys
import numpy as np
from hodgeformer.base.machine import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(3):
    np.ones(2**23)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(2**23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc can be told to keep freed memory")
def test_freed_memory_is_not_fetched_again() -> None:
    faults = {
        choice: int(
            subprocess.run([sys.executable, "-c", CODE, choice], capture_output=True, text=True, check=True).stdout
        )
        for choice in ("keep", "return")
    }
    assert faults["keep"] < faults["return"] / 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_the_peak_stays_when_memory_is_freed() -> None:
    before = used_memory()
    with mmap.mmap(-1, 2**27) as block:  # from the kernel: what tests before have freed is not used again
        block.write(b"1" * 2**27)
        held = used_memory()
    assert before is not None and held is not None and held - before > 100 * 2**20
    peak = peak_memory()
    assert peak is not None and peak >= held - 2**20  # the kernel counts pages in batches


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_processes_that_share_a_machine_share_its_free_memory() -> None:
    alone = free_memory()
    share_memory(4)
    try:
        assert 0 < free_memory() < alone / 2
    finally:
        share_memory(1)


def test_cached_files_do_not_count_as_used_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After reading many files, nearly all of the limit is in use, and nearly all of that can be given up."""
    for name, content in {
        "memory.max": "1000000000\n",
        "memory.current": "990000000\n",
        "memory.stat": "anon 90000000\nfile 900000000\ninactive_file 800000000\nactive_file 100000000\n",
    }.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr("hodgeformer.base.machine._CONTAINER", tmp_path)
    assert free_memory() == 810_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 810_000_000
