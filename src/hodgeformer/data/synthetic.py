"""Generated data sets, for a first run without downloads: figures, and cubes with an engraved sign. The same arguments
give the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import SPLITS, DataSet, Sample
from hodgeformer.data.figures import PARTS, figure
from hodgeformer.data.labels import Values, WholeMesh
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.subdivision import subdivided

_STEPS = 32  # grid cells along a side of the cube before decimation, a power of two


# Signed distances in the square [-1, 1] x [-1, 1].
GLYPHS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "disc": lambda u, v: np.hypot(u, v) - 0.85,
    "cross": lambda u, v: np.minimum(np.maximum(abs(u) - 0.9, abs(v) - 0.28), np.maximum(abs(u) - 0.28, abs(v) - 0.9)),
    "ring": lambda u, v: abs(np.hypot(u, v) - 0.65) - 0.23,
    "bar": lambda u, v: np.maximum(abs(u) - 1.0, abs(v) - 0.26),
    "square": lambda u, v: np.maximum(abs(u), abs(v)) - 0.72,
    "moon": lambda u, v: np.maximum(np.hypot(u, v) - 0.95, 0.75 - np.hypot(u - 0.5, v)),
}


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
    seed: int = 0,
) -> DataSet:
    """Classification: cubes with one of n_classes signs engraved on a random side. The numbers are per class."""
    if not 2 <= n_classes <= len(GLYPHS):
        raise DataError(f"synthetic cubes have 2 to {len(GLYPHS)} classes ({', '.join(GLYPHS)}), got {n_classes}")
    classes = tuple(GLYPHS)[:n_classes]
    splits = {}
    for split, n in _numbers(n_train, n_val, n_test).items():
        samples = []
        for label, glyph in enumerate(classes):
            for i in range(n):
                rng = _rng(seed, split, label, i)
                name = f"{glyph}/{split}/{glyph}_{split}_{i:04d}"
                mesh = engraved_cube(rng, glyph, n_faces=_size(rng, n_faces), name=name)
                samples.append(Sample(name, mesh, WholeMesh(label)))
        splits[split] = tuple(samples)
    return DataSet("synthetic cubes", "classification", "mesh", splits, classes)


def _numbers(n_train: int, n_val: int, n_test: int) -> Mapping[str, int]:
    numbers = {"train": n_train, "val": n_val, "test": n_test}
    if min(numbers.values()) < 0 or n_train == 0:
        raise DataError(f"a synthetic data set needs at least one training mesh, got {numbers}")
    return {split: n for split, n in numbers.items() if n}


def _rng(seed: int, split: str, *place: int) -> np.random.Generator:
    return np.random.default_rng([seed, SPLITS.index(split), *place])


def _size(rng: np.random.Generator, n_faces: int | tuple[int, int]) -> int:
    low, high = (n_faces, n_faces) if isinstance(n_faces, int) else n_faces
    if low < 50 or high < low:
        raise DataError(f"n_faces must be at least 50, or an ascending range, got {n_faces}")
    return int(rng.integers(low, high + 1))


def engraved_cube(rng: np.random.Generator, glyph: str, *, n_faces: int, name: str = "cube") -> Mesh:
    """A cube of about n_faces faces with a glyph on a random side, with random rotation, size and position."""
    cube = _grid_cube()
    points = cube.vertices
    axis, sign = int(rng.integers(3)), float(rng.choice([-1.0, 1.0]))
    u, v = points[:, (axis + 1) % 3], points[:, (axis + 2) % 3]
    angle, size = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 0.62)
    room = 0.92 - size * 1.05
    shift = rng.uniform(-room, room, 2)
    u, v = (u - shift[0]) / size, (v - shift[1]) / size
    distance = GLYPHS[glyph](np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u)
    on_side = points[:, axis] == sign
    # The wall of the engraving is one grid cell wide, so that it is preserved by decimation.
    depth = np.clip(0.5 - distance * size * _STEPS / 2, 0, 1) * rng.uniform(0.16, 0.26)
    moved = points * (1 + rng.uniform(0.03, 0.08) * _pillow(points))[:, None]
    moved[on_side, axis] -= sign * depth[on_side]
    return replace(simplify(Mesh(moved, cube.faces, name=name), n_faces).mesh, notes=())


def _pillow(points: FloatArray) -> FloatArray:
    """A bulge of every side that vanishes at the edges. Exactly flat sides would decimate into slivers."""
    low, middle, _ = np.sort(abs(points), axis=1).T
    return np.asarray((1 - low**2) * (1 - middle**2), np.float64)


def _grid_cube() -> Mesh:
    """The surface of the cube [-1, 1]^3 with `_STEPS` squares along a side, two triangles each, normals outward."""
    corners = np.array(list(product((-1.0, 1.0), repeat=3)))
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    cube = Mesh(corners, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]))
    for _ in range(_STEPS.bit_length() - 1):
        cube = subdivided(cube).mesh
    return cube
