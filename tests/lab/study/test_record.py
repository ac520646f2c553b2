"""The table of a study, and the record of the runs behind it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import tomli_w

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


def test_every_row_keeps_the_runs_behind_it(tmp_path: Path) -> None:
    """Also those of rows that are not measured this time."""
    study, results = two_rows(), tmp_path / "results"

    def measure(row: str, seed: int, commit: str, score: float = 0.5, lr: float = 0.1) -> None:
        out, data = tmp_path / f"runs-{lr}", {"name": "figures"}
        runs = plan_study(study, data=data, overrides=[f"train.lr={lr}"], seeds=[seed], out=out, rows=[row])
        known = None if commit == "first" else (score - 0.1, score + 0.1)  # early records have no interval
        outcome = RunResult(
            score, "face_accuracy", "val", cpu_minutes=2.0, minutes=1.0, epochs=3, n_parameters=7, interval=known
        )
        runs[0].folder.mkdir(parents=True)
        runs[0].config.write_bytes(tomli_w.dumps(runs[0].tables).encode())
        runs[0].result.write_text(json.dumps(asdict(outcome)))
        command = ["hodgeformer", "study", "--out", "/my/disk", "--seeds", "1"]
        (runs[0].folder / "env.json").write_text(json.dumps({"commit": commit, "command": command}))
        save_study(results, "t", study, runs, [row])

    measure("T", 3, "first")
    measure("H", 4, "second")
    rows = {row["row"]: row for row in json.loads((results / "t.json").read_text())["rows"]}
    found = {name: (row["mean"], row["runs"][0]["seed"], row["runs"][0]["commit"]) for name, row in rows.items()}
    assert found == {"T": (50.0, 3, "first"), "H": (50.0, 4, "second")}
    assert rows["T"]["runs"][0]["command"] == ["hodgeformer", "study", "--seeds", "1"]
    assert len((results / "t.csv").read_text().splitlines()) == 3

    measure("T", 2, "on another machine", score=0.7)
    row = json.loads((results / "t.json").read_text())["rows"][0]
    assert (row["seeds"], row["mean"], [run["seed"] for run in row["runs"]]) == (2, 60.0, [2, 3])
    assert [run.get("interval") for run in row["runs"]] == [[60.0, 80.0], None]
    measure("T", 1, "later", score=0.9)  # the intervals of the record are read again
    row = json.loads((results / "t.json").read_text())["rows"][0]
    assert (row["seeds"], row["low"], row["high"]) == (3, 70.0, 90.0)
    measure("T", 2, "other settings", score=0.9, lr=0.2)
    row = json.loads((results / "t.json").read_text())["rows"][0]
    assert (row["seeds"], row["mean"], [run["commit"] for run in row["runs"]]) == (1, 90.0, ["other settings"])
