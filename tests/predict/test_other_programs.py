"""Results in other programs: Blender, meshio, trimesh with textures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.result import Result
from meshes import icosphere

COLORS = ((200, 30, 30), (30, 30, 200))


@pytest.fixture
def result() -> Result:
    """Two halves of a ball."""
    ball = icosphere(2)
    upper = (ball.vertices[ball.faces].mean(axis=1)[:, 2] > 0).astype(np.float32)
    return Result(ball, "segmentation", "face", np.stack([1 - upper, upper], axis=1), ("low", "high"), COLORS)


def test_a_ply_has_the_colors_of_vertices_that_blender_shows(result: Result, tmp_path: Path) -> None:
    """Blender reads red, green and blue of vertices, and of faces only their corners."""
    result.save(tmp_path / "out.ply")
    read = load_mesh(tmp_path / "out.ply")
    inside = np.abs(read.vertices[:, 2]) > 0.5
    expected = np.array(COLORS)[(read.vertices[:, 2] > 0).astype(int)]
    np.testing.assert_array_equal(read.attributes["vertex_colors"][inside], expected[inside])
    np.testing.assert_array_equal(read.attributes["face_colors"], np.array(COLORS)[result.labels])
    np.testing.assert_array_equal(read.attributes["face_labels"], result.labels)
    assert "vertex_labels" not in read.attributes  # a data set reads the exact labels, of faces


def test_meshio_opens_results_on_vertices(result: Result, tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    on_vertices = result.on("vertex")
    on_vertices.save(tmp_path / "out.ply")
    read = meshio.read(tmp_path / "out.ply")
    np.testing.assert_array_equal(read.cells_dict["triangle"], result.mesh.faces)
    np.testing.assert_array_equal(read.point_data["label"], on_vertices.labels)


def test_meshio_gets_labels_of_faces(result: Result, tmp_path: Path) -> None:
    """As docs/predicting.md does: meshio reads a binary PLY wrongly if its faces have properties."""
    meshio = pytest.importorskip("meshio")
    result.save(tmp_path / "scan.ply")
    with pytest.raises(ValueError, match="multiple of element size"):
        meshio.read(tmp_path / "scan.ply")
    mesh = load_mesh(tmp_path / "scan.ply")
    labels = {"label": [mesh.attributes["face_labels"]]}
    meshio.Mesh(mesh.vertices, {"triangle": mesh.faces}, cell_data=labels).write(tmp_path / "scan.vtu")
    read = meshio.read(tmp_path / "scan.vtu")
    np.testing.assert_array_equal(read.cells_dict["triangle"], result.mesh.faces)
    np.testing.assert_array_equal(read.cell_data["label"][0], result.labels)


def test_columns_do_not_keep_a_ply_from_opening(result: Result, tmp_path: Path) -> None:
    """meshio refuses a file with an element `edge`."""
    meshio, trimesh = pytest.importorskip("meshio"), pytest.importorskip("trimesh")
    n = result.mesh.topology.n
    columns = {"height": np.arange(n.v, dtype=np.float32), "quality": np.arange(n.f), "length": np.arange(n.e)}
    scan = replace(result, mesh=result.mesh.with_columns(columns))
    scan.save(tmp_path / "face.ply")
    opened = trimesh.load(tmp_path / "face.ply", process=False)
    np.testing.assert_array_equal(opened.faces, result.mesh.faces)
    np.testing.assert_array_equal(opened.visual.vertex_colors[:, :3], result.on("vertex").element_colors)
    assert load_mesh(tmp_path / "face.ply").columns.keys() == {"height", "quality"}
    vertices_only = replace(scan.on("vertex"), mesh=result.mesh.with_columns({"height": columns["height"]}))
    vertices_only.save(tmp_path / "vertex.ply")
    np.testing.assert_array_equal(meshio.read(tmp_path / "vertex.ply").point_data["height"], columns["height"])


def textured(mesh: Mesh, path: Path) -> None:
    trimesh: Any = pytest.importorskip("trimesh")
    image = pytest.importorskip("PIL.Image").fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=image)
    visual = trimesh.visual.TextureVisuals(uv=mesh.vertices[:, :2] / 2 + 0.5, material=material)
    trimesh.Trimesh(mesh.vertices, mesh.faces, visual=visual, process=False).export(path)


def test_labels_select_faces_of_a_textured_file(result: Result, tmp_path: Path) -> None:
    """As docs/predicting.md does: the order of faces is that of the file for trimesh as well."""
    trimesh: Any = pytest.importorskip("trimesh")
    textured(result.mesh, tmp_path / "scan.glb")
    scan = trimesh.load(tmp_path / "scan.glb", force="mesh", process=False)
    found = load_mesh(tmp_path / "scan.glb")
    np.testing.assert_allclose(scan.triangles, found.vertices[found.faces], atol=1e-6)
    scan.submesh([result.labels == 1], append=True).export(tmp_path / "high.glb")
    high = trimesh.load(tmp_path / "high.glb", force="mesh", process=False)
    assert len(high.faces) == (result.labels == 1).sum() and high.vertices[:, 2].min() > -0.3
    np.testing.assert_allclose(high.visual.uv, high.vertices[:, :2] / 2 + 0.5, atol=1e-5)
    assert high.visual.material.baseColorTexture.size == (8, 8)
