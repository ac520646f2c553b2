"""Cube Engraving: cubes with one of 22 shapes pressed into a side; the splits are those of the distribution."""

from __future__ import annotations

from pathlib import Path

from hodgeformer.data.class_folders import own_splits, read_class_folders
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.splits import by_fractions


def open_cubes(root: Path, *, val_fraction: float = 0.0, seed: int = 0) -> DataSet:
    """`val_fraction` of the training meshes, drawn with the seed from every class, are set aside to validate."""
    classes, samples = read_class_folders(root)
    splits = own_splits(samples, root)
    if val_fraction and "train" in splits:
        splits |= by_fractions(splits["train"], {"train": 1 - val_fraction, "val": val_fraction}, seed)
    return DataSet("Cube Engraving", "classification", "mesh", splits, classes)
