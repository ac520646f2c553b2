"""The queue for the model: a few requests run, some wait, the others are refused; none runs without a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from prometheus_client import Gauge

from hodgeformer.web.server.intake import Refusal

T = TypeVar("T")
Report = Callable[[float], None]


class _OutOfTime(BaseException):
    """Ends work whose result nobody awaits. Not an `Exception`, so that it is not reported as the error of a mesh."""


class Line:
    """Threads for `workers` tasks at a time, and `places` for tasks that wait."""

    def __init__(self, *, workers: int, places: int, seconds: float, waiting: Gauge, working: Gauge) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="predict")
        self._most, self._taken = workers + places, 0
        self._seconds, self._closed = seconds, False
        self._waiting, self._working = waiting, working

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for a request while it uploads, waits and runs."""
        if self._taken >= self._most:
            raise Refusal(503, f"The server is busy with {self._taken} requests; try again later.")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def run(self, work: Callable[[Report], T]) -> T:
        """The result of work in a thread; it reports its progress, and is stopped when it does so after the time limit.

        Work that reports nothing runs to its end, and the next task waits longer.
        """
        end = monotonic() + self._seconds

        def report(share: float) -> None:
            if self._closed or monotonic() > end:
                raise _OutOfTime

        def begin() -> T:
            self._waiting.dec()
            with self._working.track_inprogress():
                return work(report)

        self._waiting.inc()
        future = self._pool.submit(begin)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except (TimeoutError, _OutOfTime):
            if future.cancel():
                raise Refusal(
                    503, f"The server is busy: the request waited {self._seconds:g} s in the queue. Try again later."
                ) from None
            raise Refusal(
                504, f"The answer took longer than {self._seconds:g} s; set a smaller number of faces."
            ) from None
        finally:
            if future.cancel():  # it never started
                self._waiting.dec()

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
