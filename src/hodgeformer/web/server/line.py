"""The line before the model: a few work, some wait, the others are sent away at once; nobody stays for ever."""

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
    """Ends work that nobody waits for any more. No `Exception`, so that it is not taken for the mistake of a mesh."""


class Line:
    """Threads for `workers` pieces of work at a time, and `places` for those who wait."""

    def __init__(self, *, workers: int, places: int, seconds: float, waiting: Gauge, working: Gauge) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="predict")
        self._most, self._taken = workers + places, 0
        self._seconds, self._closed = seconds, False
        self._waiting, self._working = waiting, working

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for a request as long as it is taken in, waits and is worked on."""
        if self._taken >= self._most:
            raise Refusal(503, f"{self._taken} requests are being worked on or wait already; try again later.")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def run(self, work: Callable[[Report], T]) -> T:
        """The result of work in a thread; it tells the share that is done, and is stopped there if that took too long.

        What does not tell anything goes on to its end, and another piece of work waits the longer.
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
                raise Refusal(503, f"It was not its turn within {self._seconds:g} seconds; try again later.") from None
            raise Refusal(504, f"It took longer than {self._seconds:g} seconds; ask for fewer faces.") from None
        finally:
            if future.cancel():  # it never began
                self._waiting.dec()

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
