"""Scans come back as they were given: the same labels at 1x, 4x and as STL, and every vertex in its own color."""

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


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".glb"])
@pytest.mark.parametrize("written", [".ply", ".glb"])
def test_a_colored_scan_keeps_its_colors_beside_those_of_its_labels(suffix: str, written: str, tmp_path: Path) -> None:
    mesh = figure(np.random.default_rng(3), n_faces=2000)[0]
    colors = np.random.default_rng(4).integers(0, 256, (mesh.n_vertices, 3))
    save_mesh(mesh, tmp_path / f"scan{suffix}", vertex_colors=colors)
    result = Predictor.load("human").predict(tmp_path / f"scan{suffix}")
    result.save(tmp_path / f"labeled{written}")
    read = load_mesh(tmp_path / f"labeled{written}")
    np.testing.assert_array_equal(read.attributes["vertex_own_colors"], colors)
    np.testing.assert_array_equal(read.attributes["face_labels"], result.labels)
    np.testing.assert_array_equal(read.attributes["face_colors"], np.array(result.colors)[result.labels])
    # A viewer that shows the colors of vertices must not show the original ones.
    expected = {".ply": result.on("vertex").element_colors}.get(written)
    np.testing.assert_array_equal(read.attributes.get("vertex_colors"), expected)
    assert read.own_colors.keys() == {"vertex_own_colors"}
