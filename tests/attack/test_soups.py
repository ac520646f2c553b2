"""Polygon soups like models on the web: each is read, checked, predicted and trained on."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attack.mutate import SEED, tally
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.folder import write_folder
from hodgeformer.data.labels import WholeMesh
from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.run import train
from soups import FORMS, polygon_soup
from tiny_sets import TINY

MANY = 600
SUFFIXES = (".off", ".obj", ".ply", ".stl", ".glb")


def soups_of(n: int, most_faces: int, seed: int) -> DataSet:
    """`n` of each form, a third of them to test."""
    rng = np.random.default_rng(seed)
    names = tuple(FORMS)
    splits: dict[str, list[Sample]] = {"train": [], "test": []}
    for label, form in enumerate(names):
        for i in range(n):
            mesh = polygon_soup(rng, form, most_faces)
            splits["test" if i % 3 == 2 else "train"].append(Sample(f"{form}_{i}", mesh, WholeMesh(label)))
    return DataSet("soups", "classification", "mesh", {k: tuple(v) for k, v in splits.items()}, names)


def test_they_are_as_dirty_as_models_from_the_web() -> None:
    rng = np.random.default_rng(0)
    reports = [check_mesh(polygon_soup(rng, form, 2000)) for form in FORMS for _ in range(100)]
    share = {
        "non-manifold": np.mean([report.n_nonmanifold_edges > 0 for report in reports]),
        "open": np.mean([report.n_boundary_edges > 0 for report in reports]),
        "several pieces": np.mean([report.n_components > 1 for report in reports]),
    }
    for what, expected in {"non-manifold": 0.5, "open": 0.71, "several pieces": 0.84}.items():
        assert abs(share[what] - expected) < 0.08, share
    sizes = [polygon_soup(rng, "table").n_faces for _ in range(60)]
    assert min(sizes) < 100 and 40_000 < max(sizes) < 100_000


@pytest.mark.parametrize("n", [15, pytest.param(MANY, marks=pytest.mark.attack(minutes=2))])
def test_every_soup_is_predicted(n: int, tmp_path: Path) -> None:
    rng, predictor, n_faces = np.random.default_rng(SEED), Predictor.load("human"), 0
    began = time.process_time()
    for i in range(n):
        mesh = polygon_soup(rng, tuple(FORMS)[i % len(FORMS)], 88_000 if n > 100 else 2000)
        path = tmp_path / f"soup{SUFFIXES[i % len(SUFFIXES)]}"
        save_mesh(mesh, path)
        check_mesh(load_mesh(path))
        result = predictor.predict(path)
        assert result.probabilities.shape == (result.mesh.n_faces, len(result.names))
        assert np.isfinite(result.probabilities).all(), (i, path)
        n_faces += mesh.n_faces
    each = (time.process_time() - began) / n
    sys.stdout.write(f"{n} soups of {n_faces:,} faces, all answered, {1000 * each:.0f} ms of the processor each\n")
    tally("polygon soups predicted", n, f"{n} answered, all finite, {1000 * each:.0f} ms each")


@pytest.mark.parametrize(
    ("n", "most_faces", "settings", "least"),
    [
        (9, 200, (*TINY, "train.epochs=12"), 0.6),
        pytest.param(30, 2000, ("train.epochs=20",), 0.8, marks=pytest.mark.attack(minutes=2)),
    ],
)
def test_soups_are_learned_from(
    n: int, most_faces: int, settings: tuple[str, ...], least: float, tmp_path: Path
) -> None:
    """A folder of data with planned settings except for the length; no mesh is left out."""
    write_folder(soups_of(n, most_faces, SEED), tmp_path / "soups")
    outcome = train(tmp_path / "soups", tmp_path / "run", overrides=settings)
    assert outcome.scores is not None
    accuracy = outcome.scores.main
    sys.stdout.write(f"{3 * n} soups in {len(FORMS)} classes: accuracy {accuracy:.2f} on those not trained on\n")
    tally("training on polygon soups", 3 * n, f"accuracy {accuracy:.2f} in {len(FORMS)} classes")
    assert accuracy >= least
