"""The table of a study, and the record of the runs behind it."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from hodgeformer.lab.study import record
from hodgeformer.lab.study.ablation import RunResult, Study, StudyRow, plan_study
from hodgeformer.lab.study.record import save_study, study_table
from hodgeformer.training.run_folder import write_csv


def two_rows() -> Study:
    rows = (StudyRow(name="T", paper={"x": 50.0}, model={"blocks": "T"}), StudyRow(name="H", model={"blocks": "H"}))
    return Study(title="two", base={"model": {"updates": "v"}}, rows=rows)


def test_the_table_has_mean_spread_paper_and_cost(tmp_path: Path) -> None:
    def result(score: float) -> RunResult:
        return RunResult(
            score,
            "face_accuracy",
            "val",
            cpu_minutes=2.0,
            minutes=1.0,
            epochs=3,
            n_parameters=7,
            mean_iou=score / 2,
            interval=(score - 0.1, score + 0.2),
        )

    rows = study_table(two_rows(), {("T", 0): result(0.5), ("T", 1): result(0.6)})
    assert len(rows) == 1  # nothing is said of rows that were not run
    assert rows[0] == {
        "row": "T",
        "score": "face_accuracy",
        "split": "val",
        "seeds": 2,
        "mean": 55.0,
        "std": 7.07,
        "min": 50.0,
        "max": 60.0,
        "mean_iou": 0.275,
        "low": 45.0,
        "high": 75.0,
        "paper_x": 50.0,
        "epochs": 3,
        "cpu_minutes": 2.0,
        "parameters": 7,
    }
    write_csv(tmp_path / "results" / "t.csv", [*rows, {"row": "H", "std": None}])
    lines = (tmp_path / "results" / "t.csv").read_text().splitlines()
    assert lines[0].startswith("row,score,split,seeds,mean,std")
    assert lines[2] == "H" + "," * 14


def measure(
    folder: Path, row: str, seed: int, commit: str, score: float = 0.5, lr: float = 0.1
) -> list[dict[str, Any]]:
    """Save the study after a run of this row; the rows of the record."""
    study, data = two_rows(), {"name": "figures"}
    runs = plan_study(
        study, data=data, overrides=[f"train.lr={lr}"], seeds=[seed], out=folder / f"runs-{lr}", rows=[row]
    )
    known = None if commit == "first" else (score - 0.1, score + 0.1)  # early records have no interval
    outcome = RunResult(
        score, "face_accuracy", "val", cpu_minutes=2.0, minutes=1.0, epochs=3, n_parameters=7, interval=known
    )
    runs[0].folder.mkdir(parents=True)
    runs[0].config.write_bytes(tomli_w.dumps(runs[0].tables).encode())
    runs[0].result.write_text(json.dumps(asdict(outcome)))
    command = ["hodgeformer", "study", "--out", "/my/disk", "--seeds", "1"]
    (runs[0].folder / "env.json").write_text(json.dumps({"commit": commit, "command": command}))
    save_study(folder / "results", "t", study, runs, [row])
    found: list[dict[str, Any]] = json.loads((folder / "results" / "t.json").read_text())["rows"]
    return found


def test_every_row_keeps_the_runs_behind_it(tmp_path: Path) -> None:
    """Also those of rows that are not measured this time."""
    measure(tmp_path, "T", 3, "first")
    rows = {row["row"]: row for row in measure(tmp_path, "H", 4, "second")}
    found = {name: (row["mean"], row["runs"][0]["seed"], row["runs"][0]["commit"]) for name, row in rows.items()}
    assert found == {"T": (50.0, 3, "first"), "H": (50.0, 4, "second")}
    assert rows["T"]["runs"][0]["command"] == ["hodgeformer", "study", "--seeds", "1"]
    assert len((tmp_path / "results" / "t.csv").read_text().splitlines()) == 3

    row = measure(tmp_path, "T", 2, "on another machine", score=0.7)[0]
    assert (row["seeds"], row["mean"], [run["seed"] for run in row["runs"]]) == (2, 60.0, [2, 3])
    assert [run.get("interval") for run in row["runs"]] == [[60.0, 80.0], None]
    row = measure(tmp_path, "T", 1, "later", score=0.9)[0]  # the intervals of the record are read again
    assert (row["seeds"], row["low"], row["high"]) == (3, 70.0, 90.0)
    row = measure(tmp_path, "T", 2, "other settings", score=0.9, lr=0.2)[0]
    assert (row["seeds"], row["mean"], [run["commit"] for run in row["runs"]]) == (1, 90.0, ["other settings"])


def test_two_that_save_different_rows_at_once_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = threading.Thread(target=measure, args=(tmp_path, "H", 4, "second"))

    def slow(*given: Any) -> None:
        """Between reading and writing, the other one has a second in which to do both."""
        monkeypatch.setattr(record, "write_csv", write_csv)
        other.start()
        other.join(1)
        write_csv(*given)

    monkeypatch.setattr(record, "write_csv", slow)
    measure(tmp_path, "T", 3, "first")
    other.join()
    rows = json.loads((tmp_path / "results" / "t.json").read_text())["rows"]
    assert [row["row"] for row in rows] == ["T", "H"]
