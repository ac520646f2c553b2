"""Limits of time that only the code under test can break, not a busy machine nor numba, which compiles once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from numba.core import event

PATIENCE = 600  # seconds to wait for what must end or come; only a hang takes longer


class TooLongError(BaseException):
    """Not an Exception, so that nothing takes it for an error of its own."""


class _Pause(event.Listener):  # type: ignore[misc]
    depth, left = 0, 0.0  # a kernel compiles those that it calls

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.left = signal.setitimer(signal.ITIMER_PROF, 0)[0]
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            signal.setitimer(signal.ITIMER_PROF, self.left)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Of the processor's time, without that in which numba compiles."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("no alarm there")

    def ring(*_: object) -> None:
        raise TooLongError(f"still at it after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with event.install_listener("numba:compile", _Pause()):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
