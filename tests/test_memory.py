"""Keeping freed memory: fewer pages fetched again, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import resource, sys
import numpy as np
from hodgeformer.allocator import keep_freed_memory
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
