"""What a configuration leaves open, decided from the data: model, pose, augmentation, batch, length, learning rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hodgeformer.checkpoint import Checkpoint
from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.census import Census
from hodgeformer.data.dataset import DataSet
from hodgeformer.mesh.features import GROUPS
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.settings import Table
from hodgeformer.threads import thread_count
from hodgeformer.train.config import FROM_DATA, RunConfig, TrainConfig

_BATCH_VERTICES = 2400  # eight meshes of 250 vertices, four of 750
_STEPS = 6000
_EPOCHS = (20, 300)
_HEAD_WIDTH = 32
_HURRY = 8.0  # minutes
_QUICK = 20_000  # vertices up to which distances along the surface take 0.2 seconds or less


def like(start: Checkpoint, config: RunConfig) -> RunConfig:
    """The configuration with the settings of the model to start from, where nothing else was said."""
    shape = start.model.model_dump(mode="json", exclude={*FROM_DATA, "backend"})
    prepare = {name: getattr(start.prepare, name) for name in PrepareConfig.model_fields}
    return config.replace(model={**shape, **config.model}, prepare=config.prepare.filled(**prepare))


def planned(config: RunConfig, census: Census) -> RunConfig:
    """The full configuration: what was said, and for the rest what suits the data.

    Parts are learned several times faster in a frame of the shape's own than from all sides. Whole shapes are few, and
    a frame alone would be learned by heart.
    """
    dataset = census.dataset
    vertices = float(np.median([mesh.n.v for mesh in census.training]))
    pose = "frame" if dataset.task == "segmentation" else "file"
    config = config.replace(
        prepare=config.prepare.filled(pose=pose, **_measured(vertices)),
        model=_model(config, dataset),
    )
    config = config.replace(augment=_augment(config))
    return config.replace(train=_train(config, census, vertices))


def learning_rate(d_model: int) -> float:
    """3e-3 at width 64, less for wider models: 1.6e-3 at 96, 3.8e-4 at 256."""
    return float(f"{3e-3 * min(1.0, 64 / d_model) ** 1.5:.2g}")


def _measured(vertices: float) -> Table:
    """What a pose does not change helps every task, where it is cheap to measure."""
    return {"size": "area", "features": GROUPS} if vertices <= _QUICK else {}


def _augment(config: RunConfig) -> AugmentConfig:
    """Around a frame of the shape's own, only small turns are new."""
    return config.augment if config.prepare.pose == "file" else config.augment.filled(rotation="none", tilt=12.0)


def _model(config: RunConfig, dataset: DataSet) -> Table:
    """A small model that two cores train, smaller still for a budget of a few minutes.

    Hidden width and heads follow from the width where they are not given.
    """
    hurry = config.train.minutes is not None and config.train.minutes < _HURRY
    small = hurry or dataset.task != "segmentation"
    table = {**({"blocks": "HHHT", "d_model": 64} if small else {"blocks": "HHTHHT", "d_model": 96}), **config.model}
    width: int = table["d_model"]
    heads = max(1, width // _HEAD_WIDTH) if width % _HEAD_WIDTH == 0 else 1
    return {"d_hidden": 2 * width, "n_heads": heads, **table}


def _train(config: RunConfig, census: Census, vertices: float) -> TrainConfig:
    train, dataset = config.train, census.dataset
    batch_size = train.batch_size or _batch_size(census, vertices)
    changes: dict[str, Any] = {
        "batch_size": batch_size,
        "workers": min(2, thread_count()) if train.workers is None else train.workers,
        "lr": train.lr or learning_rate(config.model_for(dataset).d_model),
        "class_weights": dataset.task == "segmentation" if train.class_weights is None else train.class_weights,
    }
    if train.epochs is None and train.minutes is None:
        n_batches = math.ceil(len(census.training) / batch_size)
        changes["epochs"] = min(max(math.ceil(_STEPS / n_batches), _EPOCHS[0]), _EPOCHS[1])
    return train.replace(**changes)


def _batch_size(census: Census, vertices: float) -> int:
    size = 1 << max(0, round(math.log2(_BATCH_VERTICES / vertices)))
    # Enough steps in an epoch, and at least two meshes where their statistics center the head.
    largest = max(1, len(census.training) // 4)
    return max(2 if census.dataset.kind is None else 1, min(size, 16, largest))
