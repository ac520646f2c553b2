"""Start, resume and finish a run: what the command line calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from hodgeformer.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import open_dataset
from hodgeformer.errors import DataError
from hodgeformer.train.config import RunConfig, read_tables
from hodgeformer.train.distributed import Processes
from hodgeformer.train.evaluate import Answer
from hodgeformer.train.inventory import take_inventory, without_bad
from hodgeformer.train.loop import Run
from hodgeformer.train.plan import planned
from hodgeformer.train.progress import Listener, Outcome
from hodgeformer.train.report import Figure, write_report
from hodgeformer.train.run_folder import RunFolder
from hodgeformer.train.setup import Setup
from hodgeformer.train.toml import Table

Painter = Callable[[DataSet, Sequence[Answer]], list[Figure]]
"""Makes pictures of some answers for the report."""

_PICTURED = 6


def start_run(
    source: Path,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    start: Checkpoint | None = None,
    processes: Processes,
    listener: Listener,
) -> Setup:
    """Check data and configuration, plan what is open, and make the run folder."""
    folder = RunFolder(out)
    if processes.is_first:
        folder.check_free()
    setup = plan_run(source, out, overrides=overrides, start=start, processes=processes, listener=listener)
    if processes.is_first:
        folder.create(setup.config.toml())
    return setup


def plan_run(
    source: Path,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    start: Checkpoint | None = None,
    processes: Processes,
    listener: Listener,
) -> Setup:
    """The complete setup of a run, nothing written."""
    tables = read_tables(source, overrides)
    if start is not None:
        tables = _like(start, tables)
    config = RunConfig.parse(tables)
    return _setup(config, tables, RunFolder(out), processes, listener)


def resume_run(out: Path, *, processes: Processes, listener: Listener) -> Setup:
    """The setup of a run that was stopped, from its folder."""
    folder = RunFolder(out)
    folder.check_run()
    return _setup(RunConfig.parse(read_tables(folder.config)), None, folder, processes, listener)


def finish(setup: Setup, run: Run, paint: Painter | None = None) -> Outcome:
    """Score the chosen checkpoint on the test split and write the report."""
    chosen = load_checkpoint(setup.folder.best)
    split = setup.tested
    scores = None
    figures: list[Figure] = []
    if split is not None:
        evaluator = setup.evaluator(split, in_units=True)
        model = chosen.build_model().to(setup.config.train.torch_device())
        scores = evaluator.scores(model)
        if setup.processes.is_first:
            named = {f"{split}_{name}": value for name, value in scores.values.items()}
            save_checkpoint(setup.folder.best, replace(chosen, metrics={**chosen.metrics, **named}))
            if paint is not None:
                figures = paint(setup.dataset, list(islice(evaluator.answers(model), _PICTURED)))
    outcome = Outcome(
        folder=setup.folder.root,
        chosen=setup.folder.best,
        split=split,
        scores=scores,
        epochs=run.position.epoch,
        elapsed=run.position.elapsed,
        waited=run.waited,
    )
    if setup.processes.is_first:
        write_report(setup.folder.report, setup, run.rows, outcome, figures)
    return outcome


def _setup(
    config: RunConfig, tables: Table | None, folder: RunFolder, processes: Processes, listener: Listener
) -> Setup:
    dataset = open_dataset(config.data)
    if "train" not in dataset.splits:
        raise DataError(f"{dataset.name}: there is no split 'train', only {', '.join(dataset.splits)}")
    inventory = take_inventory(dataset, processes, listener.reading)
    dataset = without_bad(dataset, inventory, skip=config.train.skip_bad)
    for reason in inventory.bad.values():
        listener.warned(f"left out: {reason}")
    if inventory.leaks:
        listener.warned(
            f"{len(inventory.leaks)} meshes of other splits have the same shape as a training mesh, so scores will "
            f"flatter: {', '.join(inventory.leaks[:4])}"
        )
    if tables is not None:
        config = planned(tables, dataset, inventory)
    return Setup(config, dataset, inventory, folder, processes)


def _like(start: Checkpoint, tables: Table) -> Table:
    """Settings of the model to start from, where the tables do not say otherwise."""
    shape = start.model.model_dump(mode="json", exclude={"task", "n_classes", "element", "in_features", "backend"})
    return {
        **tables,
        "model": {**shape, **tables.get("model", {})},
        "prepare": {**start.prepare.model_dump(mode="json"), **tables.get("prepare", {})},
    }
