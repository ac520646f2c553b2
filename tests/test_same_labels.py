"""The same labels whether a body is given as it is, subdivided, or as STL, which knows float32 and no vertices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hodgeformer.data.figures import figure
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.subdivision import subdivided
from hodgeformer.predict.predictor import Predictor

SHARE = 0.999  # rounding may move a face whose two best labels are equally likely


def assert_same_labels(mesh: Mesh, folder: Path) -> None:
    human = Predictor.load("human")
    labels, finer = human.predict(mesh).labels, subdivided(mesh)
    assert len(np.unique(labels)) > 3
    for given, origin in ((mesh, np.arange(mesh.n_faces)), (finer.mesh, finer.origin)):
        path = folder / f"{given.n_faces}.stl"
        save_mesh(given, path)
        assert (human.predict(given).labels == labels[origin]).mean() >= SHARE
        assert (human.predict(path).labels == labels[origin]).mean() >= SHARE


@pytest.mark.parametrize("n_faces", [1500, 4000])
def test_a_figure(n_faces: int, tmp_path: Path) -> None:
    """At the working resolution, where nothing is simplified, and above it."""
    assert_same_labels(figure(np.random.default_rng(n_faces), n_faces=n_faces)[0], tmp_path)


@pytest.mark.real_data
@pytest.mark.parametrize("family", ["faust", "scape"])
def test_scanned_bodies(family: str, real_data: Path, tmp_path: Path) -> None:
    for path in sorted((real_data / "human_full" / family).glob("*.ply"))[::25]:
        assert_same_labels(load_mesh(path), tmp_path)
