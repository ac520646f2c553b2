"""The table of a study, and the record of the runs behind each row."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from hodgeformer.base.files import write_atomically
from hodgeformer.base.settings import Table
from hodgeformer.lab.study.ablation import PlannedRun, RunResult, Study, finished_result
from hodgeformer.training.run_folder import write_csv


def study_table(study: Study, results: Mapping[tuple[str, int], RunResult]) -> list[dict[str, Any]]:
    """One row per variant with results: mean and spread over seeds in percent, the paper's figures, and the cost."""
    rows = []
    for row in study.rows:
        found = [result for (name, _), result in sorted(results.items()) if name == row.name]
        if not found:
            continue
        scores = [100 * result.score for result in found]
        overlaps = [result.mean_iou for result in found if result.mean_iou is not None]
        rows.append(
            {
                "row": row.name,
                "score": found[0].score_name,
                "split": found[0].split,
                "seeds": len(found),
                "mean": round(statistics.mean(scores), 2),
                "std": round(statistics.stdev(scores), 2) if len(scores) > 1 else None,
                "min": round(min(scores), 2),
                "max": round(max(scores), 2),
                **({"mean_iou": round(statistics.mean(overlaps), 3)} if overlaps else {}),
                **_interval(found),
                **{f"paper_{name}": figure for name, figure in row.paper.items()},
                "epochs": round(statistics.mean(result.epochs for result in found), 1),
                "cpu_minutes": round(statistics.mean(result.cpu_minutes for result in found), 2),
                "parameters": found[0].n_parameters,
            }
        )
    return rows


def save_study(
    folder: Path, name: str, study: Study, runs: Sequence[PlannedRun], rows: Sequence[str]
) -> list[dict[str, Any]]:
    """Write NAME.csv with a line per row, and NAME.json with the runs behind each; return the rows of these runs.

    A row that is not among `rows` stays in both files as it was. Seeds that were trained earlier, perhaps on another
    machine, count too if their settings were the same. Processes with different rows wait for each other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{name}.lock"):
        table, record = folder / f"{name}.csv", folder / f"{name}.json"
        before = json.loads(record.read_bytes())["rows"] if record.is_file() else []
        settings = {run.row.name: _digest(run.tables) for run in runs}
        behind: dict[tuple[str, int], dict[str, Any]] = {}
        found: dict[tuple[str, int], RunResult] = {}
        for row in before:
            for run in row.get("runs", ()):
                if run.get("settings") == settings.get(row["row"], ""):
                    behind[row["row"], run["seed"]], found[row["row"], run["seed"]] = run, _recorded(row, run)
        for planned in runs:
            if result := finished_result(planned):
                key = planned.row.name, planned.seed
                behind[key], found[key] = _provenance(planned, result), result
        measured = study_table(study, found)
        entries = {row["row"]: row for row in before if rows and row["row"] not in rows}
        for row in measured:
            entries[row["row"]] = {**row, "runs": [run for key, run in sorted(behind.items()) if key[0] == row["row"]]}
        if entries:
            saved = [entries[row.name] for row in study.rows if row.name in entries]
            write_csv(table, [{key: value for key, value in row.items() if key != "runs"} for row in saved])
            content = {"study": name, "title": study.title, "rows": saved}
            write_atomically(record, (json.dumps(content, indent=2) + "\n").encode())
        return measured


def _interval(found: Sequence[RunResult]) -> dict[str, float]:
    """The ends of the intervals, each the mean over seeds: how much the score depends on which meshes are scored."""
    known = [result.interval for result in found if result.interval is not None]
    ends = zip(("low", "high"), zip(*known, strict=True), strict=False)
    return {name: round(100 * statistics.mean(values), 1) for name, values in ends}


def _provenance(run: PlannedRun, result: RunResult) -> dict[str, Any]:
    """The score of a run and its environment, without local folders."""
    environment = json.loads((run.folder / "env.json").read_bytes()) if (run.folder / "env.json").is_file() else {}
    command: list[str] = environment.get("command", [])
    elsewhere = {i + step for i, word in enumerate(command) if word in ("--out", "--results") for step in (0, 1)}
    words = [re.sub(r"(^|=)/.*/", r"\1", word) for i, word in enumerate(command) if i not in elsewhere]
    return {
        "seed": run.seed,
        "settings": _digest(run.tables),
        "score": round(100 * result.score, 2),
        **({} if result.mean_iou is None else {"mean_iou": round(result.mean_iou, 4)}),
        **({} if result.interval is None else {"interval": [round(100 * end, 2) for end in result.interval]}),
        "cpu_minutes": round(result.cpu_minutes, 2),
        **environment,
        "command": words,
    }


def _digest(tables: Table) -> str:
    """The same for all seeds of a row, and only for these."""
    rest = {table: {key: value for key, value in keys.items() if key != "seed"} for table, keys in tables.items()}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:12]


def _recorded(row: Mapping[str, Any], run: Mapping[str, Any]) -> RunResult:
    interval = run.get("interval")
    return RunResult(
        score=run["score"] / 100,
        score_name=row["score"],
        split=row["split"],
        cpu_minutes=run["cpu_minutes"],
        minutes=0.0,
        epochs=row["epochs"],
        n_parameters=row["parameters"],
        mean_iou=run.get("mean_iou"),
        interval=None if interval is None else (interval[0] / 100, interval[1] / 100),
    )
