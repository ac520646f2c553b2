"""Who waits before the model, who is sent away, and what becomes of work that takes too long."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")

from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.server.line import Line
from hodgeformer.web.server.metrics import Metrics


def make_line(**limits: Any) -> tuple[Line, Metrics]:
    line = Line(**{"workers": 1, "places": 1, "seconds": 30.0} | limits)
    return line, Metrics(line)


def number(metrics: Metrics, name: str) -> float:
    lines = metrics.text().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"hodgeformer_{name} "))


def test_one_works_one_waits_and_the_next_is_sent_away() -> None:
    line, metrics = make_line()
    go_on, begun = threading.Event(), threading.Event()

    def work(report: Any) -> str:
        begun.set()
        go_on.wait(30)
        return "done"

    async def ask() -> str:
        with line.place():
            return await line.run(work)

    async def scene() -> list[Any]:
        asked = [asyncio.create_task(ask()) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 30)
        assert (number(metrics, "working"), number(metrics, "queue_length")) == (1, 1)
        go_on.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, third = asyncio.run(scene())
    assert first == second == "done"
    assert isinstance(third, Refusal) and third.status == 503 and "try again later" in str(third)
    assert (number(metrics, "working"), number(metrics, "queue_length")) == (0, 0)


def test_what_takes_too_long_is_stopped_and_its_place_is_free_again() -> None:
    line, metrics = make_line(seconds=0.2)
    stopped = threading.Event()

    def endless(report: Any) -> None:
        try:
            while True:
                report(0.5)
        finally:
            stopped.set()

    def deaf(report: Any) -> None:
        stopped.wait()

    async def statuses(*works: Any) -> list[int]:
        found = await asyncio.gather(*(line.run(work) for work in works), return_exceptions=True)
        return [error.status if isinstance(error, Refusal) else 200 for error in found]

    assert asyncio.run(statuses(endless)) == [504]
    assert stopped.wait(10)
    stopped.clear()
    assert asyncio.run(statuses(deaf, deaf)) == [504, 503]  # the second never had its turn
    stopped.set()
    # A busy machine may take longer than the limit even for this.
    assert any(asyncio.run(statuses(lambda report: None)) == [200] for _ in range(50))
    assert (number(metrics, "working"), number(metrics, "queue_length")) == (0, 0)


def test_a_line_that_is_closed_lets_nobody_work_on() -> None:
    line, _ = make_line()
    begun = threading.Event()

    def endless(report: Any) -> None:
        while True:
            begun.set()
            report(0.5)

    async def scene() -> None:
        asked = asyncio.create_task(line.run(endless))
        await asyncio.to_thread(begun.wait, 30)
        line.close()
        with pytest.raises(Refusal):
            await asked

    asyncio.run(scene())
