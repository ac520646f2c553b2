"""The run: epochs of steps, evaluation, checkpoints, and a state from which a stopped run continues bit for bit.

With `train.epochs` a run is a function of its configuration: killed at any moment and resumed, or extended, it ends
with the same weights. With `train.minutes` the learning rate follows the clock, so no two runs are equal; a resumed one
continues with the time that was left when its state was saved.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from hodgeformer.base.machine import keep_freed_memory
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch
from hodgeformer.training.learner import DivergedError, Learner
from hodgeformer.training.listener import Listener, Row, Standing
from hodgeformer.training.metrics import Scores
from hodgeformer.training.run_folder import write_csv
from hodgeformer.training.setup import Setup
from hodgeformer.training.state import Position, load_state, save_state

_FIRST_RATE = 0.01  # of the peak
_EVALUATIONS = 20  # per run, unless train.eval_every is set
_USUAL_RATE = 1e-3
_CENTERING_MESHES = 256
_CENTERING_FACES = 200_000


class Stopped(KeyboardInterrupt):
    """The run was interrupted; its state is saved."""


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up from a hundredth of the peak, then cosine to zero; the same again from every restart.

    `length` and `restarts` are in epochs, or in minutes if `timed`. The rate is that before a step, so with a warm-up
    from zero the first step would have no effect.
    """

    peak: float
    warmup: float
    length: float
    timed: bool = False
    restarts: tuple[float, ...] = ()

    def rate(self, done: float) -> float:
        """The learning rate after this many epochs or minutes."""
        start = max((at for at in self.restarts if at <= done), default=0.0)
        end = min((at for at in self.restarts if at > done), default=self.length)
        progress = min((done - start) / (end - start), 1.0)
        if progress < self.warmup:
            return self.peak * (_FIRST_RATE + (1.0 - _FIRST_RATE) * progress / self.warmup)
        rest = (progress - self.warmup) / (1.0 - self.warmup)
        return self.peak * 0.5 * (1.0 + math.cos(math.pi * rest))

    def done(self, *, epoch: int, batch: int, n_batches: int, elapsed: float) -> float:
        """Epochs or minutes of training before the given batch of the given epoch, after `elapsed` seconds."""
        return elapsed / 60.0 if self.timed else epoch + batch / n_batches


class Run:
    """Training from a setup to the end. `should_stop` is called after every step; `clock` counts seconds."""

    def __init__(
        self,
        setup: Setup,
        learner: Learner,
        *,
        listener: Listener,
        should_stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._setup, self._learner, self._listener = setup, learner, listener
        self._should_stop, self._clock = should_stop, clock
        train = setup.config.train
        assert train.lr is not None and train.length is not None
        self._schedule = Schedule(train.lr, train.warmup, train.length, train.epochs is None, train.restarts)
        self._loader = setup.training_loader()
        self._evaluator = setup.evaluator(setup.monitored) if setup.monitored else None
        self.position = Position()
        self.rows: list[Row] = []
        self._began = self._saved = self._started = clock()
        self._cpu_began = time.process_time()
        self._centering: list[Batch] | None = None if setup.dataset.kind is None else []

    @property
    def elapsed(self) -> float:
        """Seconds of training, including those before the run was resumed."""
        return self.position.elapsed + self._clock() - self._began

    @property
    def waited(self) -> float:
        """The share of the time, since the start or resumption, that was spent waiting for data."""
        return self._loader.seconds_waited / max(self._clock() - self._started, 1e-9)

    def resume(self) -> None:
        """Continue from the saved state; a new run saves its first state, so that a restart has the same weights."""
        setup, folder = self._setup, self._setup.folder
        began = bool(setup.processes.from_first([float(folder.state.exists())])[0])
        if began:
            found = setup.census.fingerprint
            self.position = load_state(folder.state, self._learner, processes=setup.processes, data=found)
            share = self._done(self._loader.n_batches, self.position.elapsed) / self._schedule.length
            if self.position.finished and share < 1.0:  # it was extended
                self.position = replace(self.position, finished=False, evaluated=share)
        else:
            self._save()
        rows, damaged = folder.rows()
        if damaged:
            self._listener.warned(f"{folder.metrics}: damaged rows were removed ({damaged})")
        # Rows that were written after the state was saved will be written again.
        self.rows = [row for row in rows if int(row["epoch"]) <= self.position.epoch]
        if began and self.position.finished and folder.report.is_file():
            self._listener.warned(
                f"the run is finished; to train it further: hodgeformer train --resume {folder.root} "
                f"--{setup.config.train.unit} 10"
            )
        elif began and not self.position.finished:
            self._listener.resumed(self.position.epoch, self.position.batch)

    def train(self) -> None:
        """Train to the end of the schedule."""
        self._began = self._started = self._clock()
        with self._loader:
            try:
                while not self.position.finished:
                    self._epoch()
            except DivergedError as error:
                raise DivergedError(f"{error}; {self._advice()}") from None

    def _advice(self) -> str:
        """What remains of a run that diverged, and what to try."""
        train, folder = self._setup.config.train, self._setup.folder
        kept = (
            f"the weights of its last evaluation are in {folder.last}" if folder.last.is_file() else "nothing was saved"
        )
        rate = min((train.lr or _USUAL_RATE) / 10, _USUAL_RATE)
        return (
            f"the run stopped in epoch {self.position.epoch + 1}, {kept}. It would diverge again if resumed; start a "
            f"new run with --set train.lr={rate:.2g} --set train.clip=1.0 --set train.warmup=0.05"
        )

    def _epoch(self) -> None:
        epoch = self.position.epoch
        n_batches = self._loader.n_batches
        for batch in self._loader.batches(epoch, self.position.batch):
            elapsed, stop, due = self._common()
            done = self._done(n_batches, elapsed)
            if stop or due:
                self._save()
            if stop:
                raise Stopped(f"stopped in epoch {epoch + 1}")
            if done >= self._schedule.length and self.position.step > 0:
                break
            self._step(batch, done)
        self._learner.check_weights()
        self._end_epoch(self._done(n_batches, self._common()[0]) / self._schedule.length)

    def _step(self, batch: Batch, done: float) -> None:
        rate = self._schedule.rate(done)
        before = self.position
        learned = before.learned + self._learner.learn(batch, rate)
        at = self.position = replace(before, batch=before.batch + 1, step=before.step + 1, learned=learned)
        self._listener.stepped(
            Standing(
                step=at.step,
                epoch=at.epoch,
                epochs=self._setup.config.train.epochs,
                share=done / self._schedule.length,
                elapsed=self.elapsed,
                loss=learned.mean_loss,
                accuracy=learned.accuracy,
                rate=rate,
            )
        )

    def _end_epoch(self, share: float) -> None:
        """Evaluate if it is time, write metrics and checkpoints, save the state of the next epoch."""
        last = share >= 1.0
        if self.position.batch or not self.rows:
            row = self._row()
        else:  # the time was over before its first step: complete the epoch before it
            row = dict(self.rows.pop())
            self.position = replace(self.position, epoch=self.position.epoch - 1)
        if last or self._is_time_to_evaluate(share):
            self.position = replace(self.position, evaluated=share)
            ready = self._learner.ready(self._centering_batches())
            scores = None if self._evaluator is None else self._evaluator.scores(ready)
            if scores is not None:
                row |= {f"{self._setup.monitored}_{name}": value for name, value in scores.values.items()}
            self._keep(ready, scores)
            self._listener.evaluated(row)
        self.rows.append(row)
        self.position = replace(self.position.next_epoch(), finished=last)
        if self._setup.processes.is_first:
            # Again from the start: a resumed run drops its last rows.
            write_csv(self._setup.folder.metrics, self.rows)
        self._save()

    def _keep(self, ready: HodgeFormer, scores: Scores | None) -> None:
        """Write the checkpoints. The best is chosen by the validation split only; without one, it is the last."""
        setup, at = self._setup, self.position
        choosing = setup.monitored == "val" and scores is not None
        better = not choosing or at.best is None or (scores is not None and scores.main > at.best)
        if better:
            self.position = replace(at, best=scores.main if scores else None, best_epoch=at.epoch)
        if setup.processes.is_first:
            for path in (setup.folder.last, *([setup.folder.best] if better else [])):
                setup.save(path, ready, scores, split=setup.monitored)
                self._listener.saved(path)

    def _row(self) -> dict[str, float | int | str]:
        at = self.position
        row: dict[str, float | int | str] = {
            "epoch": at.epoch + 1,
            "step": at.step,
            "minutes": round(self.elapsed / 60, 4),
            "train_loss": at.learned.mean_loss,
        }
        if at.learned.accuracy is not None:
            row[f"train_{self._setup.dataset.element}_accuracy"] = at.learned.accuracy
        return row

    def _is_time_to_evaluate(self, share: float) -> bool:
        every = self._setup.config.train.eval_every
        if every is not None:
            return (self.position.epoch + 1) % every == 0
        return int(share * _EVALUATIONS) > int(self.position.evaluated * _EVALUATIONS)

    def _centering_batches(self) -> list[Batch]:
        """A fixed set of training batches, enough for stable statistics."""
        if self._centering is None:
            faces = [self._setup.config.prepare.working(mesh.n).f for mesh in self._setup.census.training]
            n_meshes = min(_CENTERING_MESHES, _CENTERING_FACES * len(faces) // sum(faces))
            n_batches = max(1, n_meshes // (self._setup.config.train.batch_size or 1))
            with self._setup.training_loader(workers=0) as loader:
                self._centering = list(islice(loader.batches(), n_batches))
        return self._centering

    def _done(self, n_batches: int, elapsed: float) -> float:
        at = self.position
        return self._schedule.done(epoch=at.epoch, batch=at.batch, n_batches=n_batches, elapsed=elapsed)

    def _common(self) -> tuple[float, bool, bool]:
        """Elapsed seconds, whether to stop and whether to save the state, the same in all processes."""
        late = self._clock() - self._saved > 60.0 * self._setup.config.train.save_every
        mine = [self.elapsed, float(self._should_stop()), float(late)]
        elapsed, stop, due = self._setup.processes.from_first(mine)
        return elapsed, bool(stop), bool(due)

    def _save(self) -> None:
        self._learner.check_weights()  # never overwrite a good state with a diverged one
        cpu, now = self.position.cpu - self._cpu_began, time.process_time()
        self.position = replace(self.position, elapsed=self.elapsed, cpu=cpu + now)
        self._began, self._cpu_began = self._clock(), now
        self._saved = self._began
        setup = self._setup
        save_state(
            setup.folder.state, self.position, self._learner, processes=setup.processes, data=setup.census.fingerprint
        )


def learn(setup: Setup) -> Run:
    """All remaining steps of a run. An interrupt (Ctrl-C, SIGTERM) saves its state and raises `Stopped`.

    A run with `train.epochs` that was stopped and resumed ends with the same weights as without the stop.
    """
    keep_freed_memory()
    with interrupts() as interrupted:
        steps = Run(setup, setup.learner(), listener=setup.listener, should_stop=interrupted)
        steps.resume()
        steps.train()
    return steps


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM was received. A second one ends the process immediately."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield lambda: False
        return
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
