"""What `make attack` ends with: a table of all that was tried, how often, and what became of it.

It is also written to build/attack/table.txt after every test, so that a stopped run leaves what has ended so far;
HODGEFORMER_ATTACK_REPORT names another file.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from attack.mutate import CHANGES, KEPT

TABLE = "HODGEFORMER_ATTACK_TABLE"


def pytest_configure(config: pytest.Config) -> None:
    """Processes that share the work inherit the place of the rows; only the one that started them reports."""
    if config.option.markexpr == "attack" and TABLE not in os.environ:
        os.environ[TABLE] = str(Path(tempfile.mkdtemp(prefix="attack-")) / "table")
        config.pluginmanager.register(Report(config), "attack-report")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, after which the table is printed


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first, and every other one to the other half: two processes begin with a half each."""
    if config.option.markexpr == "attack":
        items.sort(key=lambda item: -max(mark.kwargs.get("minutes", 0) for mark in item.iter_markers("attack")))
        items[:] = items[::2] + items[1::2]


class Report:
    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager
        self._path = Path(os.environ.get("HODGEFORMER_ATTACK_REPORT", KEPT / "table.txt"))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("".join(f"{line}\n" for line in self._lines()), encoding="utf-8")

    def pytest_terminal_summary(self) -> None:
        """Also where tests failed or were interrupted, which is then said in the table."""
        terminal = self._plugins.getplugin("terminalreporter")
        terminal.write_sep("=", "what was tried, how often, and what became of it")
        for line in self._lines():
            terminal.write_line(line)

    def _lines(self) -> Iterator[str]:
        stats, table = self._plugins.getplugin("terminalreporter").stats, Path(os.environ[TABLE])
        rows = table.read_text(encoding="utf-8").splitlines() if table.is_file() else []
        yield from _table([*(row.split("\t") for row in rows), *_deliberate_errors(stats)])
        ended = {word: len(stats.get(word, [])) for word in ("passed", "skipped", "failed", "error")}
        yield f"{sum(ended.values())} tests ended: {', '.join(f'{n} {word}' for word, n in ended.items())}"
        for word in ("failed", "error"):
            yield from (f"{word.upper()}: {report.nodeid}" for report in stats.get(word, []))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    tried: Counter[str] = Counter()
    became: dict[str, list[str]] = {}
    for what, n, outcome in rows:
        tried[what] += int(n)
        became.setdefault(what, []).append(outcome)
    width = max(map(len, tried), default=0)
    for what in sorted(tried, key=lambda what: (what.startswith(CHANGES), what)):
        number = f"{tried[what]:,}" if tried[what] else ""
        yield f"{what:<{width}}  {number:>7}  {_summed(became[what])}"
    yield f"{'all':<{width}}  {tried.total():>7,}"


def _deliberate_errors(stats: dict[str, list[Any]]) -> Iterator[tuple[str, str, str]]:
    for word, outcome in (("passed", "1 noticed"), ("failed", "1 NOT NOTICED")):
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
