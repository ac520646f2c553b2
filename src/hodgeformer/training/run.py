"""Training from start to end: plan or resume, learn, save when interrupted, choose, score, report.

Everything that trains uses `run`; its argument `act` is what is done with a run that is set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, overload

import tomli_w

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.settings import Faces, Table, read_toml
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import write_folder
from hodgeformer.data.memory import Pairs
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.predict.predictor import ModelLike, Predictor
from hodgeformer.predict.pretrained import FOLD
from hodgeformer.training.calibration import calibrated, rehearsed
from hodgeformer.training.config import (
    Overrides,
    RunConfig,
    Source,
    TrainConfig,
    by_name,
    given_tables,
    read_config,
    with_overrides,
)
from hodgeformer.training.distributed import Processes, restarted
from hodgeformer.training.listener import Callback, Listener, Listeners
from hodgeformer.training.loop import Run, learn
from hodgeformer.training.outcome import CrossValidation, Outcome
from hodgeformer.training.pose_choice import with_pose
from hodgeformer.training.report import write_report
from hodgeformer.training.run_folder import RunFolder, write_csv
from hodgeformer.training.setup import Setup, set_up
from hodgeformer.training.state import load_position

Data = Source | DataConfig | DataSet | Pairs
"""A data-set folder, the name of a data set, a TOML file or its tables, a data set, or pairs (mesh, labels)."""

T = TypeVar("T")
_PICTURED = 6
_START = "start.safetensors"


@overload
def train(
    data: Data | None,
    out: str | os.PathLike[str],
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    faces: Faces | str | None = None,
    start: ModelLike | None = None,
    classes: Sequence[str] = (),
    folds: None = None,
    callbacks: Sequence[Callback] | None = None,
    processes: Processes | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Outcome: ...
@overload
def train(data: Data, out: str | os.PathLike[str], *, folds: int, **settings: Any) -> CrossValidation: ...
@overload
def train(
    data: Data | None, out: str | os.PathLike[str], *, folds: int | None, **settings: Any
) -> Outcome | CrossValidation: ...
def train(
    data: Data | None,
    out: str | os.PathLike[str],
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    faces: Faces | str | None = None,
    start: ModelLike | None = None,
    classes: Sequence[str] = (),
    folds: int | None = None,
    callbacks: Sequence[Callback] | None = None,
    processes: Processes | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Outcome | CrossValidation:
    """Train a model into the new folder `out`; without `data` continue the run that was stopped there, or extend the
    finished one by `epochs` or `minutes`.

    `data` is a data-set folder, a name, a TOML file or its tables, a data set, or pairs (mesh, labels). Settings that
    are not given are planned from it. `minutes` or `epochs` is the length of training, for each fold; `start` is a
    model to fine-tune; `classes` are the names of the labels of pairs, in order; `folds` requests a cross-validation.
    `callbacks` are functions that are called with the row of each evaluated epoch, or listeners
    (`hodgeformer.training.listener`), which are called for every step; by default `hf.train` shows the progress, with
    callbacks=[] nothing. `settings` are those of a configuration, by name (lr=3e-4) or in tables (train={"lr": 3e-4},
    model={"blocks": "DD"}), `overrides` the same as on the command line ("data.val_fraction=0.1"). Ctrl-C saves the run
    and raises `Stopped`, a KeyboardInterrupt.
    """
    given = {"minutes": minutes, "epochs": epochs, "faces": faces}
    tables = by_name(settings | {name: value for name, value in given.items() if value is not None})
    tables = with_overrides(tables, overrides)
    folder, listener = Path(out), Listeners(callbacks or ())
    if data is None:
        extension = {"train": {name: value for name, value in given.items() if name != "faces" and value is not None}}
        if tables not in ({}, extension) or classes or start is not None or folds is not None:
            raise ConfigError(
                f"without data, the run in {folder} continues with its own settings; remove all but epochs or minutes, "
                "which extend a finished run"
            )
    if data is not None and classes:
        data = _source(data, classes)
    if folds is not None or (data is None and _is_cross_validation(folder)):
        return _cross_validate(data, folder, folds, tables, start, processes or Processes(), listener)
    return run(data, folder, trained, settings=tables, start=start, processes=processes, listener=listener)


def run(
    data: Data | None,
    out: Path,
    act: Callable[[Setup], T],
    *,
    settings: Overrides = (),
    start: ModelLike | None = None,
    processes: Processes | None = None,
    listener: Listener | None = None,
    trial: bool = False,
) -> T:
    """Set up a new run in `out`, or without data the one that was stopped there, and call `act` with it.

    The folder is locked meanwhile. A data set in memory is written to it; a `trial` writes nothing else.
    """
    processes, listener = processes or Processes(), listener or Listener()
    base = None if start is None else Predictor.load(start, "cpu").checkpoint
    with _locked(data, out, processes, trial=trial) as source:
        if data is None and settings and processes.is_first and not restarted():
            _extend(RunFolder(out), given_tables({}, settings)["train"])
        processes.from_first([0.0])
        settings = () if source is None else settings
        setup = set_up(source, out, settings, start=base, processes=processes, listener=listener)
        if not trial:
            setup = with_pose(setup)
            setup.begin(new=source is not None)
        return act(setup)


def trained(setup: Setup) -> Outcome:
    """The act of most runs: train to the end, score and report."""
    return finish(setup, learn(setup))


def finish(setup: Setup, steps: Run) -> Outcome:
    """Calibrate the chosen checkpoint, score it on the test split and write the report."""
    chosen = load_checkpoint(setup.folder.best)
    model = chosen.build_model().to(setup.config.train.torch_device())
    chosen = with_calibration(setup, chosen, model)
    outcome = Outcome(
        folder=setup.folder.root,
        chosen=setup.folder.best,
        split=setup.tested,
        scores=None,
        epochs=steps.position.epoch,
        elapsed=steps.position.elapsed,
        waited=steps.waited,
        rows=tuple(steps.rows),
    )
    answers = []
    if (split := setup.tested) is not None:
        evaluator = setup.evaluator(split, temperature=chosen.temperature, smooth=chosen.smooth)
        scores = evaluator.scores(model).without_copies(setup.census.learned)
        outcome = replace(outcome, scores=scores)
        named = {f"{split}_{name}": value for name, value in scores.values.items()}
        chosen = chosen.replace(metrics={**chosen.metrics, **named})
        answers = list(islice(evaluator.answers(model), _PICTURED))
    if setup.processes.is_first:
        save_checkpoint(setup.folder.best, chosen)
        write_report(setup.folder.report, setup, steps.rows, outcome, answers)
    return outcome


def with_calibration(setup: Setup, chosen: Checkpoint, model: HodgeFormer) -> Checkpoint:
    """With what is fitted to meshes that were not trained on, if there are any."""
    if setup.is_rehearsed:
        return rehearsed(setup, chosen, model)
    if "val" not in setup.dataset.splits:
        return chosen
    return calibrated(chosen, setup.evaluator("val").answers(model), processes=setup.processes)


def _source(data: Data, classes: Sequence[str] = ()) -> Source | DataSet:
    if isinstance(data, DataConfig):
        return {"data": {name: getattr(data, name) for name in data.model_fields_set}}
    is_tables = isinstance(data, Mapping) and all(isinstance(table, Mapping) for table in data.values())
    if isinstance(data, str | Path | DataSet) or is_tables:
        if classes:
            raise ConfigError("'classes' is only for pairs of meshes and labels; other data has its own")
        return data  # type: ignore[return-value]
    if not isinstance(data, Iterable):
        raise ConfigError(f"cannot train on a {type(data).__name__}; pass a folder, a name, or pairs (mesh, labels)")
    return open_dataset(data, classes=classes)  # type: ignore[arg-type]


@contextmanager
def _locked(data: Data | None, out: Path, processes: Processes, *, trial: bool = False) -> Iterator[Source | None]:
    """The source of a new run while its folder is locked, None for a run that continues.

    A data set in memory is written to a folder in `out`, so that the run can be resumed. A trial locks nothing.
    """
    folder, source = RunFolder(out), None if data is None else _source(data)
    # torchrun repeats the command when it restarts processes: the run that it began then continues.
    if processes.from_first([float(restarted() and folder.config.is_file())])[0]:
        source = None
    with folder.owned(new=source is not None) if processes.is_first and not trial else nullcontext():
        if isinstance(source, DataSet):
            if processes.is_first:
                write_folder(source, out / "data")
            processes.from_first([0.0])  # wait until the first process has written it
            source = out / "data"
        yield source


def _extend(folder: RunFolder, more: Table) -> None:
    """Let a finished run continue for as many more epochs or minutes. Its model is kept beside the new one."""
    TrainConfig.parse(more)  # refuses lengths below zero
    config, at = read_config(folder.config), load_position(folder.state)
    train = config.train
    if not at.finished or at.epoch < (train.epochs or 0):
        raise ConfigError(f"only a finished run can be extended; first: hodgeformer train --resume {folder.root}")
    if train.unit not in more:
        raise ConfigError(f"the length of the run in {folder.root} is in {train.unit}; extend it by {train.unit}")
    shutil.copyfile(folder.best, folder.root / f"best-{at.epoch}.safetensors")
    done = float(train.epochs or max(train.minutes or 0.0, at.elapsed / 60))
    train = train.replace(**{train.unit: done + more[train.unit], "restarts": (*train.restarts, done)})
    folder.rewrite(config.replace(train=train).toml())


def _cross_validate(
    data: Data | None,
    out: Path,
    n_folds: int | None,
    settings: Mapping[str, Table],
    start: ModelLike | None,
    processes: Processes,
    listener: Listener,
) -> CrossValidation:
    """One run per fold, each scored on meshes of sources that it was not trained on.

    The folder contains config.toml with the settings of all runs, the runs fold-1, fold-2, ..., and finally folds.csv.
    It can be stopped at any moment and continues with the current run. As a model, the folder is an ensemble.
    """
    base = None if start is None else Predictor.load(start, "cpu").checkpoint
    if data is None and settings:
        raise ConfigError(f"extend the folds of {out} one by one: hodgeformer train --resume {out / FOLD}1 --epochs N")
    with _locked(data, out, processes) as source:
        if source is None:
            tables = read_toml(RunFolder(out).config)
            base = load_checkpoint(out / _START) if (out / _START).is_file() else None
        else:
            tables = given_tables(source, with_overrides(settings, {"data": {"folds": n_folds}}))
            open_dataset(RunConfig.parse(_of_fold(tables, 0)).data)  # fails if the data cannot be divided
            if processes.is_first:
                _create(RunFolder(out), tables, base)
        outcomes = []
        for number in range(n := int(tables["data"]["folds"])):
            if processes.is_first:
                listener.planned(f"fold {number + 1} of {n}")
            part = out / f"{FOLD}{number + 1}"
            this = None if RunFolder(part).config.is_file() else _of_fold(tables, number)
            outcomes.append(run(this, part, trained, start=base, processes=processes, listener=listener))
        done = CrossValidation(out, tuple(outcomes))
        if processes.is_first:
            write_csv(out / "folds.csv", done.table)
    return done


def _is_cross_validation(folder: Path) -> bool:
    config = RunFolder(folder).config
    data = read_toml(config).get("data", {}) if config.is_file() else {}
    return isinstance(data, dict) and "folds" in data and "fold" not in data


def _of_fold(tables: Table, number: int) -> Table:
    return {**tables, "data": {**tables["data"], "fold": number}}


def _create(folder: RunFolder, tables: Table, start: Checkpoint | None) -> None:
    if start is not None:
        save_checkpoint(folder.root / _START, start)
    data = {key: str(value) if isinstance(value, Path) else value for key, value in tables["data"].items()}
    try:
        text = tomli_w.dumps({**tables, "data": data})
    except TypeError as error:
        raise ConfigError(f"these settings cannot be saved for the other folds ({error})") from None
    folder.create(text)
