"""SHREC11: 30 classes of 20 shapes. Split-10 trains on 10 of each class and tests on the rest."""

from __future__ import annotations

from pathlib import Path

from hodgeformer.data.class_folders import own_splits, read_class_folders
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.splits import by_number


def open_shrec11(root: Path, *, train_per_class: int | None = 10, val_per_class: int = 0, seed: int = 0) -> DataSet:
    """Split-n: n meshes of each class, drawn with the seed, train, val_per_class validate and the rest tests.

    The folders train and test of the distribution are merged first; with train_per_class = None they are the splits.
    """
    classes, samples = read_class_folders(root)
    if train_per_class is None:
        splits = own_splits(samples, root)
    else:
        numbers = {"train": train_per_class} | ({"val": val_per_class} if val_per_class else {})
        splits = by_number(samples, numbers, rest="test", seed=seed)
    return DataSet("SHREC11", "classification", "mesh", splits, classes)
