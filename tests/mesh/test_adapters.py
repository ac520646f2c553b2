"""Meshes of other packages give the same mesh. Stand-ins replace packages that are not installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import hodgeformer as hf
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.io import as_mesh

VERTICES = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 1]])
TRIANGLES = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
QUAD = np.array([[3, 2, 1, 0]])


def arrays() -> Any:
    return VERTICES, TRIANGLES


def lists() -> Any:
    return [VERTICES.tolist(), TRIANGLES.tolist()]


def tensors() -> Any:
    return torch.tensor(VERTICES, dtype=torch.float32, requires_grad=True), torch.tensor(TRIANGLES, dtype=torch.int32)


def of_trimesh() -> Any:
    trimesh = pytest.importorskip("trimesh")
    return trimesh.Trimesh(VERTICES, TRIANGLES, process=False)


def scene() -> Any:
    trimesh = pytest.importorskip("trimesh")
    return trimesh.Scene(of_trimesh())


def of_meshio() -> Any:
    meshio = pytest.importorskip("meshio")
    return meshio.Mesh(VERTICES, [("line", [[0, 1]]), ("triangle", TRIANGLES)])


def of_pyg() -> Any:
    data = pytest.importorskip("torch_geometric.data")
    return data.Data(pos=torch.tensor(VERTICES), face=torch.tensor(TRIANGLES).T)


def like_meshio() -> Any:
    return SimpleNamespace(points=VERTICES, cells=[SimpleNamespace(type="triangle", data=TRIANGLES)])


def like_pyg() -> Any:
    return SimpleNamespace(pos=torch.tensor(VERTICES), face=torch.tensor(TRIANGLES).T)


HELD = [
    arrays, lists, tensors, of_trimesh, scene, of_meshio, of_pyg, like_meshio, like_pyg,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of the packages
@pytest.mark.parametrize("held", HELD)
def test_vertices_and_faces_keep_their_order(held: Any) -> None:
    mesh = as_mesh(held())
    assert np.array_equal(mesh.faces, TRIANGLES)
    assert np.allclose(mesh.vertices, VERTICES)


def test_what_comes_in_is_not_changed() -> None:
    vertices = VERTICES.copy()
    mesh = as_mesh((vertices, TRIANGLES))
    vertices[:] = 0
    assert mesh.vertices.max() == 1
    assert as_mesh(mesh) is mesh


def quads_of_meshio() -> Any:
    cells = [("triangle6", np.tile(TRIANGLES[:1], 2)), ("quad", QUAD), ("triangle", TRIANGLES[1:2])]
    return SimpleNamespace(points=VERTICES, cells=[SimpleNamespace(type=kind, data=data) for kind, data in cells])


def test_polygons_are_cut() -> None:
    mesh = as_mesh(quads_of_meshio())
    assert mesh.polygons is not None and mesh.polygons.tolist() == [0, 1, 1, 2]
    assert mesh.faces[[0, 3]].tolist() == TRIANGLES[:2].tolist()


def _cell(kind: str, data: Any) -> SimpleNamespace:
    return SimpleNamespace(type=kind, data=np.array(data))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (3, r"unsupported type builtins\.int; pass a path, \(vertices, faces\)"),
        ((VERTICES, TRIANGLES.astype(float)), "faces must be integers"),
        ((VERTICES[:, :2], TRIANGLES), r"vertices must have shape \(n, 3\), got \(5, 2\)"),
        ((VERTICES, np.append(QUAD, 9).reshape(1, 5)), "refers to vertex 9"),
        ((VERTICES, []), "no faces"),
        ((VERTICES, [[0, 1, 2], [0, 1]]), "must be arrays of numbers"),
        (([[0, 0, 10**400], *VERTICES.tolist()], TRIANGLES), "vertices must be numbers, got object"),
        (SimpleNamespace(points=VERTICES, cells=[_cell("triangle", TRIANGLES), _cell("polygon", [[2, 3]])]), "three"),
        (SimpleNamespace(pos=VERTICES, face=None), "unsupported type"),
        (SimpleNamespace(points=VERTICES, cells=[_cell("tetra", QUAD)]), "only cells of type tetra"),
    ],
)
def test_what_is_no_mesh_says_so(held: Any, message: str) -> None:
    with pytest.raises(MeshError, match=message):
        as_mesh(held)


def test_wherever_a_mesh_is_taken(tmp_path: Path) -> None:
    held = VERTICES, TRIANGLES
    assert hf.check_mesh(held).n_faces == 4
    assert hf.simplify(held, 2).mesh.n_faces <= 2
    assert hf.prepare(held).n.f == 4
    hf.save_mesh(held, tmp_path / "pyramid.ply")
    assert np.array_equal(hf.as_mesh(tmp_path / "pyramid.ply").faces, TRIANGLES)


HEAT, PATCH = np.arange(5.0), np.arange(4)


def heated_trimesh() -> Any:
    trimesh = pytest.importorskip("trimesh")
    given = trimesh.Trimesh(VERTICES, TRIANGLES, process=False)
    given.vertex_attributes["heat"], given.face_attributes["patch"] = HEAT, PATCH
    given.face_attributes["label"] = PATCH  # as results have it, which are not input
    return given


def heated_meshio() -> Any:
    meshio = pytest.importorskip("meshio")
    cells = [("line", [[0, 1]]), ("triangle", TRIANGLES)]
    return meshio.Mesh(VERTICES, cells, point_data={"heat": HEAT}, cell_data={"patch": [np.zeros(1), PATCH]})


@pytest.mark.parametrize("held", [heated_trimesh, heated_meshio])
def test_numbers_of_other_packages_are_columns(held: Any) -> None:
    columns = as_mesh(held()).columns
    assert {name: element for name, (element, _) in columns.items()} == {"heat": "vertex", "patch": "face"}
    np.testing.assert_array_equal(columns["heat"].values, HEAT)
    np.testing.assert_array_equal(columns["patch"].values, PATCH)


def test_the_features_of_pyg_are_columns() -> None:
    data = pytest.importorskip("torch_geometric.data")
    x = torch.arange(10.0).reshape(5, 2)
    given = data.Data(pos=torch.tensor(VERTICES), face=torch.tensor(TRIANGLES).T, x=x)
    mesh = as_mesh(given)
    np.testing.assert_array_equal([mesh.columns[name].values for name in ("x_0", "x_1")], x.T)


def test_the_colors_of_trimesh_are_a_column() -> None:
    trimesh = pytest.importorskip("trimesh")
    colors = np.arange(12).reshape(4, 3).astype(np.uint8)
    mesh = as_mesh(trimesh.Trimesh(VERTICES, TRIANGLES, process=False, face_colors=colors))
    assert list(mesh.columns) == ["color_0", "color_1", "color_2"]
    np.testing.assert_array_equal([values for _, values in mesh.columns.values()], colors.T)


def test_a_polygon_gives_its_numbers_to_its_triangles() -> None:
    cells = [SimpleNamespace(type="triangle", data=TRIANGLES), SimpleNamespace(type="quad", data=QUAD)]
    given = SimpleNamespace(points=VERTICES, cells=cells, cell_data={"patch": [PATCH, np.array([7])]})
    np.testing.assert_array_equal(as_mesh(given).columns["patch"].values, [0, 1, 2, 3, 7, 7])
