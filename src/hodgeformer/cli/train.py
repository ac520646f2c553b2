"""`hodgeformer train`: from a data set or a configuration to a trained model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.cli.results import AllowRemoteOption, DeviceOption, QuietOption, SettingsOption, one_line

if TYPE_CHECKING:
    from hodgeformer.training.distributed import Processes
    from hodgeformer.training.outcome import CrossValidation, Outcome
    from hodgeformer.training.setup import Setup

_LEARNED = 0.99


def train(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="A data-set folder, the name of a data set, or a TOML configuration."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to create; by default runs/NAME.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Continue a stopped run exactly where it was; with --epochs or --minutes, extend a finished one.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Train for this many (more) passes over the training meshes.")
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Train for this many (more) minutes.")] = None,
    settings: SettingsOption = None,
    faces: Annotated[
        str | None,
        typer.Option("--faces", help="Simplify larger meshes to this many faces: auto, a number, or original."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Fine-tune this model: a name, a run folder or a checkpoint.")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            min=2,
            help="Cross-validate: train this many models, each scored on the meshes it was not trained on.",
        ),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip meshes that cannot be used.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, time and memory without training.")
    ] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Test whether the model can memorize one batch.")
    ] = False,
    device: DeviceOption = "auto",
    allow_remote: AllowRemoteOption = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only events as JSON, one object per line.")] = False,
) -> None:
    """Train a model. Settings that you leave out are planned from the data.

    With --json, every event has the key "event": plan, note, reading, resumed, progress, epoch, saved, and at the end
    result, stopped or error.

    To use several processes: torchrun --nproc-per-node 2 -m hodgeformer train ...; with --max-restarts 3, all of them
    continue from the last saved state if one dies.
    """
    from hodgeformer.cli.train_display import print_event
    from hodgeformer.training.distributed import joined
    from hodgeformer.training.loop import Stopped

    if (source is None) == (resume is None):
        raise ConfigError("name the data to train on (a folder, a configuration, a name) or a run to --resume")
    overrides = [*(settings or []), *(["train.skip_bad=true"] if skip_bad else [])]
    overrides += [f"prepare.faces={faces}"] if faces else []
    length = {name: value for name, value in {"epochs": epochs, "minutes": minutes}.items() if value is not None}
    overrides += [f"train.device={device}"] if device != "auto" else []
    overrides += ["data.allow_remote=true"] if allow_remote else []
    if resume is not None and (overrides or start or out or folds):
        raise ConfigError(
            "--resume uses the settings of the run; remove --set, --faces, --from, --out, --folds, --device, "
            "--skip-bad and --allow-remote"
        )
    folder = resume or out or Path("runs") / Path(source or "").stem
    trial = _show_plan if dry_run else _self_test if self_test else None
    with joined() as processes:
        try:
            shown = {"quiet": quiet or not processes.is_first, "as_json": as_json}
            _train(source, folder, overrides, length, start, folds, processes, trial, **shown)
        except HodgeFormerError as error:
            if not processes.is_first:
                raise typer.Exit(2) from None  # the first process reports it
            if as_json:
                print_event("error", message=one_line(error))
            raise
        except Stopped as stopped:
            again = f"hodgeformer train --resume {folder}"
            if processes.is_first:
                print(f"{stopped}; continue with: {again}", file=sys.stderr)
            if processes.is_first and as_json:
                print_event("stopped", message=str(stopped), command=again)
            raise typer.Exit(130) from None


def _train(
    source: Path | None,
    folder: Path,
    overrides: list[str],
    length: dict[str, Any],
    start: str | None,
    folds: int | None,
    processes: Processes,
    trial: Callable[..., None] | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    from hodgeformer.cli.train_display import display
    from hodgeformer.training.outcome import Outcome
    from hodgeformer.training.run import run
    from hodgeformer.training.run import train as begin

    shared: dict[str, Any] = {"start": start, "processes": processes}
    with display(quiet=quiet, as_json=as_json) as listener:
        if trial is None:
            outcome = begin(source, folder, folds=folds, callbacks=[listener], overrides=overrides, **length, **shared)
        else:
            given = [*(f"train.{name}={value}" for name, value in length.items()), *overrides]
            given += [] if folds is None else [f"data.folds={folds}", "data.fold=0"]
            given = [] if source is None else given
            setup = run(source, folder, lambda setup: setup, settings=given, listener=listener, trial=True, **shared)
    if trial is not None:
        trial(setup, as_json=as_json)  # prints after the display is closed
    elif not processes.is_first:
        return
    elif isinstance(outcome, Outcome):
        _show_outcome(outcome, as_json=as_json)
    else:
        _show_folds(outcome, as_json=as_json)


def _show_plan(setup: Setup, *, as_json: bool) -> None:
    from hodgeformer.base.machine import GIGABYTE
    from hodgeformer.cli.train_display import print_event
    from hodgeformer.training.trial import estimate

    cost = estimate(setup)
    if not setup.processes.is_first:
        return
    if as_json:
        for reason in setup.reasons():
            print_event("plan", message=reason)
        print_event("result", config=setup.config.model_dump(mode="json"), estimate=vars(cost))
        return
    print(setup.config.toml())
    for reason in setup.reasons():
        print(f"# {reason}")
    print(f"# {cost.n_parameters:,} parameters, {cost.n_batches} steps per epoch, {cost.seconds_per_step:.2f} s each")
    minutes = max(1, round(cost.minutes))
    print(f"# measured: about {minutes} minute{'s' * (minutes > 1)}, {cost.memory / GIGABYTE:.1f} GB of peak memory")


def _self_test(setup: Setup, *, as_json: bool) -> None:
    from hodgeformer.cli.train_display import print_event
    from hodgeformer.training.trial import overfit_one_batch

    accuracy, steps = overfit_one_batch(setup)
    if setup.processes.is_first and as_json:
        print_event("result", accuracy=accuracy, steps=steps)
    elif setup.processes.is_first:
        print(f"one batch: {100 * accuracy:.1f} % {setup.dataset.element} accuracy after {steps} steps")
    if accuracy < _LEARNED:
        raise HodgeFormerError(
            f"the model could not memorize one batch ({100 * accuracy:.1f} %); check that the labels belong to these "
            "meshes, or try another train.lr"
        )


def _show_outcome(outcome: Outcome, *, as_json: bool) -> None:
    from hodgeformer.cli.evaluate import print_scores
    from hodgeformer.cli.train_display import print_event

    if as_json:
        print_event(
            "result",
            model=str(outcome.chosen),
            report=str(outcome.report),
            epochs=outcome.epochs,
            minutes=outcome.elapsed / 60,
            split=outcome.split,
            scores=None if outcome.scores is None else outcome.scores.to_dict(),
        )
        return
    minutes = outcome.elapsed / 60
    print(f"{outcome.epochs} epochs in {minutes:.1f} minutes, {100 * outcome.waited:.0f} % of it waiting for data")
    if outcome.scores is not None:
        print_scores(outcome.scores, outcome.split or "")
    print(f"model: {outcome.chosen}\nreport: {outcome.report}")


def _show_folds(found: CrossValidation, *, as_json: bool) -> None:
    from hodgeformer.cli.results import print_rows
    from hodgeformer.cli.train_display import print_event

    if as_json:
        models = [str(outcome.chosen) for outcome in found.outcomes]
        print_event("result", model=str(found.folder), models=models, table=found.table)
        return
    print_rows(found.table, f"{len(found.outcomes)} folds, each scored by a model not trained on it", digits=4)
    print(f"table: {found.folder / 'folds.csv'}\nmodel: {found.folder} (all {len(found.outcomes)} models, averaged)")
