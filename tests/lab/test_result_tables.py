"""RESULTS.md and docs/recipes.md say what the files in results/ say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hodgeformer.lab.result_tables import PAGES, ROOT, field_table, filled, tables_of
from hodgeformer.lab.study.ablation import Study

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


def test_all_methods_stand_beside_ours(tmp_path: Path) -> None:
    rows = [
        {
            "name": "Human, simplified",
            "paper": {"main": 90.3},
            "others": {"A": 88.0, "B": 91.0},
            "recipe": "mine: body",
        },
        {"name": "cubes", "paper": {"main": 95.3}, "others": {"B": 97.0}},
        {"name": "cubes again", "paper": {"main": 95.3}},
    ]
    study = Study.parse({"title": "all", "labels": {"B": "soft"}, "rows": rows})
    (tmp_path / "mine.csv").write_text("row,mean,std,seeds\nbody,90.9,,1\n")
    (tmp_path / "main.csv").write_text("row,mean,std,seeds\ncubes,95.0,0.2,3\n")
    assert field_table(study, tmp_path, "main") == [
        {"method": "A", "Human": 88.0, "cubes": None, "labels": None},
        {"method": "B", "Human": 91.0, "cubes": 97.0, "labels": "soft"},
        {"method": "HodgeFormer, the paper", "Human": 90.3, "cubes": 95.3, "labels": None},
        {"method": "here, the paper's settings", "Human": None, "cubes": 95.0, "labels": None},
        {"method": "here, our recipe", "Human": 90.9, "cubes": None, "labels": None},
    ]
