"""What a process holds; and keeping freed memory: fewer pages fetched again, in a process of its own."""

from __future__ import annotations

import mmap
import subprocess
import sys

import pytest

from hodgeformer.base.memory import free_memory, peak_memory, share_memory, used_memory

CODE = """
import resource, sys
import numpy as np
from hodgeformer.base.memory import keep_freed_memory
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
