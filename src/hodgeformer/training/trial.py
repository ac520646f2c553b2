"""Before a run: what it will cost, and whether the model can memorize one batch."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import chain, count, islice

from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.base.machine import peak_memory, used_memory
from hodgeformer.nn.memory import activation_memory
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.training.learner import Learner
from hodgeformer.training.setup import Setup

_MOST_STEPS = 300  # to memorize a batch


@dataclass(frozen=True)
class Estimate:
    """The cost of a run, from two measured steps.

    `memory` is the peak memory of this process in bytes: its current memory plus a step on the largest batch.
    """

    n_parameters: int
    n_batches: int
    seconds_per_step: float
    minutes: float
    memory: int


def estimate(setup: Setup) -> Estimate:
    """Measure two steps and extrapolate."""
    learner = setup.learner()
    model, in_use = learner.model, used_memory() or 0
    times, _, n_batches = timed_steps(setup, learner, 2)
    seconds, train = sum(times) / len(times), setup.config.train
    minutes = train.minutes or seconds * n_batches * (train.epochs or 1) / 60
    memory = max(peak_memory() or 0, in_use + _largest_batch(setup, model))
    return Estimate(model.n_parameters, n_batches, seconds, minutes, memory)


def timed_steps(setup: Setup, learner: Learner, number: int) -> tuple[list[float], float, int]:
    """Model seconds of this many steps, the total seconds of waiting for data, and the number of batches per epoch.

    Preparation runs in this process. A first step compiles kernels and does not count.
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
        return seconds, loader.seconds_waited - waited, loader.n_batches


def _largest_batch(setup: Setup, model: HodgeFormer) -> int:
    """Bytes that a step needs for a batch of the largest meshes."""
    prepare = setup.config.prepare
    working = (prepare.working(mesh.n) for mesh in setup.census.training)
    sizes = sorted(working, key=lambda n: -n.f)[: setup.config.train.batch_size]
    n = PerElement.build(lambda kind: sum(size[kind] for size in sizes))
    nnz = PerElement.build(lambda kind: sum(size[kind] * sum(prepare.row_sizes(size)[kind]) for size in sizes))
    return activation_memory(model.config, n, nnz, training=True)


def overfit_one_batch(setup: Setup) -> tuple[float, int]:
    """The accuracy on one batch after training on nothing else, and the steps it took.

    Without dropout, smoothing, class weights and augmentation. If a model cannot even memorize one batch, the labels do
    not match the meshes, or the model is broken.
    """
    if setup.dataset.task == "regression":
        raise ConfigError("--self-test does not support regression")
    config = setup.config
    plain = config.replace(
        train=config.train.replace(label_smoothing=0.0, class_weights=False),
        model={**config.model, "dropout": 0.0},
    )
    setup = replace(setup, config=plain)
    learner = setup.learner()
    with setup.training_loader(workers=0, augmented=False) as loader:
        batch = next(loader.batches())
    rate = plain.train.lr or 1e-3
    accuracy, step = 0.0, 0
    for step in range(_MOST_STEPS):
        learned = learner.learn(batch, rate * min(1.0, (step + 1) / 20))
        accuracy = learned.accuracy or 0.0
        if accuracy > 0.999:
            break
    return accuracy, step + 1
