"""Train to the end: plan or resume, learn, save when interrupted, choose, score, report.

from hodgeformer.training.fit import fit

outcome = fit("data", "runs/mine", settings=["train.minutes=10"])
print(outcome.scores.values, outcome.chosen)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

from hodgeformer.base.memory import keep_freed_memory
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import write_folder
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.training.config import Overrides, Source
from hodgeformer.training.distributed import Processes, restarted
from hodgeformer.training.evaluate import calibrated
from hodgeformer.training.listener import Listener, Outcome, tracked
from hodgeformer.training.loop import Run
from hodgeformer.training.report import write_report
from hodgeformer.training.run_folder import RunFolder
from hodgeformer.training.setup import Setup, set_up

_PICTURED = 6


def fit(
    source: Source | DataSet | None,
    out: Path | str,
    *,
    settings: Overrides = (),
    start: Checkpoint | None = None,
    processes: Processes | None = None,
    listener: Listener | None = None,
) -> Outcome:
    """Train a model into a new run folder, or without a source go on with the run that was stopped in `out`.

    `source` is a data-set folder, the name of a data set, a TOML file or its tables, or a data set, which is written
    into the folder too; what it and `settings` leave open is planned from the data. `start` is a model to fine-tune.
    The folder is locked meanwhile. An interrupt (Ctrl-C, a polite kill) saves the run and raises `Stopped`. A run with
    `train.epochs` that was stopped ends with the weights it would have had anyway.
    """
    processes = processes or Processes()
    begun = restarted() and RunFolder(Path(out)).config.is_file()
    if processes.from_first([float(begun)])[0]:
        source, settings = None, ()  # torchrun repeats the command, which goes on with the run that it began
    with RunFolder(Path(out)).owned(new=source is not None) if processes.is_first else nullcontext():
        found = kept(source, Path(out), processes)
        setup = set_up(found, out, settings=settings, start=start, processes=processes, listener=listener, create=True)
        return finish(setup, train(setup, start=start, listener=listener))


def kept(source: Source | DataSet | None, out: Path, processes: Processes) -> Source | None:
    """The source; of a data set in memory the folder in `out` that it is written to, so that a run can go on."""
    if not isinstance(source, DataSet):
        return source
    if processes.is_first:
        write_folder(source, out / "data")
    processes.from_first([0.0])  # the others read what the first has written
    return out / "data"


def train(setup: Setup, *, start: Checkpoint | None = None, listener: Listener | None = None) -> Run:
    """All steps that are left of a run. An interrupt saves its state and raises `Stopped`."""
    keep_freed_memory()
    listener, config = listener or Listener(), setup.config
    # One of several processes keeps the numbers.
    track = config.train.track if setup.processes.is_first else "csv"
    settings = config.model_dump(mode="json")
    with tracked(listener, track, setup.folder.root, settings) as told, _interrupts() as interrupted:
        run = Run(setup, setup.learner(start), listener=told, should_stop=interrupted)
        run.resume()
        run.train()
    return run


def finish(setup: Setup, run: Run) -> Outcome:
    """Calibrate the chosen checkpoint, score it on the test split and write the report."""
    chosen = load_checkpoint(setup.folder.best)
    model = chosen.build_model().to(setup.config.train.torch_device())
    chosen = _calibrated(setup, chosen, model)
    split = setup.tested
    outcome = Outcome(
        folder=setup.folder.root,
        chosen=setup.folder.best,
        split=split,
        scores=None,
        epochs=run.position.epoch,
        elapsed=run.position.elapsed,
        waited=run.waited,
        rows=tuple(run.rows),
    )
    answers = []
    if split is not None:
        evaluator = setup.evaluator(split, in_units=True, temperature=chosen.temperature)
        scores = evaluator.scores(model)
        outcome = replace(outcome, scores=scores)
        named = {f"{split}_{name}": value for name, value in scores.values.items()}
        chosen = chosen.replace(metrics={**chosen.metrics, **named})
        answers = list(islice(evaluator.answers(model), _PICTURED))
    if setup.processes.is_first:
        save_checkpoint(setup.folder.best, chosen)
        write_report(setup.folder.report, setup, run.rows, outcome, answers)
    return outcome


def _calibrated(setup: Setup, chosen: Checkpoint, model: HodgeFormer) -> Checkpoint:
    """With what is fitted to the validation split; the temperature may be set by the configuration."""
    given = setup.config.train.temperature
    if "val" not in setup.dataset.splits:
        return chosen.replace(temperature=given or 1.0)
    answers = setup.evaluator("val", in_units=True).answers(model)
    return calibrated(chosen, answers, temperature=given, processes=setup.processes)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C (or a polite kill) was heard. A second one ends at once."""
    if threading.current_thread() is not threading.main_thread():  # signals are for the main thread alone
        yield lambda: False
        return
    heard: list[int] = []

    def hear(number: int, frame: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(heard)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
