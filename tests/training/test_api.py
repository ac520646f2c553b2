"""hf.train, hf.evaluate and cross-validation: from whatever holds the data to models and their scores."""

from __future__ import annotations

import csv
import importlib
import inspect
import json
import pydoc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hodgeformer as hf
from command import options
from hodgeformer.base.errors import ConfigError
from hodgeformer.cli import app
from hodgeformer.data.folder import write_folder
from hodgeformer.training.listener import Listener, Standing
from hodgeformer.training.loop import Stopped
from hodgeformer.training.run import learn, run
from hodgeformer.training.run_folder import RunFolder
from hodgeformer.training.trial import estimate
from tiny_sets import parts

QUICK: dict[str, Any] = {
    "pose": "file",
    "rotation": "none",
    "blocks": "HT",
    "d_model": 16,
    "n_heads": 2,
    "batch_size": 3,
    "workers": 0,
    "lr": 5e-3,
    "epochs": 1,
}
OVERRIDES = ["prepare.pose=file", "augment.rotation=none", "model.blocks=HT", "model.d_model=16", "model.n_heads=2",
             "train.batch_size=3", "train.workers=0", "train.lr=5e-3", "train.epochs=1"]  # fmt: skip
WORDS = options(*OVERRIDES)


def pairs() -> list[tuple[hf.Mesh, np.ndarray]]:
    dataset = parts(n_train=6, n_test=0)
    return [dataset.load(sample) for sample in dataset.samples]


def test_pairs_become_a_model_with_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Any] = []
    steps: list[float] = []

    class Steps(Listener):
        def stepped(self, standing: Standing) -> None:
            steps.append(standing.loss)

    names = ["low", "mid", "high"]
    run = hf.train(pairs(), tmp_path / "run", classes=names, callbacks=[rows.append, Steps()], **{**QUICK, "epochs": 2})
    assert capsys.readouterr() == ("", "")
    assert rows[-1]["epoch"] == 2 and len(steps) == 4 and run.history[-1]["epoch"] == 2
    assert run.scores is not None and "face_accuracy=" in repr(run)
    predictor = run.predictor()
    assert predictor.names == ("low", "mid", "high") and run.report.is_file()
    again = hf.evaluate(predictor, run.folder / "data")
    assert again.values == run.scores.values
    assert hf.evaluate(run.chosen, pairs()).per_mesh.keys() == {mesh.name for mesh, _ in pairs()}  # type: ignore[union-attr]
    tuned = hf.train(parts(), tmp_path / "tuned", start=predictor, epochs=1, workers=0, train={"freeze": "encoder"})
    assert tuned.predictor().names == ("bottom", "middle", "top")
    assert hf.train(None, tmp_path / "tuned").epochs == tuned.epochs  # nothing is left to do


def test_progress_is_shown_unless_there_are_callbacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf.train(pairs(), tmp_path / "shown", **QUICK)
    shown = capsys.readouterr()
    assert "plan: " in shown.err and "epoch    1" in shown.err and not shown.out
    hf.train(pairs(), tmp_path / "silent", callbacks=[], **QUICK)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sed": 1}, "unknown setting 'sed'; did you mean 'seed'"),
        ({"seed": 1}, r"setting of \[data\].*train=\{'seed': 1\}"),
        ({"train": {"lr": -1}}, "greater than 0"),
        ({"callbacks": [3]}, "a callback must be a function"),
        ({"start": "humen"}, "did you mean 'human'"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(hf.HodgeFormerError, match=told):
        hf.train(pairs(), tmp_path / "run", **settings)
    with pytest.raises(ConfigError, match="'classes' is only for pairs"):
        hf.train(str(tmp_path), tmp_path / "run", classes=["a", "b"])
    with pytest.raises(ConfigError, match="remove all but epochs or minutes"):
        hf.train(None, tmp_path / "run", epochs=3, lr=1e-3)
    with pytest.raises(ConfigError, match="cannot train on"):
        hf.train(3, tmp_path / "run")  # type: ignore[call-overload]


def test_the_public_name_is_a_plain_function_whatever_was_imported_before() -> None:
    importlib.import_module("hodgeformer.training.listener")
    assert inspect.isfunction(hf.train)
    assert {"data", "out", "minutes", "folds"} <= inspect.signature(hf.train).parameters.keys()
    assert "minutes:" in pydoc.plain(pydoc.render_doc(hf.train))


class Interrupting(Listener):
    """Kills the run at a step."""

    def __init__(self, at: int) -> None:
        self._left = at

    def stepped(self, standing: Standing) -> None:
        self._left -= 1
        if self._left == 0:
            raise Stopped("stopped")


def test_folds_are_scored_by_who_has_not_seen_them_and_go_on_when_stopped(tmp_path: Path) -> None:
    named = {"groups": ["ann", "ann", "bob", "bob", "cem", "dan"]}
    dataset = hf.open_dataset(pairs(), classes=["bottom", "middle", "top"], **named)  # type: ignore[arg-type]
    whole = hf.train(dataset, tmp_path / "whole", folds=3, **QUICK)
    tested = [name for scores in whole.scores for name in scores.per_mesh or ()]
    assert sorted(tested) == sorted(sample.name for sample in dataset.samples)
    with pytest.raises(Stopped):
        hf.train(dataset, tmp_path / "stopped", folds=3, callbacks=[Interrupting(at=3)], **QUICK)
    assert (tmp_path / "stopped" / "fold-2").is_dir() and not (tmp_path / "stopped" / "fold-3").exists()
    done = hf.train(None, tmp_path / "stopped")
    assert isinstance(done, hf.CrossValidation) and done.table == whole.table
    first = whole.table[0]
    values = [first[f"fold_{i}"] for i in (1, 2, 3)]
    assert first["score"] == "face accuracy" and first["mean"] == pytest.approx(np.mean(values))
    assert first["spread"] == pytest.approx(np.std(values, ddof=1))
    assert [row["score"] for row in whole.table[-3:]] == ["IoU of bottom", "IoU of middle", "IoU of top"]
    with (tmp_path / "whole" / "folds.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == len(whole.table)
    together = whole.predictor()
    assert len(together.members) == 3
    scores = hf.evaluate(tmp_path / "whole", dataset, split="train")
    mesh, labels = dataset.load(dataset.split("train")[0])
    assert scores.per_mesh is not None
    assert scores.per_mesh[mesh.name] == pytest.approx((together.predict(mesh).labels == labels).mean())


def test_a_command_that_torchrun_repeats_continues_its_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = parts(n_train=4, n_test=2)
    with pytest.raises(Stopped):
        hf.train(dataset, tmp_path / "cv", folds=2, callbacks=[Interrupting(at=2)], **QUICK)
    with pytest.raises(ConfigError, match="already contains a run"):
        hf.train(dataset, tmp_path / "cv", folds=2, **QUICK)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert len(hf.train(dataset, tmp_path / "cv", folds=2, **QUICK).scores) == 2


def test_a_trial_locks_and_writes_nothing(tmp_path: Path) -> None:
    write_folder(parts(), tmp_path / "data")
    trained = run(tmp_path / "data", tmp_path / "run", learn, settings=OVERRIDES)
    with RunFolder(tmp_path / "run").owned(new=False):
        before = sorted(tmp_path.rglob("*"))
        resumed, new = (
            run(data, tmp_path / out, lambda setup: setup, settings=settings, trial=True)
            for data, out, settings in ((None, "run", ()), (tmp_path / "data", "new", OVERRIDES))
        )
        assert resumed.config == new.config and estimate(new).n_batches == len(trained.rows) * 2
        assert sorted(tmp_path.rglob("*")) == before


def test_folds_on_the_command_line(tmp_path: Path) -> None:
    write_folder(parts(n_train=4, n_test=2), tmp_path / "data")
    runner = CliRunner()
    said = ["train", str(tmp_path / "data"), "--out", str(tmp_path / "cv"), "--folds", "2", *WORDS]
    dry = runner.invoke(app, [*said, "--dry-run"])
    assert dry.exit_code == 0 and "3 train, 3 test" in dry.stdout, dry.output
    run = runner.invoke(app, [*said, "--quiet"])
    assert run.exit_code == 0, run.output
    assert "spread" in run.stdout and "IoU of middle" in run.stdout
    mesh = next((tmp_path / "data" / "meshes").glob("*.ply"))
    words = ["predict", str(tmp_path / "cv"), str(mesh), "--out", str(tmp_path / "out"), "--quiet", "--json"]
    answered = runner.invoke(app, words)
    assert answered.exit_code == 0, answered.output
    assert len(json.loads(answered.stdout)["results"][0]["labels"]) == 80
    both = f"{tmp_path / 'cv' / 'fold-1'},{tmp_path / 'cv' / 'fold-2'}"
    scored = runner.invoke(app, ["evaluate", both, str(tmp_path / "data"), "--quiet", "--json"])
    assert scored.exit_code == 0 and json.loads(scored.stdout)["n_learned_from"] == 2, scored.output
    refused = runner.invoke(app, ["evaluate", both, str(tmp_path / "data"), "--calibrate", "--quiet"])
    assert refused.exit_code == 2
    one = tmp_path / "cv" / "fold-1"
    words = ["evaluate", str(one), str(tmp_path / "data"), "--calibrate", "--device", "cpu", "--quiet"]
    fitted = runner.invoke(app, words)
    assert fitted.exit_code == 0, fitted.output
    assert hf.Predictor.load(one).info.temperature != 1.0
    again = runner.invoke(app, [*said, "--quiet"])
    assert again.exit_code == 2 and "--resume" in again.output


def test_a_network_is_saved_and_found_again(tmp_path: Path) -> None:
    config = hf.ModelConfig(task="segmentation", n_classes=2, blocks="HT", d_model=16, n_heads=2)
    model = hf.HodgeFormer(config).eval()
    folder = hf.Predictor.from_model(model, classes=["in", "out"]).save_pretrained(tmp_path / "mine")
    again = hf.Predictor.load(folder).model
    assert all((a == b).all() for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    mesh = pairs()[0][0]
    assert hf.Predictor.load(folder).predict(mesh).names == ("in", "out")
