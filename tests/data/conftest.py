"""Small meshes and folders that the tests of data sets share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import write_folder
from hodgeformer.data.synthetic import synthetic_cubes, synthetic_figures
from hodgeformer.mesh.mesh import Mesh


@pytest.fixture(scope="session")
def figures() -> DataSet:
    return synthetic_figures(n_train=5, n_val=2, n_test=3, n_faces=(380, 450), seed=1)


@pytest.fixture(scope="session")
def cubes() -> DataSet:
    return synthetic_cubes(n_classes=3, n_train=3, n_test=2, n_faces=200, seed=1)


@pytest.fixture
def figure_folder(figures: DataSet, tmp_path: Path) -> Path:
    """A segmentation data set on disk: meshes/*.obj, labels/*.txt, dataset.toml with lists of names."""
    write_folder(figures, tmp_path / "figures", suffix=".obj")
    return tmp_path / "figures"


@pytest.fixture
def octahedron() -> Mesh:
    vertices = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    faces = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    return Mesh(vertices, np.array(faces), "octahedron")


@pytest.fixture
def strip() -> Mesh:
    """Four triangles in a row: 6 vertices, 9 edges."""
    vertices = np.array([[x, y, 0] for x in range(3) for y in range(2)], dtype=float)
    return Mesh(vertices, np.array([[0, 2, 1], [1, 2, 3], [2, 4, 3], [3, 4, 5]]), "strip")
