"""train(): one call from data to a scored model, interrupted and resumed, and everything that is told on the way."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hodgeformer.base.errors import CheckpointError, ConfigError, DataError
from hodgeformer.data.folder import write_folder
from hodgeformer.data.labels import Values
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.training.listener import Listener, Standing
from hodgeformer.training.loop import Stopped
from hodgeformer.training.outcome import Outcome
from hodgeformer.training.run import train
from hodgeformer.training.run_folder import InUseError, RunFolder
from hodgeformer.training.setup import set_up
from tiny_sets import TINY, parts

SETTINGS = [*TINY, "train.epochs=3"]


@pytest.fixture(scope="module")
def whole(eggs: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run that nobody disturbed."""
    return train(eggs, tmp_path_factory.mktemp("runs") / "whole", overrides=SETTINGS)


class Interrupting(Listener):
    """Presses Ctrl-C at a step, and notes what it hears."""

    def __init__(self, at: int = 0, number: int = signal.SIGINT) -> None:
        self.at, self.number, self.steps = at, number, 0
        self.warnings: list[str] = []
        self.resumed_at: int | None = None

    def warned(self, message: str) -> None:
        self.warnings.append(message)

    def resumed(self, epoch: int, batch: int) -> None:
        self.resumed_at = epoch

    def stepped(self, standing: Standing) -> None:
        self.steps += 1
        if self.steps == self.at:
            signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "a polite kill"])
def test_an_interrupted_run_is_saved_and_ends_as_if_nothing_had_happened(
    eggs: Path, whole: Outcome, tmp_path: Path, number: int
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match="epoch 2"):
        train(eggs, tmp_path / "stopped", overrides=SETTINGS, callbacks=[Interrupting(at=3, number=number)])
    assert signal.getsignal(number) is before
    listener = Interrupting()
    outcome = train(None, tmp_path / "stopped", callbacks=[listener])
    assert listener.resumed_at == 1 and listener.steps == 3
    assert whole.scores is not None and outcome.scores is not None
    assert outcome.scores.values == whole.scores.values and outcome.epochs == 3
    first, second = (load_checkpoint(run.chosen).weights for run in (whole, outcome))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert (tmp_path / "stopped" / "report.html").exists()


def test_it_works_in_a_thread_where_no_signal_arrives(eggs: Path, tmp_path: Path) -> None:
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(train(eggs, tmp_path / "run", overrides=SETTINGS)))
    thread.start()
    thread.join()
    assert outcomes[0].chosen.exists()


def test_a_folder_in_use_and_one_without_a_run_are_refused(eggs: Path, whole: Outcome, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="already contains a run"):
        train(eggs, whole.folder)
    with pytest.raises(CheckpointError, match="not a run folder"):
        train(None, tmp_path)


def test_tables_and_a_file_say_the_same(eggs: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'[data]\npath = "{eggs}"\n[model]\nd_model = 32\n')
    from_file = set_up(tmp_path / "c.toml", tmp_path / "run", settings=SETTINGS)
    from_tables = set_up({"data": {"path": eggs}, "model": {"d_model": 32}}, tmp_path / "run", settings=SETTINGS)
    assert from_file.config == from_tables.config and not (tmp_path / "run").exists()


def test_copies_between_splits_are_told(tmp_path: Path) -> None:
    dataset = parts()
    copy = replace(dataset.split("train")[0], name="copy")
    write_folder(dataset.with_splits({"train": dataset.split("train"), "test": [copy]}), tmp_path / "leaky")
    listener = Interrupting()
    set_up(tmp_path / "leaky", tmp_path / "run", listener=listener)
    assert len(listener.warnings) == 1
    assert "copies of training meshes (1)" in listener.warnings[0]
    assert "too optimistic: copy" in listener.warnings[0]


def test_classes_that_no_training_mesh_has_are_told(tmp_path: Path) -> None:
    dataset = parts()
    first, *others = dataset.split("train")
    middle = Values(np.ones_like(dataset.load(first)[1]))
    dataset = dataset.with_splits({"train": [replace(first, target=middle)], "test": others})
    listener = Interrupting()
    write_folder(dataset, tmp_path / "poor")
    set_up(tmp_path / "poor", tmp_path / "run", listener=listener)
    assert len(listener.warnings) == 1
    assert "are never predicted: bottom, top (" in listener.warnings[0]
    labels = np.concatenate([dataset.load(sample)[1] for sample in others])
    assert f"({(labels != 1).mean():.1%} of the labels in test)" in listener.warnings[0]


def test_a_run_is_scored_without_copies_too(tmp_path: Path) -> None:
    dataset = parts(n_train=3, n_test=1)
    copy, test = replace(dataset.split("train")[0], name="copy"), dataset.split("test")
    write_folder(dataset.with_splits({"train": dataset.split("train"), "test": [copy, *test]}), tmp_path / "leaky")
    found = train(tmp_path / "leaky", tmp_path / "run", overrides=SETTINGS).scores
    assert found is not None and found.per_mesh is not None
    assert found.values["face_accuracy_without_copies"] == found.per_mesh[test[0].name]


class Dying(Listener):
    """Ends the run at its first step as a crash would, before anything is saved."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def planned(self, reason: str) -> None:
        self.reasons.append(reason)

    def stepped(self, standing: Standing) -> None:
        raise RuntimeError("the power is gone")


def test_a_fine_tuning_that_died_at_once_begins_again_with_the_model_it_started_from(
    eggs: Path, whole: Outcome, tmp_path: Path
) -> None:
    start = load_checkpoint(whole.chosen)
    settings = ["train.batch_size=3", "train.workers=0", "train.epochs=2", "augment.rotation=none"]
    tuned = train(eggs, tmp_path / "tuned", overrides=settings, start=start)
    listener = Dying()
    with pytest.raises(RuntimeError, match="power"):
        train(eggs, tmp_path / "dead", overrides=settings, start=start, callbacks=[listener])
    assert any("fine-tuning 'eggs': its embedding and blocks HT are kept" in reason for reason in listener.reasons)
    outcome = train(None, tmp_path / "dead")
    first, second = (load_checkpoint(run.chosen).weights for run in (tuned, outcome))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("freeze", "frozen"), [("embedding", 0), ("encoder", 2)])
def test_frozen_layers_stay_what_they_were(
    eggs: Path, whole: Outcome, tmp_path: Path, freeze: str, frozen: int
) -> None:
    start = load_checkpoint(whole.chosen)
    settings = ["train.workers=0", "train.epochs=1", f"train.freeze={freeze}"]
    tuned = load_checkpoint(train(eggs, tmp_path / "tuned", overrides=settings, start=start).chosen)
    still = ("embedding.", *(f"encoder.blocks.{i}." for i in range(frozen)))
    for name, before in start.weights.items():
        if name.startswith(still):
            assert torch.equal(before, tuned.weights[name]), name
        elif before.ndim > 1:
            assert not torch.equal(before, tuned.weights[name]), name


def test_a_validation_split_calibrates(tmp_path: Path) -> None:
    write_folder(parts(n_val=2), tmp_path / "data")
    outcome = train(tmp_path / "data", tmp_path / "run", overrides=SETTINGS)
    assert outcome.scores is not None and "face_calibration_error" in outcome.scores.values
    assert load_checkpoint(outcome.chosen).temperature != 1.0
    assert "Calibration" in (tmp_path / "run" / "report.html").read_text()


class Intruding(Listener):
    """Tries to train in a folder where training is going on."""

    def __init__(self, data: Path, out: Path) -> None:
        self.data, self.out, self.refusals = data, out, []

    def stepped(self, standing: Standing) -> None:
        if not self.refusals:
            with pytest.raises(InUseError) as resumed:
                train(None, self.out)
            with pytest.raises(ConfigError, match="already contains a run"):
                train(self.data, self.out)
            self.refusals.append(str(resumed.value))


def test_a_folder_where_training_goes_on_is_locked_with_the_owners_name(eggs: Path, tmp_path: Path) -> None:
    listener = Intruding(eggs, tmp_path / "run")
    train(eggs, tmp_path / "run", overrides=[*TINY, "train.epochs=1"], callbacks=[listener])
    assert f"is in use: process {os.getpid()} of " in listener.refusals[0]
    train(None, tmp_path / "run")  # free again


def test_two_that_begin_at_once_do_not_share_a_folder(tmp_path: Path) -> None:
    mine, theirs = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    with mine.owned(new=True), pytest.raises(InUseError), theirs.owned(new=True):
        pass
    assert not (tmp_path / "run").exists()  # nothing was begun, nothing is left
    with pytest.raises(DataError):
        train({"data": {"name": "folder", "path": str(tmp_path)}}, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_the_lock_of_a_process_that_was_killed_holds_nobody_up(whole: Outcome, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path / "run")
    (tmp_path / "run" / ".lock").touch()
    (tmp_path / "run" / ".owner.json").write_text('{"process": 1, "user": "a", "host": "b", "since": "c"}')
    (tmp_path / "run" / ".last.safetensors.1234.tmp").write_bytes(b"half")
    train(None, tmp_path / "run")
    assert not (tmp_path / "run" / ".owner.json").exists()
    assert not list((tmp_path / "run").glob(".*.tmp"))


def test_a_run_that_was_killed_before_it_began_can_be_started_again(eggs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("env.json", ".lock", ".owner.json", ".config.toml.12ab.tmp"):
        (run / name).write_text("{")
    with pytest.raises(CheckpointError, match=r"stopped before it began.*start it again"):
        train(None, run)
    train(eggs, run, overrides=[*TINY, "train.epochs=1"])
    assert (run / "config.toml").exists() and not list(run.glob(".*.tmp"))


DAMAGED = (
    b"",
    b"\xff\x00\xfe",
    b"epoch,step\nx,y\n1,",
    b"epoch,train_loss\n1,nan\n2,0.5,9\n",
    b"epoch,x\n1," + b"9" * 200_000,
)


def test_damaged_metrics_are_told_and_left_out(eggs: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(eggs, tmp_path / "stopped", overrides=SETTINGS, callbacks=[Interrupting(at=5)])
    for i, damage in enumerate(DAMAGED):
        shutil.copytree(tmp_path / "stopped", tmp_path / str(i))
        (tmp_path / str(i) / "metrics.csv").write_bytes(damage)
        listener = Interrupting()
        train(None, tmp_path / str(i), callbacks=[listener])
        rows, damaged = RunFolder(tmp_path / str(i)).rows()
        assert not damaged and int(rows[-1]["epoch"]) == 3, damage[:20]
        assert len(listener.warnings) == (len(damage) > 3), damage[:20]


@pytest.mark.parametrize(("rate", "clip"), [("1e38", "none"), ("1e38", "1.0"), ("1e20", "1.0")])
def test_a_run_that_diverges_ends_with_advice_and_a_good_state(
    eggs: Path, tmp_path: Path, rate: str, clip: str
) -> None:
    settings = [*TINY, "train.epochs=20", f"train.lr={rate}", "train.warmup=0.5", f"train.clip={clip}"]
    with pytest.raises(ConfigError, match=r"became .*the run stopped in epoch \d+.*--set train\.lr=0\.001"):
        train(eggs, tmp_path / "run", overrides=settings)
    state = load_file(tmp_path / "run" / "state.safetensors")
    assert all(torch.isfinite(value).all() for name, value in state.items() if name.startswith("model/"))
