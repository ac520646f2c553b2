"""Before a run: what it will cost, and whether the model can learn one batch by heart."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice

from hodgeformer.memory import peak_memory
from hodgeformer.train.setup import Setup


@dataclass(frozen=True)
class Estimate:
    """What a run will cost, from two measured steps."""

    n_parameters: int
    n_batches: int
    seconds_per_step: float
    minutes: float
    peak_memory: int | None


def estimate(setup: Setup) -> Estimate:
    """Take two steps on the first batches and scale up."""
    learner = setup.learner()
    times = []
    with setup.training_loader(workers=0) as loader:
        n_batches = loader.n_batches()
        for loaded in islice(loader.batches(), 3):
            began = time.perf_counter()
            learner.learn(loaded.batch, 1e-6)
            times.append(time.perf_counter() - began)
    # The first step also compiles kernels.
    seconds = sum(times[1:]) / len(times[1:]) if len(times) > 1 else times[0]
    train = setup.config.train
    minutes = train.minutes or seconds * n_batches * (train.epochs or 1) / 60
    return Estimate(learner.model.n_parameters, n_batches, seconds, minutes, peak_memory())


def overfit_one_batch(setup: Setup, *, max_steps: int = 300) -> tuple[float, int]:
    """The accuracy on one batch after training on nothing else, and the steps it took.

    Without dropout, smoothing, class weights and augmentation.

    A model that cannot even learn one batch by heart has labels that do not fit its meshes, or is broken.
    """
    config = setup.config
    plain = config.replace(
        train=config.train.replace(label_smoothing=0.0, class_weights=False, ema=None),
        model={**config.model, "dropout": 0.0},
        augment=config.augment.replace(rotation="none", tilt=0.0, slide=0.0, scale=0.0, mirror=0.0, noise=0.0),
    )
    setup = Setup(plain, setup.dataset, setup.inventory, setup.folder, setup.processes)
    learner = setup.learner()
    with setup.training_loader(workers=0) as loader:
        batch = next(iter(loader.batches())).batch
    rate = plain.train.lr or 1e-3
    accuracy, step = 0.0, 0
    for step in range(max_steps):
        learned = learner.learn(batch, rate * min(1.0, (step + 1) / 20))
        accuracy = learned.hits / max(learned.rows, 1.0)
        if accuracy > 0.999:
            break
    return accuracy, step + 1
