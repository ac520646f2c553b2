"""Resident memory of this process, now and at its peak, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

GIGABYTE = 2**30


def resident() -> int:
    """Memory held now; where the system does not tell, the peak so far."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return peak_resident()
    import resource

    return int(statm.read_text().split()[1]) * resource.getpagesize()


def peak_resident() -> int:
    """The most that was held at any time."""
    if sys.platform == "win32":
        raise OSError("peak memory cannot be measured on Windows")
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
