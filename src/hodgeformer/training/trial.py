"""Before a run: what it will cost, and whether the model can learn one batch by heart."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import chain, count, islice

from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.base.memory import held_memory, peak_memory
from hodgeformer.nn.config import activation_memory
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.training.learner import Learner
from hodgeformer.training.setup import Setup


@dataclass(frozen=True)
class Estimate:
    """What a run will cost, from two measured steps.

    `memory` are bytes of this process at the peak: what it held before, and what a step on the largest batch adds.
    """

    n_parameters: int
    n_batches: int
    seconds_per_step: float
    minutes: float
    memory: int


def estimate(setup: Setup) -> Estimate:
    """Take two steps and scale up."""
    learner = setup.learner()
    model, held = learner.model, held_memory() or 0
    times, _, n_batches = timed_steps(setup, learner, 2)
    seconds, train = sum(times) / len(times), setup.config.train
    minutes = train.minutes or seconds * n_batches * (train.epochs or 1) / 60
    memory = max(peak_memory() or 0, held + _largest_batch(setup, model))
    return Estimate(model.n_parameters, n_batches, seconds, minutes, memory)


def timed_steps(setup: Setup, learner: Learner, number: int) -> tuple[list[float], float, int]:
    """Seconds in the model of so many steps, seconds all of them waited for data, and the batches of an epoch.

    Preparation runs in this process. A step before compiles kernels and does not count.
    """
    seconds: list[float] = []
    with setup.training_loader(workers=0) as loader:
        batches = chain.from_iterable(loader.batches(epoch) for epoch in count())
        learner.learn(next(batches), 1e-6)
        waited = loader.seconds_waited
        for batch in islice(batches, number):
            began = time.perf_counter()
            learner.learn(batch, 1e-6)
            seconds.append(time.perf_counter() - began)
        return seconds, loader.seconds_waited - waited, loader.n_batches()


def _largest_batch(setup: Setup, model: HodgeFormer) -> int:
    """Bytes that a step needs for the largest meshes together, as many as a batch may hold."""
    train, prepare = setup.config.train, setup.config.prepare
    sizes: list[PerElement[int]] = []
    working = (prepare.working(mesh.n) for mesh in setup.census.training)
    for size in sorted(working, key=lambda n: -n.f)[: train.batch_size]:
        if sizes and train.batch_faces is not None and sum(n.f for n in [*sizes, size]) > train.batch_faces:
            break
        sizes.append(size)
    n = PerElement.build(lambda kind: sum(size[kind] for size in sizes))
    nnz = PerElement.build(lambda kind: sum(size[kind] * sum(prepare.row_sizes(size)[kind]) for size in sizes))
    return activation_memory(model.config, n, nnz, training=True)


def overfit_one_batch(setup: Setup, *, max_steps: int = 300) -> tuple[float, int]:
    """The accuracy on one batch after training on nothing else, and the steps it took.

    Without dropout, smoothing, class weights and augmentation.

    A model that cannot even learn one batch by heart has labels that do not fit its meshes, or is broken.
    """
    if setup.dataset.task == "regression":
        raise ConfigError("--self-test counts right answers, which a regression has none of")
    config = setup.config
    plain = config.replace(
        train=config.train.replace(label_smoothing=0.0, class_weights=False, ema=None),
        model={**config.model, "dropout": 0.0},
    )
    setup = replace(setup, config=plain)
    learner = setup.learner()
    with setup.training_loader(workers=0, augmented=False) as loader:
        batch = next(loader.batches())
    rate = plain.train.lr or 1e-3
    accuracy, step = 0.0, 0
    for step in range(max_steps):
        learned = learner.learn(batch, rate * min(1.0, (step + 1) / 20))
        accuracy = learned.accuracy or 0.0
        if accuracy > 0.999:
            break
    return accuracy, step + 1
