"""Keep freed memory in the process, where the C library allows it."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_freed_memory() -> bool:
    """Let large blocks be reused in place of handing them back and fetching them again; True where it is done.

    A training step frees and asks for the same activations again and again. By default glibc maps each large one
    anew, and touching fresh pages costs a tenth of the step. Memory then stays at its peak until the process ends,
    so programs that train call this, and a library that is only imported does not.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library, such as musl
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
