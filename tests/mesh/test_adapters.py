"""What people hold in their hands is the same mesh everywhere. Packages that are not there are stood in for."""

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


def of_pyvista() -> Any:
    pyvista = pytest.importorskip("pyvista")
    return pyvista.PolyData.from_regular_faces(VERTICES, TRIANGLES)


def of_open3d() -> Any:
    open3d = pytest.importorskip("open3d")
    vectors = open3d.utility.Vector3dVector(VERTICES), open3d.utility.Vector3iVector(TRIANGLES)
    return open3d.geometry.TriangleMesh(*vectors)


def of_open3d_tensors() -> Any:
    open3d = pytest.importorskip("open3d")
    return open3d.t.geometry.TriangleMesh.from_legacy(of_open3d())


def of_pyg() -> Any:
    data = pytest.importorskip("torch_geometric.data")
    return data.Data(pos=torch.tensor(VERTICES), face=torch.tensor(TRIANGLES).T)


def like_meshio() -> Any:
    return SimpleNamespace(points=VERTICES, cells=[SimpleNamespace(type="triangle", data=TRIANGLES)])


def like_pyvista() -> Any:
    return SimpleNamespace(points=VERTICES, faces=np.insert(TRIANGLES, 0, 3, axis=1).ravel())


def like_open3d() -> Any:
    return SimpleNamespace(vertices=VERTICES, triangles=TRIANGLES)


def like_open3d_tensors() -> Any:
    return SimpleNamespace(vertex={"positions": VERTICES}, triangle={"indices": TRIANGLES})


def like_pyg() -> Any:
    return SimpleNamespace(pos=torch.tensor(VERTICES), face=torch.tensor(TRIANGLES).T)


HELD = [
    arrays, lists, tensors, of_trimesh, scene, of_meshio, of_pyvista, of_open3d, of_open3d_tensors, of_pyg,
    like_meshio, like_pyvista, like_open3d, like_open3d_tensors, like_pyg,
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


def quads_of_pyvista() -> Any:
    return SimpleNamespace(points=VERTICES, faces=np.array([3, 0, 1, 4, 4, 3, 2, 1, 0, 3, 1, 2, 4]))


def quads_of_meshio() -> Any:
    cells = [("triangle6", np.tile(TRIANGLES[:1], 2)), ("quad", QUAD), ("triangle", TRIANGLES[1:2])]
    return SimpleNamespace(points=VERTICES, cells=[SimpleNamespace(type=kind, data=data) for kind, data in cells])


@pytest.mark.parametrize("held", [quads_of_pyvista, quads_of_meshio])
def test_polygons_are_cut(held: Any) -> None:
    mesh = as_mesh(held())
    assert mesh.polygons is not None and mesh.polygons.tolist() == [0, 1, 1, 2]
    assert mesh.faces[[0, 3]].tolist() == TRIANGLES[:2].tolist()


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
        (SimpleNamespace(points=VERTICES, faces=np.array([3, 0, 1, 4, -1, 2, 3])), "a face has -1 corners, but only 2"),
        (SimpleNamespace(points=VERTICES, faces=np.array([3, 0, 1, 4, 3, 2, 3])), "a face has 3 corners, but only 2"),
        (SimpleNamespace(points=VERTICES, faces=np.array([3, 0, 1, 4, 2, 2, 3])), "at least three corners"),
        (SimpleNamespace(pos=VERTICES, face=None), "unsupported type"),
        (
            SimpleNamespace(points=VERTICES, cells=[SimpleNamespace(type="tetra", data=QUAD)]),
            "only cells of type tetra",
        ),
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


def heated_like_pyvista() -> Any:
    faces = np.insert(TRIANGLES, 0, 3, axis=1).ravel()
    names = np.array(list("abcd"))
    return SimpleNamespace(
        points=VERTICES, faces=faces, point_data={"heat": HEAT}, cell_data={"patch": PATCH, "n": names}
    )


@pytest.mark.parametrize("held", [heated_trimesh, heated_meshio, heated_like_pyvista])
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
