"""All benchmark meshes load and can be checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.simplify import simplify

SETS = {
    "shrec_16": ("*/train/*.obj", 480, 500),
    "human_seg": ("train/*.obj", 381, 1500),
    "rna_sample": ("off/*.off", 24, None),
    "cubes_2_classes": ("*/train/*.obj", 337, 500),
}


@pytest.mark.real_data
@pytest.mark.parametrize("name", SETS)
def test_every_mesh_loads_and_checks(name: str, real_data: Path) -> None:
    pattern, count, n_faces = SETS[name]
    files = sorted((real_data / name).glob(pattern))
    assert len(files) == count
    for file in files:
        report = check_mesh(load_mesh(file))
        assert n_faces is None or abs(report.n_faces - n_faces) <= 4, file
        assert report.n_edges > 0
        assert report.n_repeating_faces == 0, file


@pytest.mark.real_data
def test_labels_fit_the_order_of_the_file(real_data: Path) -> None:
    """Face labels of Human form connected parts only if the order of faces is kept."""
    file = sorted((real_data / "human_seg" / "train").glob("*.obj"))[0]
    mesh = load_mesh(file)
    labels = np.loadtxt(real_data / "human_seg" / "fseg" / f"{file.stem}.fseg", dtype=int)
    assert len(labels) == mesh.n_faces
    sides = np.sort(np.stack([mesh.faces, np.roll(mesh.faces, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    order = np.lexsort(sides.T)
    pairs = order.reshape(-1, 2) // 3
    assert (labels[pairs[:, 0]] == labels[pairs[:, 1]]).mean() > 0.8
    small = simplify(mesh, 750)
    back = small.values_back(small.values_over(np.eye(9)[labels], "f"), "f").argmax(axis=1)
    assert (back == labels).mean() > 0.9
