"""`hodgeformer train`: from a data set or a configuration to a trained model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.cli.results import DATA_HELP, AllowRemoteOption, DeviceOption, QuietOption, SettingsOption, one_line

if TYPE_CHECKING:
    from hodgeformer.training.outcome import CrossValidation, Outcome
    from hodgeformer.training.setup import Setup

_LEARNED = 0.99
_RESUME = "Continue a stopped run exactly where it was; with --epochs or --minutes, extend a finished one."
_EPOCHS = "Train for this many (more) passes over the training meshes."
_FACES = "Simplify meshes with more faces to this number: auto, a number, or original."
_FROM = "Fine-tune this model: a name, a run folder or a checkpoint."
_FOLDS = "Cross-validate: train this many models, each scored on the meshes it was not trained on."
_DRY_RUN = "Show the plan, time and memory without training."


def train(
    source: Annotated[Path | None, typer.Argument(metavar="DATA", help=DATA_HELP)] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to create; by default runs/NAME.")] = None,
    resume: Annotated[Path | None, typer.Option(help=_RESUME)] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help=_EPOCHS)] = None,
    minutes: Annotated[float | None, typer.Option(help="Train for this many (more) minutes.")] = None,
    settings: SettingsOption = None,
    faces: Annotated[str | None, typer.Option(help=_FACES)] = None,
    start: Annotated[str | None, typer.Option("--from", help=_FROM)] = None,
    folds: Annotated[int | None, typer.Option(min=2, help=_FOLDS)] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip meshes that cannot be used.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_DRY_RUN)] = False,
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
    from hodgeformer.cli.train_display import display, print_event
    from hodgeformer.training.distributed import joined
    from hodgeformer.training.loop import Stopped
    from hodgeformer.training.run import run
    from hodgeformer.training.run import train as begin

    if (source is None) == (resume is None):
        raise ConfigError("name the data to train on (a folder, a configuration, a name) or a run to --resume")
    named = {"prepare.faces": faces, "train.device": device if device != "auto" else None}
    flags = {"train.skip_bad": skip_bad, "data.allow_remote": allow_remote}
    overrides = [*(settings or []), *(f"{name}={value}" for name, value in named.items() if value)]
    overrides += [f"{name}=true" for name, chosen in flags.items() if chosen]
    if resume is not None and (overrides or start or out or folds):
        raise ConfigError(
            "--resume uses the settings of the run; remove --set, --faces, --from, --out, --folds, --device, "
            "--skip-bad and --allow-remote"
        )
    length = {name: value for name, value in {"epochs": epochs, "minutes": minutes}.items() if value is not None}
    folder = resume or out or Path("runs") / Path(source or "").stem
    with joined() as processes:
        shared: dict[str, Any] = {"start": start, "processes": processes}
        try:
            with display(quiet=quiet or not processes.is_first, as_json=as_json) as listener:
                if not (dry_run or self_test):
                    given: dict[str, Any] = {"folds": folds, "overrides": overrides, **length, **shared}
                    outcome = begin(source, folder, callbacks=[listener], **given)
                else:
                    overrides = [*(f"train.{name}={value}" for name, value in length.items()), *overrides]
                    overrides += [f"data.folds={folds}", "data.fold=0"] if folds else []
                    shared |= {"settings": overrides if source else [], "listener": listener, "trial": True}
                    setup = run(source, folder, lambda setup: setup, **shared)
            if dry_run:
                _show_plan(setup, as_json=as_json)
            elif self_test:
                _self_test(setup, as_json=as_json)
            elif processes.is_first:
                _show(outcome, as_json=as_json)
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


def _show(found: Outcome | CrossValidation, *, as_json: bool) -> None:
    from hodgeformer.cli.evaluate import print_scores
    from hodgeformer.cli.results import print_rows
    from hodgeformer.cli.train_display import print_event
    from hodgeformer.training.outcome import Outcome

    if not isinstance(found, Outcome):
        n = len(found.outcomes)
        if as_json:
            models = [str(outcome.chosen) for outcome in found.outcomes]
            print_event("result", model=str(found.folder), models=models, table=found.table)
            return
        print_rows(found.table, f"{n} folds, each scored by a model not trained on it", digits=4)
        print(f"table: {found.folder / 'folds.csv'}\nmodel: {found.folder} (all {n} models, averaged)")
        return
    minutes = found.elapsed / 60
    if as_json:
        scores = None if found.scores is None else found.scores.to_dict()
        files = {"model": str(found.chosen), "report": str(found.report)}
        print_event("result", **files, epochs=found.epochs, minutes=minutes, split=found.split, scores=scores)
        return
    print(f"{found.epochs} epochs in {minutes:.1f} minutes, {100 * found.waited:.0f} % of it waiting for data")
    if found.scores is not None:
        print_scores(found.scores, found.split or "")
    print(f"model: {found.chosen}\nreport: {found.report}")
