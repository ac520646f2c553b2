"""What `make attack` ends with: a table of all that was tried, how often, and what became of it."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attack.mutate import CHANGES

TABLE = "HODGEFORMER_ATTACK_TABLE"


def pytest_configure(config: pytest.Config) -> None:
    """Processes that share the work inherit the place."""
    if config.option.markexpr == "attack" and TABLE not in os.environ:
        os.environ[TABLE] = str(Path(tempfile.mkdtemp(prefix="attack-")) / "table")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first, and every other one to the other half: two processes begin with a half each."""
    if config.option.markexpr == "attack":
        items.sort(key=lambda item: -max(mark.kwargs.get("minutes", 0) for mark in item.iter_markers("attack")))
        items[:] = items[::2] + items[1::2]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Also where tests failed or were interrupted, which is then said in the table."""
    table = Path(os.environ.get(TABLE, os.devnull))
    if not table.is_file():
        return
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    tried: Counter[str] = Counter()
    became: dict[str, list[str]] = {}
    for what, n, outcome in [*rows, *_deliberate_errors(terminalreporter.stats)]:
        tried[what] += int(n)
        became.setdefault(what, []).append(outcome)
    width = max(map(len, tried), default=0)
    terminalreporter.write_sep("=", "what was tried, how often, and what became of it")
    for what in sorted(tried, key=lambda what: (what.startswith(CHANGES), what)):
        number = f"{tried[what]:,}" if tried[what] else ""
        terminalreporter.write_line(f"{what:<{width}}  {number:>7}  {_summed(became[what])}")
    terminalreporter.write_line(f"{'all':<{width}}  {tried.total():>7,}")
    for word in ("failed", "error"):
        for report in terminalreporter.stats.get(word, []):
            terminalreporter.write_line(f"{word.upper()}: {report.nodeid}")


def _deliberate_errors(stats: dict[str, list[Any]]) -> Iterator[tuple[str, str, str]]:
    for word, outcome in (("passed", "1 noticed"), ("failed", "1 SURVIVED")):
        for report in stats.get(word, []):
            if "test_every_error_is_noticed" in report.nodeid:
                yield "deliberate errors", "1", outcome


def _summed(outcomes: list[str]) -> str:
    """Parts such as `12 refused` are added up; where there are other words, each is shown."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        for part in outcome.split(", "):
            number, _, words = part.partition(" ")
            if not number.isdigit():
                return "; ".join(outcomes)
            total[words] += int(number)
    return ", ".join(f"{n:,} {words}" for words, n in sorted(total.items()))
