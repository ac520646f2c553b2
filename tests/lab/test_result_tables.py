"""RESULTS.md and docs/recipes.md say what the files in results/ say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hodgeformer.lab.result_tables import PAGES, ROOT, filled, tables_of

TOLD = sorted({name for page in PAGES for name in tables_of(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_table_is_the_one_of_its_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, "run `make results`"


def test_every_file_of_results_is_told() -> None:
    assert sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "results").rglob("*.csv")) == TOLD


@pytest.mark.parametrize("name", TOLD)
def test_every_table_says_how_it_was_made(name: str) -> None:
    record = json.loads((ROOT / name).with_suffix(".json").read_text(encoding="utf-8"))
    ran = [record["environment"]] if "environment" in record else [run for row in record["rows"] for run in row["runs"]]
    assert ran
    for environment in ran:
        assert environment["command"][0] == "hodgeformer"
        assert environment["versions"]["torch"]
        assert environment["commit"]
