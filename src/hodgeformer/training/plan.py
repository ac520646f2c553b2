"""The plan of a run: settings that were not given are chosen from the data and the time, with reasons.

The choices are those that measured better; docs/recipes.md has the figures.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from hodgeformer.base.machine import thread_count
from hodgeformer.base.settings import Faces, Table
from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.census import Census
from hodgeformer.data.measured import scaled
from hodgeformer.kernels.rows import threads_for
from hodgeformer.mesh.features import GROUPS
from hodgeformer.mesh.pose import PoseName, up_axis
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.checkpoint import Checkpoint
from hodgeformer.training.config import FROM_DATA, RunConfig, TrainConfig

_SMALL_FACES = 3000  # meshes up to this size are not simplified
_PART_FACES, _WHOLE_FACES, _MOST_FACES = 2000, 1500, 10_000
_FACES_OF_A_PART = 25
_KEPT = 0.5  # of the share of a class, at the working resolution
_RESOLUTIONS = 1.3
_SYMMETRIC = 0.08  # shapes up to this asymmetry are nearly their own mirror image
_LISTED = 4  # classes

Sizes = tuple[tuple[str, int], ...]
PART_SIZES: Sizes = (("DHDD", 96), ("DHD", 64), ("DHD", 48))
SHAPE_SIZES: Sizes = (("DHDD", 64), ("DHD", 48))
"""Blocks and widths for parts and for whole shapes, chosen by the time available."""
_HEAD_WIDTH = 24  # at least
_NEIGHBORS = 32  # for an H block among D blocks, which see the whole surface
_MINUTES = 12.0  # if no length is given
_ENOUGH_EPOCHS = 20
_STEPS, _EPOCHS = 4000, (20, 150)
_BATCH_VERTICES = 2400  # eight meshes of 250 vertices, four of 750
# CPU seconds per vertex for augmentation and preparation, and per block and channel for learning. A current processor
# needs 0.8e-5 for the bundled recipes, and from 0.5e-7 (D blocks) to 1.4e-7 (H blocks); half that speed is allowed for.
_PREPARING, _LEARNING = 1.2e-5, 1e-7
_QUICK = 20_000  # up to this many vertices, distances along the surface take at most 0.2 seconds
_TUNING = 3  # fine-tuning divides learning rate and epochs by this


def like(start: Checkpoint, config: RunConfig) -> RunConfig:
    """Settings that were not given are those of the model to start from."""
    shape = start.model.model_dump(mode="json", exclude={*FROM_DATA, "backend"})
    prepare = {name: getattr(start.prepare, name) for name in PrepareConfig.model_fields}
    if start.prepare.faces == "original":
        del prepare["faces"]  # planned, because the new meshes may be much finer
    return config.replace(model={**shape, **config.model}, prepare=config.prepare.filled(**prepare))


def planned(config: RunConfig, census: Census, start: Checkpoint | None = None) -> RunConfig:
    """The complete configuration: the given settings, and others that suit the data and the model to start from.

    Parts are learned several times faster in the frame of the principal axes than from random rotations. Averaged over
    the signs of the axes, the answer does not depend on rotation.
    """
    given = {name: getattr(config.prepare, name) for name in config.prepare.model_fields_set}
    faces = given.pop("faces", "auto")
    if faces == "auto":
        faces = working_faces(census, start)
        faces = faces if start is not None else _clear_faces(census, faces)
    vertices = float(np.median([PrepareConfig(faces=faces).working(mesh.n).v for mesh in census.training]))
    model = _model(config, census, vertices)
    # D blocks and normals depend on the winding, which differs between files.
    usual: Table = {"pose": "frame_average", "winding": "outward"}
    if vertices <= _QUICK:  # area and distances along the surface do not depend on the pose; they help every task
        usual |= {"size": "area", "features": GROUPS}
    if {"D", "H"} <= set(model["blocks"]):
        usual["n_neighbors"] = _NEIGHBORS
    prepare = scaled(PrepareConfig(faces=faces, **{**usual, **given}), [mesh.columns for mesh in census.training])
    config = config.replace(prepare=prepare, model=model)
    config = config.replace(augment=_augment(config, census))
    return config.replace(train=_train(config, census, vertices, tuning=start is not None))


def reasons(config: RunConfig, census: Census) -> tuple[str, ...]:
    """What the complete configuration means for these meshes and why, one sentence each."""
    dataset, prepare, train = census.dataset, config.prepare, config.train
    sizes = [mesh.n.f for mesh in census.training]
    low, high = min(sizes), max(sizes)
    shown = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    found = list(dataset.notes)
    if prepare.most_faces is not None and high > prepare.most_faces:
        back = "" if dataset.kind is None else f"; every original {dataset.element} gets an answer"
        found.append(f"meshes of {shown} faces are simplified to {prepare.most_faces:,} for the model{back}")
    model = config.model_for(dataset)
    vertices = float(np.median([prepare.working(mesh.n).v for mesh in census.training]))
    epoch = _epoch_minutes(census, vertices, model.blocks, model.d_model, len(model.updates))
    if train.minutes:
        length = f"{_counted(train.minutes, 'minute')}, about {_counted(round(train.minutes / epoch), 'epoch')}"
    else:
        minutes = max(1, math.ceil(epoch * (train.epochs or 1)))
        length = f"{_counted(train.epochs or 1, 'epoch')}, about {_counted(minutes, 'minute')}"
    found.append(f"model {model.blocks}, width {model.d_model}: {model.description}")
    found.append(f"{length} on {_counted(thread_count(), 'core')}")
    if train.restarts:
        past = " and ".join(f"{at:g}" for at in train.restarts)
        found.append(f"after {past} {train.unit}, the learning rate rises to {train.lr:g} again and falls to zero")
    if prepare.own_columns:
        found.append(f"besides its shape, the model reads these columns of a mesh: {', '.join(prepare.own_columns)}")
    if about := _about_pose(prepare.pose):
        found.append(about)
    if config.augment.mirror:
        found.append("training also uses mirror images")
    if dataset.task == "segmentation" and prepare.most_faces is not None:
        found += _about_thin_classes(census, prepare.most_faces)
    return tuple(found)


def _clear_faces(census: Census, faces: Faces) -> Faces:
    """More faces, where simplification would lose most of a class."""
    while isinstance(faces, int) and faces < _MOST_FACES and _thinned(census, faces):
        faces = min(2 * faces, _MOST_FACES)
    return faces if isinstance(faces, str) or max(mesh.n.f for mesh in census.training) > faces else "original"


def _thinned(census: Census, faces: int) -> list[int]:
    """The classes that have less than half of their share after simplification."""
    if census.dataset.task != "segmentation":
        return []
    before, after = census.shares_at(faces)
    return np.flatnonzero(after < _KEPT * before).tolist()


def _about_thin_classes(census: Census, faces: int) -> list[str]:
    """A warning about classes that simplification nearly removes."""
    thinned, (before, after) = _thinned(census, faces), census.shares_at(faces)
    listed = [f"{census.dataset.classes[i]} ({before[i]:.2%}, simplified {after[i]:.2%})" for i in thinned[:_LISTED]]
    more = f" and {len(thinned) - _LISTED} more" if len(thinned) > _LISTED else ""
    if not listed:
        return []
    return [
        f"classes that nearly vanish at {faces:,} faces, so they may never be predicted: {', '.join(listed)}{more}; "
        "to keep more of them, raise prepare.faces"
    ]


def _about_pose(pose: PoseName) -> str:
    """What the pose means for answers."""
    if pose == "frame_average":
        return "meshes are aligned to their principal axes, so rotation does not change the answer"
    if (up := up_axis(pose)) is None:
        return "answers depend on the pose of the file" if pose == "file" else ""
    return (
        f"the {'xyz'[int(up.argmax())]} axis points up in all files, so meshes are only turned about it: "
        "answers depend on which way is up; for a file that stands differently, use `predict --up`"
    )


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"


def learning_rate(d_model: int) -> float:
    """3e-3 at width 64, less for wider models: 1.6e-3 at 96, 3.8e-4 at 256."""
    return float(f"{3e-3 * min(1.0, 64 / d_model) ** 1.5:.2g}")


def working_faces(census: Census, start: Checkpoint | None = None) -> Faces:
    """The number of faces to simplify to: enough to describe the object and to keep some faces of its smallest part.

    Small meshes keep all their faces. A model to start from keeps the size it was trained on.
    """
    largest = max(mesh.n.f for mesh in census.training)
    if start is not None and start.statistics is not None:
        known = round(start.statistics.n["f"][2])
        return known if largest > known else "original"
    if largest <= _SMALL_FACES:
        return "original"
    if census.dataset.kind is None:
        return _WHOLE_FACES
    parts = np.stack([mesh.shares for mesh in census.training])
    # The median over the meshes that have the part, so that a speck in one mesh does not count.
    usual = [float(np.median(column[column > 0])) for column in parts.T if (column > 0).any()]
    needed = _FACES_OF_A_PART / min(usual, default=1.0)
    faces = min(max(_PART_FACES, 500 * math.ceil(needed / 500)), _MOST_FACES)
    return faces if largest > faces else "original"


def _augment(config: RunConfig, census: Census) -> AugmentConfig:
    """Aligned meshes need only small rotations."""
    table: Table = {} if config.prepare.most_faces is None else {"resolution": _RESOLUTIONS}
    if config.prepare.pose != "file":
        table |= {"rotation": "none", "tilt": 12.0, "mirror": 0.5 if _is_mirrored(census) else 0.0}
    return config.augment.filled(**table)


def _is_mirrored(census: Census) -> bool:
    """Whether mirror images are shapes of the same kind, with the same target: of whole shapes that are symmetric, as
    molecules never are, unless their classes are sides."""
    if census.dataset.kind is not None or any(re.search("left|right", name, re.I) for name in census.dataset.classes):
        return False
    return float(np.quantile([mesh.asymmetry for mesh in census.training], 0.1)) <= _SYMMETRIC


def _model(config: RunConfig, census: Census, vertices: float) -> Table:
    """The largest model that allows enough epochs in the time; classification, with few meshes, needs smaller ones.

    Hidden width and heads follow from the width if they are not given.
    """
    sizes = SHAPE_SIZES if census.dataset.kind is None else PART_SIZES
    if "v" not in config.model.get("updates", "v"):  # which D blocks update
        sizes = tuple((blocks.replace("D", "H"), width) for blocks, width in sizes)
    minutes = config.train.minutes or (_MINUTES if config.train.epochs is None else math.inf)
    fits = (size for size in sizes if minutes / _epoch_minutes(census, vertices, *size) >= _ENOUGH_EPOCHS)
    blocks, d_model = next(fits, sizes[-1])
    table = {"blocks": blocks, "d_model": d_model, **config.model}
    width: int = table["d_model"]
    heads = next(n for n in range(max(1, width // _HEAD_WIDTH), 0, -1) if width % n == 0)
    stars: Table = {}
    if "D" in table["blocks"]:
        stars["star_bound"] = ModelConfig.model_fields["star_bound"].default  # written down: it was 0 once
        if "H" in table["blocks"] and "e" not in table.get("updates", "v"):
            stars["signed_stars"] = True
    return {"d_hidden": 2 * width, "n_heads": heads, **stars, **table}


def _epoch_minutes(census: Census, vertices: float, blocks: str, d_model: int, n_updated: int = 1) -> float:
    """The approximate length of an epoch: one core learns (several for large batches) while the others prepare."""
    widest = 2 * d_model * (3 if "H" in blocks else 1)  # there are three times as many edges as vertices
    learning_cores = threads_for(2 * max(vertices, _BATCH_VERTICES) * widest)
    per_vertex = _LEARNING * len(blocks) * d_model * n_updated / learning_cores
    per_vertex = max(per_vertex, _PREPARING / (cores - 1)) if (cores := thread_count()) > 1 else per_vertex + _PREPARING
    return len(census.training) * vertices * per_vertex / 60


def _train(config: RunConfig, census: Census, vertices: float, *, tuning: bool) -> TrainConfig:
    train, dataset = config.train, census.dataset
    batch_size = train.batch_size or _batch_size(census, vertices)
    slower = _TUNING if tuning else 1
    model = config.model_for(dataset)
    changes: dict[str, Any] = {
        "batch_size": batch_size,
        "workers": min(2, thread_count()) if train.workers is None else train.workers,
        "lr": train.lr or float(f"{learning_rate(model.d_model) / slower:.2g}"),
        "class_weights": train.class_weights or False,
    }
    if train.epochs is None and train.minutes is None:
        n_batches = math.ceil(len(census.training) / batch_size)
        epochs = min(max(math.ceil(_STEPS / n_batches), _EPOCHS[0]), _EPOCHS[1])
        fitting = _MINUTES / _epoch_minutes(census, vertices, model.blocks, model.d_model, len(model.updates))
        changes["epochs"] = max(1, round(min(epochs, fitting) / slower))
    return train.replace(**changes)


def _batch_size(census: Census, vertices: float) -> int:
    size = 1 << max(0, round(math.log2(_BATCH_VERTICES / vertices)))
    # Enough steps in an epoch, and at least two meshes if the head is centered by their statistics.
    largest = max(1, len(census.training) // 4)
    return max(2 if census.dataset.kind is None else 1, min(size, 16, largest))
