"""A study is planned, carried out, resumed, and told as a table."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from hodgeformer.base.errors import ConfigError
from hodgeformer.data.census import take_census
from hodgeformer.lab.result_tables import main_table
from hodgeformer.lab.study.ablation import (
    Study,
    StudyRow,
    carry_out,
    finished_result,
    known_studies,
    load_study,
    plan_study,
)
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.training.config import RunConfig, read_config
from hodgeformer.training.listener import Listener, Standing
from hodgeformer.training.plan import planned
from hodgeformer.training.run_folder import write_csv
from tiny_sets import parts

DATA = {"name": "synthetic_cubes", "n_classes": 2, "n_train": 2, "n_test": 1, "n_faces": 120}
SMALL = ("model.d_model=8", "model.n_heads=1", "train.epochs=2", "train.batch_size=2")


def two_rows() -> Study:
    rows = (StudyRow(name="T", paper={"x": 50.0}, model={"blocks": "T"}), StudyRow(name="H", model={"blocks": "H"}))
    return Study(title="two", base={"model": {"updates": "v"}}, rows=rows)


PAPERS = ("embedding", "features", "neighbors", "mixing", "label-smoothing")
# What the paper says of its studies, or the authors' published settings for COSEG vases where it gives a range.
PAPER = {
    "prepare": {
        "faces": "original", "least_faces": 0, "n_neighbors": "sqrt", "max_neighbors": None, "random_share": 0.2,
        "features": ("coords", "normals", "areas"), "pose": "file", "size": "sphere", "winding": "file",
    },
    "augment": {
        "resolution": 1.0, "bend": 0.0, "grow": 0.0, "swell": 0.0, "rotation": "so3", "tilt": 0.0, "slide": 0.1,
        "slide_back": True, "scale": 0.0, "mirror": 0.0, "noise": 0.0, "cut": 0.0,
    },
    "model": {
        "blocks": "HHHH", "updates": "v", "d_model": 256, "d_hidden": 512, "n_heads": 4, "dropout": 0.1,
        "embedding": "neighbor",
    },
    "train": {
        "optimizer": "adam", "weight_decay": 0.0, "lr": 5e-4, "warmup": 0.0, "clip": None, "batch_size": 4,
        "epochs": 300, "minutes": None, "label_smoothing": 0.2, "class_weights": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_studies_run_the_papers_base_and_nothing_is_planned(name: str, tmp_path: Path) -> None:
    _, study = load_study(name)
    census = take_census(parts())
    for run in plan_study(study, data={"name": "human"}, seeds=[0], out=tmp_path):
        config = RunConfig.parse(run.tables)
        full = planned(config, census)
        for table, expected in PAPER.items():
            changed = {**expected, **({"blocks": "HHHHHHTT"} if (name, table) == ("label-smoothing", "model") else {})}
            settings = getattr(full, table)
            found = settings if table == "model" else {key: getattr(settings, key) for key in changed}
            said = {k: tuple(v) if isinstance(v, list) else v for k, v in run.row.tables[table].items()}
            assert {key: found[key] for key in changed} == {**changed, **said}, (run.row.name, table)
        assert (full.prepare, full.augment, full.model) == (config.prepare, config.augment, config.model)
        assert run.row.paper  # states the paper's figure
    assert len({str(row.tables) for row in study.rows}) == len(study.rows)


def test_all_the_papers_studies_are_there() -> None:
    assert set(known_studies()) >= {*PAPERS, "main"}
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


def test_overrides_win_over_the_configuration_that_a_row_extends(tmp_path: Path) -> None:
    _, study = load_study("main")
    rows = {"rows": ["COSEG vases"], "data": {}, "seeds": [0], "out": tmp_path}
    (whole,), (short,) = plan_study(study, **rows), plan_study(study, overrides=["train.epochs=60"], **rows)
    assert (whole.tables["train"]["epochs"], short.tables["train"]["epochs"]) == (300, 60)
    assert {**short.tables["train"], "epochs": 300} == whole.tables["train"] and short.tables["model"] == whole.tables[
        "model"
    ]


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
    time.sleep(600)
"""


def test_two_processes_do_not_train_the_same_run(tmp_path: Path) -> None:
    run = plan_study(two_rows(), data=DATA, overrides=SMALL, seeds=[0], out=tmp_path)[0]
    run.folder.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.folder / ".lock")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    assert carry_out(run, Listener()) is None
    # A process that dies without a word, as one does that runs out of memory, leaves nothing locked.
    holder.kill()
    holder.communicate()
    assert carry_out(run, Listener()) is not None


def test_a_row_that_is_calibrated_uses_its_validation_meshes(tmp_path: Path) -> None:
    """As `train` does; the smoothing of answers belongs to its plan."""
    figures = {"name": "figures", "n_train": 2, "n_val": 2, "n_test": 1, "n_faces": 200}
    row = StudyRow(name="D", model={"blocks": "D"}, train={"calibrate": True})
    plain = StudyRow(name="plain", model={"blocks": "D"})
    study = Study(title="calibrated", rows=(row, plain))
    for run in plan_study(study, data=figures, overrides=SMALL, seeds=[0], out=tmp_path):
        assert carry_out(run, Listener()) is not None
        assert bool(load_checkpoint(run.folder / "last.safetensors").heights) == (run.row is row)


@pytest.mark.parametrize("name", ["recipe", "shrec11"])
def test_studies_of_our_own_results_are_valid_runs(name: str, tmp_path: Path) -> None:
    _, study = load_study(name)
    runs = plan_study(study, data={"name": "shrec11"}, seeds=[0], out=tmp_path)
    assert len({run.folder for run in runs}) == len(study.rows)
    assert all(RunConfig.parse(run.tables).data.train_per_class for run in runs)


ROOT = Path(__file__).resolve().parents[3]


def test_every_row_of_the_main_table_is_a_configuration_of_its_own(tmp_path: Path) -> None:
    _, study = load_study("main")
    runs = plan_study(study, data={}, seeds=[1, 2], out=tmp_path)
    assert len(runs) == 2 * len(study.rows)
    for run in runs:
        config = RunConfig.parse(run.tables)
        assert config.data.name != "folder" and config.data.seed == config.train.seed == run.seed
    one = plan_study(study, data={}, seeds=[0], out=tmp_path, rows=["COSEG chairs"])
    assert [run.tables["data"]["part"] for run in one] == ["chairs"]
    human = plan_study(study, data={}, seeds=[0], out=tmp_path, rows=["Human, simplified"])[0]
    own = read_config(ROOT / "configs" / "human.toml")
    assert RunConfig.parse(human.tables).model == own.model and RunConfig.parse(human.tables).train.lr == own.train.lr
    with pytest.raises(ConfigError, match="no row 'COSEG lamps'"):
        plan_study(study, data={}, seeds=[0], out=tmp_path, rows=["COSEG lamps"])
    with pytest.raises(ConfigError, match=r"names no data; .* --data"):
        plan_study(two_rows(), data={}, seeds=[0], out=tmp_path)


def test_the_main_table_tells_what_is_there_and_what_is_missing(tmp_path: Path) -> None:
    name, study = load_study("main")
    write_csv(tmp_path / "main.csv", [{"row": "SHREC11 split-1", "mean": 40.5, "std": None, "seeds": 1, "epochs": 60}])
    write_csv(tmp_path / "shapes.csv", [{"row": "SHREC11 split-1", "mean": 83.19, "std": 4.0, "seeds": 3}])
    rows = {row["data"]: row for row in main_table(study, tmp_path, name)}
    assert list(rows) == [row.name for row in study.rows]
    split_1 = rows["SHREC11 split-1"]
    assert (split_1["paper"], split_1["mean"], split_1["seeds"], split_1["missing"]) == (45.9, 40.5, 1, None)
    assert split_1["epochs"] == "60 of 300", "shorter than the paper's, which the table says"
    assert (split_1["recipe_mean"], split_1["recipe_std"], split_1["recipe_seeds"]) == (83.19, 4.0, 3)
    assert rows["Human, simplified"]["recipe_mean"] is None
    assert rows["COSEG vases"]["mean"] is None
    assert rows["COSEG vases"]["missing"] == 'hodgeformer study ablation main --row "COSEG vases" --seeds 5'


def test_the_main_table_of_the_repository_is_up_to_date() -> None:
    name, study = load_study("main")
    with (ROOT / "results" / "table.csv").open(encoding="utf-8", newline="") as stream:
        told = list(csv.DictReader(stream))
    found = main_table(study, ROOT / "results", name)
    assert told == [{key: "" if value is None else str(value) for key, value in row.items()} for row in found], (
        "run `hodgeformer study table`"
    )
