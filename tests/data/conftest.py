"""Small meshes and folders that the tests of data sets share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import write_folder
from hodgeformer.data.synthetic import synthetic_cubes, synthetic_figures


@pytest.fixture(scope="session")
def figures() -> DataSet:
    return synthetic_figures(n_train=5, n_val=2, n_test=3, n_faces=(380, 450), seed=1)


@pytest.fixture(scope="session")
def cubes() -> DataSet:
    return synthetic_cubes(n_classes=3, n_train=3, n_test=2, n_faces=200, seed=1)


@pytest.fixture
def figure_folder(figures: DataSet, tmp_path: Path) -> Path:
    """A segmentation data set on disk: meshes/*.ply, labels/*.txt, dataset.toml with lists of names."""
    write_folder(figures, tmp_path / "figures")
    return tmp_path / "figures"
