"""The queue for a model, of server and viewer: a few requests run, some wait, the others are refused."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

from hodgeformer.web.server.intake import Refusal

T = TypeVar("T")
Report = Callable[[float], None]


class _OutOfTime(BaseException):
    """Ends work whose result nobody awaits. Not an `Exception`, so that it is not reported as the error of a mesh."""


class Line:
    """Threads for `workers` tasks at a time, and `places` for tasks that wait."""

    def __init__(self, *, workers: int, places: int, seconds: float = math.inf) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="predict")
        self._most, self._taken = workers + places, 0
        self._seconds, self._closed = seconds, False
        self._lock = threading.Lock()
        self.n_waiting, self.n_working = 0, 0

    def enter(self) -> None:
        """Take a place, until `leave`."""
        with self._lock:
            if self._taken >= self._most:
                raise Refusal(503, f"The server is busy with {self._taken} requests; try again later.")
            self._taken += 1

    def leave(self) -> None:
        with self._lock:
            self._taken -= 1

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for a request while it uploads, waits and runs."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def submit(self, work: Callable[[Report], T]) -> Future[T]:
        """Work for a thread; it reports its progress, and is stopped when it does so after the time limit.

        Work that reports nothing runs to its end, and the next task waits longer.
        """
        end = monotonic() + self._seconds

        def report(share: float) -> None:
            if self._closed or monotonic() > end:
                raise _OutOfTime

        def begin() -> T:
            self._count(waiting=-1, working=1)
            try:
                return work(report)
            finally:
                self._count(working=-1)

        self._count(waiting=1)
        future = self._pool.submit(begin)
        future.add_done_callback(self._left)
        return future

    def _left(self, future: Future[Any]) -> None:
        if future.cancelled():  # it never started
            self._count(waiting=-1)

    def _count(self, *, waiting: int = 0, working: int = 0) -> None:
        with self._lock:
            self.n_waiting += waiting
            self.n_working += working

    async def run(self, work: Callable[[Report], T]) -> T:
        """The result of `submit`, within the time limit."""
        future = self.submit(work)
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

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
