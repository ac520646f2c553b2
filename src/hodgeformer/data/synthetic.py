"""Labelled data sets made on the spot, for a first run that depends on nobody. The same arguments, the same data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.figures import PARTS, figure
from hodgeformer.data.glyphs import GLYPHS, engraved_cube
from hodgeformer.data.labels import Values, WholeMesh
from hodgeformer.errors import DataError


def synthetic_figures(
    *,
    n_train: int = 48,
    n_val: int = 0,
    n_test: int = 16,
    n_faces: int | tuple[int, int] = (900, 1300),
    seed: int = 0,
) -> DataSet:
    """Segmentation: human-like figures of random build and pose, with eight body parts per face.

    `n_faces` is the size of every mesh, or the smallest and the largest.
    """

    def sample(split: str, i: int) -> Sample:
        rng, name = _rng(seed, split, i), f"figure_{split}_{i:04d}"
        mesh, labels = figure(rng, n_faces=_size(rng, n_faces), name=name)
        return Sample(name, mesh, Values(labels))

    numbers = _numbers(n_train, n_val, n_test)
    splits = {split: tuple(sample(split, i) for i in range(n)) for split, n in numbers.items()}
    return DataSet("synthetic figures", "segmentation", "face", splits, PARTS)


def synthetic_cubes(
    *,
    n_classes: int = 6,
    n_train: int = 16,
    n_val: int = 0,
    n_test: int = 6,
    n_faces: int | tuple[int, int] = 500,
    raised: bool = False,
    seed: int = 0,
) -> DataSet:
    """Classification: cubes with one of n_classes signs engraved on a random side. The numbers are per class."""
    if not 2 <= n_classes <= len(GLYPHS):
        raise DataError(f"synthetic cubes have 2 to {len(GLYPHS)} classes ({', '.join(GLYPHS)}), asked for {n_classes}")
    classes = tuple(GLYPHS)[:n_classes]
    splits = {}
    for split, n in _numbers(n_train, n_val, n_test).items():
        samples = []
        for label, glyph in enumerate(classes):
            for i in range(n):
                rng = _rng(seed, split, label, i)
                name = f"{glyph}/{split}/{glyph}_{split}_{i:04d}"
                mesh = engraved_cube(rng, glyph, n_faces=_size(rng, n_faces), raised=raised, name=name)
                samples.append(Sample(name, mesh, WholeMesh(label)))
        splits[split] = tuple(samples)
    return DataSet("synthetic cubes", "classification", "mesh", splits, classes)


def _numbers(n_train: int, n_val: int, n_test: int) -> Mapping[str, int]:
    numbers = {"train": n_train, "val": n_val, "test": n_test}
    if min(numbers.values()) < 0 or n_train == 0:
        raise DataError(f"a synthetic data set needs at least one training mesh, asked for {numbers}")
    return {split: n for split, n in numbers.items() if n}


def _rng(seed: int, split: str, *place: int) -> np.random.Generator:
    return np.random.default_rng([seed, ("train", "val", "test").index(split), *place])


def _size(rng: np.random.Generator, n_faces: int | tuple[int, int]) -> int:
    low, high = (n_faces, n_faces) if isinstance(n_faces, int) else n_faces
    if low < 50 or high < low:
        raise DataError(f"n_faces must be at least 50 and a range must not be reversed, got {n_faces}")
    return int(rng.integers(low, high + 1))
