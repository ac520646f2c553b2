"""The tables of RESULTS.md and docs/recipes.md, each written from the CSV that its command saved in results/.

A table follows a line such as `<!-- results/mixing.csv: row, mean, std -->`; `column = title` renames a column, and
`against_best` tells whether a row is the best, or differs from it by at most both deviations together.
After `<!-- paired: results/stars/*/stars.csv -->` come the studies of several data sets side by side: the first row of
each, and how the others differ from it, seed by seed. `make results` writes them again, and a test compares.
"""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hodgeformer.lab.study.ablation import Study, StudyRow, plan_study

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "RESULTS.md", ROOT / "docs" / "recipes.md")
_TABLE = re.compile(r"(<!-- (?P<file>results/[\w./-]+\.csv): (?P<columns>.+?) -->\n)(?P<table>(?:\|.*\n)*)")
_PAIRED = re.compile(r"(<!-- paired: (?P<files>results/[\w./*-]+\.csv) -->\n)(?P<table>(?:\|.*\n)*)")
_WORD = re.compile("[a-z]{3}")  # in a column of text, which is aligned to the left
_FIGURES = ("mean", "std", "seeds")


def filled(text: str) -> str:
    """The page with every table rewritten from its file."""
    text = _TABLE.sub(lambda found: found[1] + _table(ROOT / found["file"], found["columns"]), text)
    return _PAIRED.sub(lambda found: found[1] + _paired(sorted(ROOT.glob(found["files"]))), text)


def tables_of(text: str) -> list[str]:
    """The files that the tables of a page are written from."""
    several = [path for found in _PAIRED.finditer(text) for path in ROOT.glob(found["files"])]
    return [found["file"] for found in _TABLE.finditer(text)] + [path.relative_to(ROOT).as_posix() for path in several]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _table(path: Path, columns: str) -> str:
    rows = _rows(path)
    for row, rank in zip(rows, _against_best(rows), strict=True):
        row["against_best"] = rank
    pairs = [re.split(r"\s*=\s*", column.strip(), maxsplit=1) for column in columns.split(",")]
    titles = [pair[-1].replace("_", " ") for pair in pairs]
    return _markdown(titles, [[row[pair[0]] or "" for pair in pairs] for row in rows])


def _paired(files: list[Path]) -> str:
    """A line per study, named after its folder: the mean of the first row, then mean and deviation of differences."""
    lines, means = [], list[list[float]]()
    for path in files:
        rows = json.loads(path.with_suffix(".json").read_bytes())["rows"]
        scores = [{run["seed"]: run["score"] for run in row["runs"]} for row in rows]
        differences = [[each[seed] - scores[0][seed] for seed in each if seed in scores[0]] for each in scores[1:]]
        means.append([statistics.mean(scores[0].values()), *map(statistics.mean, differences)])
        spread = [f" ± {statistics.stdev(each):.2f}" if len(each) > 1 else "" for each in differences]
        changes = [f"{mean:+.2f}{deviation}" for mean, deviation in zip(means[-1][1:], spread, strict=True)]
        lines.append([path.parent.name, str(min(map(len, differences))), f"{means[-1][0]:.2f}", *changes])
    first, *others = map(statistics.mean, zip(*means, strict=True))
    lines.append(["**mean**", "", f"{first:.2f}", *(f"**{other:+.2f}**" for other in others)])
    return _markdown(["data", "seeds", *(row["row"] for row in rows)], lines)


def _markdown(titles: list[str], lines: list[list[str]]) -> str:
    marks = ["---" if i == 0 or any(_WORD.search(line[i]) for line in lines) else "---:" for i in range(len(titles))]
    return "".join(f"| {' | '.join(line)} |\n" for line in [titles, marks, *lines])


def _against_best(rows: list[dict[str, str]]) -> list[str]:
    if not rows or not all(row.get("mean") and row.get("std") for row in rows):
        return [""] * len(rows)
    best = max(rows, key=lambda row: float(row["mean"]))
    ranks = []
    for row in rows:
        together = math.hypot(float(best["std"]), float(row["std"]))
        within = float(best["mean"]) - float(row["mean"]) <= together
        ranks.append("best" if row is best else "within the spread" if within else "below")
    return ranks


def main_table(study: Study, results: Path, name: str) -> list[dict[str, Any]]:
    """Every row of a study beside the paper's figure: the scores in `results`, or the command that adds them.

    A training may be shorter than its configuration asks for, so `epochs` shows both numbers.
    """
    full = {run.row.name: run.tables["train"].get("epochs") for run in plan_study(study, data={}, seeds=[0], out=ROOT)}
    rows = []
    for row in study.rows:
        file, _, other = row.recipe.partition(": ")
        ours, recipe = _figures(results / f"{name}.csv", row.name), _figures(results / f"{file}.csv", other)
        epochs = ours.get("epochs")
        rows.append(
            {
                "data": row.name,
                "paper": next(iter(row.paper.values()), None),
                **{key: ours.get(key) for key in _FIGURES},
                "epochs": f"{epochs:g} of {full[row.name]}" if epochs else None,
                **{f"recipe_{key}": recipe.get(key) for key in _FIGURES},
                "missing": None if ours else f'hodgeformer study ablation {name} --row "{row.name}" --seeds 5',
            }
        )
    return rows


def field_table(study: Study, results: Path, name: str) -> list[dict[str, Any]]:
    """Every method on the data of the rows that name others: theirs, the paper, its settings here, and our recipe.

    A row of the paper's settings that has no result yet is empty. `labels` tells what a figure counts.
    """
    asked = {row.name.partition(",")[0]: row for row in study.rows if row.others}

    def line(method: str, figure: Callable[[StudyRow], float | None]) -> dict[str, Any]:
        figures = {data: figure(row) for data, row in asked.items()}
        return {"method": method, **figures, "labels": study.labels.get(method)}

    def recipe(row: StudyRow) -> float | None:
        file, _, other = row.recipe.partition(": ")
        return _figures(results / f"{file}.csv", other).get("mean")

    methods = dict.fromkeys(method for row in asked.values() for method in row.others)
    return [
        *(line(method, lambda row, method=method: row.others.get(method)) for method in methods),  # type: ignore[misc]
        line("HodgeFormer, the paper", lambda row: next(iter(row.paper.values()), None)),
        line("here, the paper's settings", lambda row: _figures(results / f"{name}.csv", row.name).get("mean")),
        line("here, our recipe", recipe),
    ]


def _figures(path: Path, name: str) -> dict[str, float]:
    """Mean, deviation and seeds of a row in a file of results; empty if it has none."""
    found = next((row for row in _rows(path) if row["row"] == name), {}) if path.is_file() else {}
    numbers = {**dict.fromkeys(_FIGURES, float), "seeds": int, "epochs": float}
    return {key: number(found[key]) for key, number in numbers.items() if found.get(key)}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
