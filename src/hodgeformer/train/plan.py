"""What a configuration leaves open, decided from the data: model, pose, augmentation, batch, length, learning rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hodgeformer.data.dataset import DataSet
from hodgeformer.mesh.features import GROUPS
from hodgeformer.threads import thread_count
from hodgeformer.train.config import RunConfig
from hodgeformer.train.inventory import Inventory
from hodgeformer.train.toml import Table

_BATCH_VERTICES = 2400  # eight meshes of 250 vertices, four of 750
_STEPS = 6000
_EPOCHS = (20, 300)
_HEAD_WIDTH = 32
_HURRY = 8.0  # minutes
_QUICK = 20_000  # vertices up to which distances along the surface take 0.2 seconds or less


def planned(tables: Table, dataset: DataSet, inventory: Inventory) -> RunConfig:
    """The full configuration: what the tables say, and for the rest what suits the data."""
    vertices = float(np.median([entry.n.v for entry in inventory.entries]))
    suggested = _suggested(tables, dataset, vertices)
    merged = {
        name: {**suggested.get(name, {}), **tables.get(name, {})} for name in dict.fromkeys([*tables, *suggested])
    }
    merged["model"] = _model(merged["model"])
    config = RunConfig.parse(merged)
    train = config.train
    batch_size = train.batch_size or _batch_size(dataset, inventory, vertices)
    workers = min(2, thread_count()) if train.workers is None else train.workers
    changes: dict[str, Any] = {
        "batch_size": batch_size,
        "workers": workers,
        "lr": train.lr or learning_rate(config.model_for(dataset).d_model),
        "class_weights": dataset.task == "segmentation" if train.class_weights is None else train.class_weights,
    }
    if train.epochs is None and train.minutes is None:
        changes["epochs"] = _epochs(len(inventory.entries), batch_size)
    return config.replace(train=train.replace(**changes))


def learning_rate(d_model: int) -> float:
    """3e-3 at width 64, less for wider models: 1.6e-3 at 96, 3.8e-4 at 256."""
    return float(f"{3e-3 * min(1.0, 64 / d_model) ** 1.5:.2g}")


def _suggested(tables: Table, dataset: DataSet, vertices: float) -> dict[str, Table]:
    """A small model that two cores train, smaller still for a budget of a few minutes.

    Parts are learned several times faster in a frame of the shape's own than from all sides. Whole shapes are few, and
    a frame alone would be learned by heart. What a pose does not change helps both, where it is cheap to measure.
    """
    parts = dataset.task == "segmentation"
    hurry = tables.get("train", {}).get("minutes", math.inf) < _HURRY
    pose = tables.get("prepare", {}).get("pose", "frame" if parts else "file")
    return {
        "model": {"blocks": "HHTHHT", "d_model": 96} if parts and not hurry else {"blocks": "HHHT", "d_model": 64},
        "prepare": {"pose": pose, **({"size": "area", "features": list(GROUPS)} if vertices <= _QUICK else {})},
        "augment": {} if pose == "file" else {"rotation": "none", "tilt": 12.0},
    }


def _model(table: Table) -> Table:
    """Hidden width and heads follow from the width where they are not given."""
    width = table["d_model"]
    heads = width // _HEAD_WIDTH if isinstance(width, int) and width % _HEAD_WIDTH == 0 else 1
    return {"d_hidden": 2 * width, "n_heads": max(1, heads), **table} if isinstance(width, int) else table


def _batch_size(dataset: DataSet, inventory: Inventory, vertices: float) -> int:
    size = 1 << max(0, round(math.log2(_BATCH_VERTICES / vertices)))
    # Enough steps in an epoch, and at least two meshes where their statistics center the head.
    largest = max(1, len(inventory.entries) // 4)
    return max(2 if dataset.kind is None else 1, min(size, 16, largest))


def _epochs(n_meshes: int, batch_size: int) -> int:
    n_batches = math.ceil(n_meshes / batch_size)
    return min(max(math.ceil(_STEPS / n_batches), _EPOCHS[0]), _EPOCHS[1])
