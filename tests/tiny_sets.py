"""Tiny labeled data sets: spheres pulled into shape."""

from __future__ import annotations

import numpy as np

from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values, WholeMesh
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_rotation
from meshes import icosphere

TINY = (
    "prepare.pose=file",
    "augment.rotation=none",
    "model.blocks=HT",
    "model.d_model=16",
    "model.n_heads=2",
    "train.batch_size=3",
    "train.workers=0",
    "train.lr=5e-3",
)
"""Settings of a run that takes a second."""


def stretched(seed: int, factors: tuple[float, float, float], name: str) -> Mesh:
    sphere = icosphere(1, name=name)
    bumps = 1 + 0.08 * np.random.default_rng(seed).standard_normal((sphere.n_vertices, 1))
    return sphere.with_vertices(sphere.vertices * bumps * factors)


def parts(n_train: int = 6, n_val: int = 0, n_test: int = 2) -> DataSet:
    """Segmentation: the two ends of an egg and its middle."""
    splits = {}
    for split, n in {"train": n_train, "val": n_val, "test": n_test}.items():
        samples = []
        for i in range(n):
            mesh = stretched(len(split) * 100 + i, (1.0, 1.3, 2.0), f"{split}_{i}")
            height = face_centers(mesh.vertices, mesh.faces)[:, 2]
            samples.append(Sample(mesh.name, mesh, Values(np.digitize(height, [-0.9, 0.5]).astype(np.int64))))
        if n:
            splits[split] = tuple(samples)
    return DataSet("eggs", "segmentation", "face", splits, ("bottom", "middle", "top"))


def bodies(n: int = 6) -> DataSet:
    """Segmentation: broad shoulders, a flat back and a belly, each turned at random."""
    samples = []
    for i in range(n):
        rng = np.random.default_rng(i)
        sphere = icosphere(3, name=f"body_{i}")
        x, y, z = sphere.vertices.T / np.linalg.norm(sphere.vertices, axis=1)
        upright = np.stack([x * (1.2 + 0.5 * y), 1.8 * y, np.where(z > 0, 0.8, 0.3) * z], axis=1)
        upright *= rng.uniform(0.9, 1.1, 3)
        across = face_centers(upright, sphere.faces)[:, 0]
        labels = np.where(across > 0.6, 0, np.where(across < -0.6, 1, 2))
        mesh = sphere.with_vertices(upright @ random_rotation(rng))
        samples.append(Sample(mesh.name, mesh, Values(labels.astype(np.int64))))
    return DataSet("bodies", "segmentation", "face", {"train": tuple(samples)}, ("larm", "rarm", "torso"))


def shapes(n_train: int = 4, n_test: int = 2, n_val: int = 0) -> DataSet:
    """Classification: long and flat ellipsoids, the numbers are per class."""
    forms = {"long": (1.0, 1.0, 2.5), "flat": (1.0, 1.1, 0.35)}
    splits = {}
    for split, n in {"train": n_train, "val": n_val, "test": n_test}.items():
        samples = []
        for label, (name, factors) in enumerate(forms.items()):
            for i in range(n):
                mesh = stretched(1000 * label + len(split) * 100 + i, factors, f"{name}_{split}_{i}")
                samples.append(Sample(mesh.name, mesh, WholeMesh(label)))
        if n:
            splits[split] = tuple(samples)
    return DataSet("ellipsoids", "classification", "mesh", splits, tuple(forms))


def heights() -> DataSet:
    """Regression: how tall an ellipsoid is compared to its width, times a hundred and far from zero."""
    splits = {}
    for split, n in {"train": 9, "test": 4}.items():
        samples = []
        for i in range(n):
            height = 0.4 + 2.4 * i / n
            mesh = stretched(len(split) * 50 + i, (1.0, 1.0, height), f"{split}_{i}")
            samples.append(Sample(mesh.name, mesh, WholeMesh((1000.0 + 100 * height,))))
        splits[split] = tuple(samples)
    return DataSet("heights", "regression", "mesh", splits)
