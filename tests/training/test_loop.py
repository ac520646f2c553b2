"""Runs: they learn, end where the schedule says, and go on exactly where they stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint
from hodgeformer.training.config import read_config
from hodgeformer.training.distributed import Processes
from hodgeformer.training.listener import Listener, Standing
from hodgeformer.training.loop import Run, Stopped
from hodgeformer.training.plan import planned
from hodgeformer.training.run import finish, train
from hodgeformer.training.run_folder import RunFolder
from hodgeformer.training.setup import Setup, take_over
from hodgeformer.training.trial import estimate, overfit_one_batch
from tiny_sets import TINY, heights, parts, shapes


class Steps(Listener):
    """Remembers what it was told, and asks to stop after some steps."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.told: list[Standing] = []
        self.rows: list[object] = []
        self.stop_after = stop_after

    def stepped(self, standing: Standing) -> None:
        self.told.append(standing)

    def evaluated(self, row: object) -> None:
        self.rows.append(row)

    def should_stop(self) -> bool:
        return self.stop_after is not None and len(self.told) >= self.stop_after


class StopAt(Listener):
    """Interrupts a run at the end of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def stepped(self, standing: Standing) -> None:
        if standing.epoch + 1 > self.epoch:
            signal.raise_signal(signal.SIGINT)


def set_up(dataset: DataSet, root: Path, *settings: str, start: Checkpoint | None = None) -> Setup:
    config = read_config({"data": {"name": "figures"}}, [*TINY, *settings])
    census = take_census(dataset)
    setup = Setup(planned(config, census), census, RunFolder(root), Processes(), start)
    root.mkdir(exist_ok=True)
    return setup


def run_through(setup: Setup, listener: Steps | None = None, clock: Callable[[], float] | None = None) -> Run:
    listener = listener or Steps()
    clocks = {} if clock is None else {"clock": clock}
    run = Run(setup, setup.learner(), listener=listener, should_stop=listener.should_stop, **clocks)
    run.resume()
    run.train()
    return run


def weights(path: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(path).weights)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("dataset", [parts(), shapes()], ids=["segmentation", "classification"])
def test_one_batch_is_learned_by_heart(dataset: DataSet, tmp_path: Path) -> None:
    setup = set_up(dataset, tmp_path, "train.batch_size=4", "model.d_model=32")
    accuracy, steps = overfit_one_batch(setup)
    assert accuracy > 0.99 and steps < 200


@pytest.mark.parametrize("dataset", [parts(), shapes()], ids=["segmentation", "classification"])
def test_a_run_learns_and_its_checkpoint_scores_what_the_run_said(dataset: DataSet, tmp_path: Path) -> None:
    setup = set_up(dataset, tmp_path, "train.epochs=25")
    listener = Steps()
    run = run_through(setup, listener)
    outcome = finish(setup, run)
    assert outcome.scores is not None and outcome.scores.main > 0.9
    assert listener.told[-1].rate < 0.02 * max(progress.rate for progress in listener.told)
    assert 10 <= len(listener.rows) <= 25
    name = f"test_{outcome.scores.main_name}"
    assert float(run.rows[-1][name]) == load_checkpoint(setup.folder.best).metrics[name] == outcome.scores.main
    assert "<svg" in setup.folder.report.read_text()


def test_values_are_regressed_in_their_units(tmp_path: Path) -> None:
    setup = set_up(heights(), tmp_path, "train.epochs=40", "model.dropout=0.0")
    run = run_through(setup)
    outcome = finish(setup, run)
    assert outcome.scores is not None and outcome.scores.main > 0.8
    assert float(run.rows[-1]["test_mesh_r2"]) == outcome.scores.main


@pytest.mark.parametrize("extra", ["train.batch_size=2", "model.blocks=DHD"])
def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path: Path, extra: str) -> None:
    settings = ("train.epochs=4", "train.eval_every=2", extra)
    run_through(set_up(shapes(), tmp_path / "whole", *settings))
    stopped = set_up(shapes(), tmp_path / "stopped", *settings)
    for stop_after in (2, 1, 5):
        with pytest.raises(Stopped):
            run_through(stopped, Steps(stop_after))
    torch.manual_seed(99)
    run_through(stopped)
    whole = tmp_path / "whole"
    assert same(weights(whole / "last.safetensors"), weights(stopped.folder.last))
    assert same(weights(whole / "best.safetensors"), weights(stopped.folder.best))
    columns = [[row["train_loss"] for row in RunFolder(root).rows()[0]] for root in (whole, stopped.folder.root)]
    assert columns[0] == columns[1] and len(columns[0]) == 4


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    setup = set_up(parts(), tmp_path, "train.epochs=2")
    run_through(setup)
    before = setup.folder.last.read_bytes()
    listener = Steps()
    assert run_through(setup, listener).position.finished
    assert not listener.told and setup.folder.last.read_bytes() == before


def test_an_extended_run_ends_like_one_of_that_length_with_a_restart(tmp_path: Path) -> None:
    whole = set_up(parts(), tmp_path / "whole", "train.epochs=5", "train.restarts=[3]")
    run_through(whole)
    train(parts(), tmp_path / "run", overrides=[*TINY, "train.epochs=3"])
    with pytest.raises(ConfigError, match="continues with its own settings"):
        train(None, tmp_path / "run", epochs=2, lr=1e-3)
    with pytest.raises(Stopped):
        train(None, tmp_path / "run", epochs=2, callbacks=[StopAt(4)])
    with pytest.raises(ConfigError, match="only a finished run can be extended"):
        train(None, tmp_path / "run", epochs=2)
    outcome = train(None, tmp_path / "run")
    assert outcome.epochs == 5
    first, second = (load_checkpoint(folder / "last.safetensors") for folder in (tmp_path / "whole", outcome.folder))
    assert all(torch.equal(weight, second.weights[name]) for name, weight in first.weights.items())


def test_a_run_of_minutes_is_extended_by_minutes(tmp_path: Path) -> None:
    done = train(parts(), tmp_path / "run", minutes=0.02, overrides=TINY)
    with pytest.raises(ConfigError, match="in minutes; extend it by minutes"):
        train(None, tmp_path / "run", epochs=2)
    with pytest.raises(ConfigError, match="greater than 0"):
        train(None, tmp_path / "run", minutes=-1)
    assert train(None, tmp_path / "run", minutes=0.02).elapsed >= done.elapsed + 1.2


def test_how_often_it_is_evaluated_changes_nothing(tmp_path: Path) -> None:
    for every in (1, 3):
        run_through(set_up(shapes(), tmp_path / str(every), "train.epochs=3", f"train.eval_every={every}"))
    assert same(weights(tmp_path / "1" / "last.safetensors"), weights(tmp_path / "3" / "last.safetensors"))


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    for seed in (0, 1):
        run_through(set_up(parts(), tmp_path / str(seed), "train.epochs=1", f"train.seed={seed}"))
    assert not same(weights(tmp_path / "0" / "last.safetensors"), weights(tmp_path / "1" / "last.safetensors"))


def test_a_budget_of_minutes_ends_with_the_rate_at_zero(tmp_path: Path) -> None:
    now = iter(range(10**6))
    setup = set_up(parts(), tmp_path, "train.minutes=2")
    listener = Steps()
    run = run_through(setup, listener, clock=lambda: float(next(now)))
    assert run.position.finished and setup.folder.best.exists()
    rates = [progress.rate for progress in listener.told]
    assert max(rates) > 4e-3 and rates[-1] < 2e-4
    assert 120 <= run.position.elapsed < 150


def test_time_that_ends_between_two_epochs_leaves_no_epoch_without_steps(tmp_path: Path) -> None:
    seconds = [0.0]

    class Slow(Steps):
        def stepped(self, standing: Standing) -> None:
            seconds[0] += 10

        def evaluated(self, row: object) -> None:
            super().evaluated(row)
            seconds[0] += 100

    listener = Slow()
    run = run_through(set_up(parts(), tmp_path, "train.minutes=1"), listener, clock=lambda: seconds[0])
    assert run.position.finished and run.position.epoch == 1
    (row,) = run.rows
    assert (row["epoch"], row["step"]) == (1, 2) and float(row["train_loss"]) > 0
    assert listener.rows[-1] == row


def test_the_best_is_chosen_by_validation_alone(tmp_path: Path) -> None:
    setup = set_up(parts(n_val=2), tmp_path, "train.epochs=6", "train.eval_every=1")
    run = run_through(setup)
    scores = [float(row["val_face_accuracy"]) for row in run.rows]
    assert load_checkpoint(setup.folder.best).metrics["val_face_accuracy"] == max(scores)
    assert load_checkpoint(setup.folder.last).metrics["val_face_accuracy"] == scores[-1]
    assert not any("test" in name for row in run.rows for name in row)


def test_a_loss_that_explodes_is_named(tmp_path: Path) -> None:
    setup = set_up(parts(), tmp_path, "train.epochs=1")
    learner = setup.learner()
    with torch.no_grad():
        learner.model.head.out.bias.fill_(float("nan"))
    run = Run(setup, learner, listener=Listener())
    with pytest.raises(ConfigError, match=r"loss became nan.*train\.lr"):
        run.train()


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    setup = set_up(parts(), tmp_path, "train.epochs=1")
    run_through(setup)
    setup.folder.state.write_bytes(setup.folder.state.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match=r"state\.safetensors"):
        run_through(setup)


def test_other_data_under_a_stopped_run_are_refused(tmp_path: Path) -> None:
    run_through(set_up(parts(), tmp_path, "train.epochs=1"))
    with pytest.raises(CheckpointError, match="have changed since"):
        run_through(set_up(parts(n_train=5), tmp_path, "train.epochs=1"))


def test_fine_tuning_takes_over_all_but_the_classes(tmp_path: Path) -> None:
    first = set_up(parts(), tmp_path / "first", "train.epochs=1")
    run_through(first)
    start = load_checkpoint(first.folder.best)
    second = set_up(shapes(), tmp_path / "second", "train.epochs=1", start=start).learner().model.state_dict()
    other = [name for name, value in start.weights.items() if name in second and not torch.equal(second[name], value)]
    assert other == ["head.out.bias", "head.out.weight"], "the head of a classification answers another question"
    with pytest.raises(ConfigError, match="another architecture"):
        set_up(parts(), tmp_path / "third", "train.epochs=1", "model.blocks=HH", start=start).learner()
    three = replace(first, start=start).learner().model.state_dict()
    assert all(torch.equal(three[name], value) for name, value in start.weights.items())
    fewer = first.config.model_for(first.dataset).replace(n_classes=2)
    model = type(first.learner().model)(fewer)
    take_over(model, start)
    inside = [name for name in start.weights if not name.startswith("head.out")]
    assert all(torch.equal(model.state_dict()[name], start.weights[name]) for name in inside)


def test_an_estimate_counts_steps_parameters_and_memory(tmp_path: Path) -> None:
    setup = set_up(parts(), tmp_path, "train.epochs=7")
    cost = estimate(setup)
    assert cost.n_batches == 2 and cost.n_parameters == setup.learner().model.n_parameters
    assert cost.minutes == pytest.approx(cost.seconds_per_step * 2 * 7 / 60)
    assert 2**27 < cost.memory < 2**33


def test_the_written_configuration_is_the_run(tmp_path: Path) -> None:
    setup = set_up(parts(), tmp_path / "run", "train.epochs=1")
    setup.folder.create(setup.config.toml())
    assert read_config(setup.folder.config) == setup.config
