"""A study is planned, carried out, resumed, and told as a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hodgeformer.errors import ConfigError
from hodgeformer.study.ablation import (
    RunResult,
    Study,
    StudyRow,
    carry_out,
    finished_result,
    known_studies,
    load_study,
    plan_study,
    study_table,
)
from hodgeformer.train.config import RunConfig
from hodgeformer.train.listener import Listener, Standing
from hodgeformer.train.run_folder import write_csv

DATA = {"name": "synthetic_cubes", "n_classes": 2, "n_train": 2, "n_test": 1, "n_faces": 120}
SMALL = ("model.d_model=8", "model.n_heads=1", "train.epochs=2", "train.batch_size=2")


def two_rows() -> Study:
    rows = (StudyRow(name="T", paper={"x": 50.0}, model={"blocks": "T"}), StudyRow(name="H", model={"blocks": "H"}))
    return Study(title="two", base={"model": {"updates": "v"}}, rows=rows)


@pytest.mark.parametrize("name", sorted(known_studies()))
def test_every_study_is_a_valid_run(name: str, tmp_path: Path) -> None:
    _, study = load_study(name)
    for run in plan_study(study, data={"name": "human"}, seeds=[0], out=tmp_path):
        assert RunConfig.parse(run.tables).model["updates"] == "v"
        assert run.row.paper  # states the paper's figure
    assert len({str(row.tables) for row in study.rows}) == len(study.rows)


def test_all_the_papers_studies_are_there() -> None:
    assert set(known_studies()) == {"embedding", "features", "neighbors", "mixing", "label-smoothing"}
    with pytest.raises(ConfigError, match="did you mean 'mixing'"):
        load_study("mixin")


def test_rows_win_over_overrides_and_seeds_come_row_by_row(tmp_path: Path) -> None:
    overrides = ["model.d_model=16", "model.blocks=HHH"]
    runs = plan_study(two_rows(), data=DATA, overrides=overrides, seeds=[3, 4], out=tmp_path)
    assert [(run.seed, run.tables["model"]["blocks"]) for run in runs] == [(3, "T"), (3, "H"), (4, "T"), (4, "H")]
    assert all(run.tables["model"]["d_model"] == 16 for run in runs)
    assert all(run.tables["train"]["seed"] == run.tables["data"]["seed"] == run.seed for run in runs)
    with pytest.raises(ConfigError, match="unknown table"):
        plan_study(two_rows(), data=DATA, overrides=["modell.d_model=16"], seeds=[0], out=tmp_path)


class Interrupting(Listener):
    """Pulls the plug at a step."""

    def __init__(self, at: int) -> None:
        self.at, self.steps, self.resumed_at = at, 0, -1

    def stepped(self, standing: Standing) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise KeyboardInterrupt

    def resumed(self, epoch: int, batch: int) -> None:
        self.resumed_at = epoch


def test_a_stopped_run_goes_on_and_a_finished_one_is_skipped(tmp_path: Path) -> None:
    whole = plan_study(two_rows(), data=DATA, overrides=SMALL, seeds=[0], out=tmp_path / "whole")[0]
    undisturbed = carry_out(whole, Listener())
    run = plan_study(two_rows(), data=DATA, overrides=SMALL, seeds=[0], out=tmp_path / "stopped")[0]
    with pytest.raises(KeyboardInterrupt):
        carry_out(run, Interrupting(at=3))  # in the second epoch
    assert finished_result(run) is None
    listener = Interrupting(at=-1)
    result = carry_out(run, listener)
    assert listener.resumed_at == 1
    assert result is not None
    assert undisturbed is not None
    assert (result.score, result.epochs, result.n_parameters) == (
        undisturbed.score,
        undisturbed.epochs,
        undisturbed.n_parameters,
    )
    assert result.score_name == "mesh_accuracy"
    assert result.cpu_minutes > 0
    again = Interrupting(at=1)
    assert carry_out(run, again) == result
    assert again.steps == 0
    other = plan_study(two_rows(), data=DATA, overrides=[*SMALL, "train.lr=1e-3"], seeds=[0], out=run.folder.parent)[0]
    with pytest.raises(ConfigError, match="other settings"):
        finished_result(other)


HOLD = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_do_not_train_the_same_run(tmp_path: Path) -> None:
    run = plan_study(two_rows(), data=DATA, overrides=SMALL, seeds=[0], out=tmp_path)[0]
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(run.lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    assert carry_out(run, Listener()) is None
    # A process that dies without a word, as one does that runs out of memory, leaves nothing locked.
    holder.kill()
    holder.communicate()
    assert carry_out(run, Listener()) is not None


def test_the_table_has_mean_spread_paper_and_cost(tmp_path: Path) -> None:
    def result(score: float) -> RunResult:
        return RunResult(score, "face_accuracy", "val", cpu_minutes=2.0, minutes=1.0, epochs=3, n_parameters=7)

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
        "paper_x": 50.0,
        "epochs": 3,
        "cpu_minutes": 2.0,
        "parameters": 7,
    }
    write_csv(tmp_path / "results" / "t.csv", [*rows, {"row": "H", "std": None}])
    lines = (tmp_path / "results" / "t.csv").read_text().splitlines()
    assert lines[0].startswith("row,score,split,seeds,mean,std")
    assert lines[2] == "H" + "," * 11


@pytest.mark.parametrize("name", ["recipe", "shrec11"])
def test_studies_of_our_own_results_are_valid_runs(name: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    _, study = load_study(str(root / "configs" / "results" / f"{name}.toml"))
    runs = plan_study(study, data={"name": "shrec11"}, seeds=[0], out=tmp_path)
    assert len({run.folder for run in runs}) == len(study.rows)
    assert all(RunConfig.parse(run.tables).data.train_per_class for run in runs)
