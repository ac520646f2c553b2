"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from hodgeformer.mesh.mesh import Mesh

# A busy machine is slow, and compiling a kernel is too; neither says anything about the code.
settings.register_profile("hodgeformer", deadline=None)
settings.load_profile("hodgeformer")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The root of the benchmark meshes, which are not part of the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("HODGEFORMER_DATA", beside))
    if not root.is_dir():
        pytest.skip(f"benchmark meshes not found at {root}; set HODGEFORMER_DATA to their folder")
    return root


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
