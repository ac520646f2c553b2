"""What `make attack` ends with: a table of all that was tried, how often, and what became of it."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TABLE = "HODGEFORMER_ATTACK_TABLE"


def pytest_configure(config: pytest.Config) -> None:
    """Processes that share the work inherit the place."""
    if config.option.markexpr == "attack" and TABLE not in os.environ:
        os.environ[TABLE] = str(Path(tempfile.mkdtemp(prefix="attack-")) / "table")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    table = Path(os.environ.get(TABLE, os.devnull))
    if not table.is_file():
        return
    tried: Counter[str] = Counter()
    became: dict[str, list[str]] = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        what, n, outcome = line.split("\t")
        tried[what] += int(n)
        became.setdefault(what, []).append(outcome)
    for word in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(word, []):
            file, _, name = report.nodeid.partition("::")
            if "test_mutants" in file and "is_noticed" in name:
                tried["deliberate errors"] += 1
                became.setdefault("deliberate errors", []).append(f"1 {'noticed' if word == 'passed' else 'SURVIVED'}")
    width = max(map(len, tried), default=0)
    terminalreporter.write_sep("=", "what was tried, how often, and what became of it")
    for what in tried:
        number = f"{tried[what]:,}" if tried[what] else ""
        terminalreporter.write_line(f"{what:<{width}}  {number:>7}  {_summed(became[what])}")
    terminalreporter.write_line(f"{'all':<{width}}  {tried.total():>7,}")


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
