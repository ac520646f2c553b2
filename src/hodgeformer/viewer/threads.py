"""Work beside the event loop, so many at once; others wait, and nobody else with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")


class Threads:
    """At most `n` functions at a time in threads of the running event loop."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._limiter: CapacityLimiter | None = None

    async def run(self, work: Callable[[], T]) -> T:
        if self._limiter is None:  # a limiter belongs to the running event loop, so it cannot be made earlier
            self._limiter = CapacityLimiter(self._n)
        return await to_thread.run_sync(work, limiter=self._limiter)
