"""The tables of RESULTS.md and docs/recipes.md, each written from the CSV that its command left in results/.

A table follows a line such as `<!-- results/mixing.csv: row, mean, std -->`; `column = title` renames a column, and
`against_best` says whether a row is the best, or differs from it by no more than both deviations together.
`make results` writes them anew, and a test compares.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "RESULTS.md", ROOT / "docs" / "recipes.md")
_TABLE = re.compile(r"(<!-- (?P<file>results/[\w./-]+\.csv): (?P<columns>.+?) -->\n)(?P<table>(?:\|.*\n)*)")


def filled(text: str) -> str:
    """The page with every table as its file has it."""
    return _TABLE.sub(lambda found: found[1] + _markdown(ROOT / found["file"], found["columns"]), text)


def tables_of(text: str) -> list[str]:
    return [found["file"] for found in _TABLE.finditer(text)]


def _markdown(path: Path, columns: str) -> str:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row, said in zip(rows, _against_best(rows), strict=True):
        row["against_best"] = said
    pairs = [re.split(r"\s*=\s*", column.strip(), maxsplit=1) for column in columns.split(",")]
    lines = [[pair[-1].replace("_", " ") for pair in pairs], ["---" if i == 0 else "---:" for i in range(len(pairs))]]
    lines += [[row[pair[0]] or "" for pair in pairs] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _against_best(rows: list[dict[str, str]]) -> list[str]:
    if not rows or not all(row.get("mean") and row.get("std") for row in rows):
        return [""] * len(rows)
    best = max(rows, key=lambda row: float(row["mean"]))
    said = []
    for row in rows:
        together = math.hypot(float(best["std"]), float(row["std"]))
        within = float(best["mean"]) - float(row["mean"]) <= together
        said.append("best" if row is best else "within the spread" if within else "below")
    return said


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
