"""Named columns of a mesh: passed as arrays, read from files, transferred to other meshes and to the input features."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import meshes
from hodgeformer.base.containers import KINDS
from hodgeformer.base.errors import ConfigError, MeshError
from hodgeformer.mesh.elements import convert_values, element_centers
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.subdivision import refine
from soups import renumbered

SLOPE = np.array([0.3, -1.0, 0.7])


def sloped(mesh: Mesh) -> Mesh:
    """A mesh with the same linear function of the position on its vertices, edges and faces."""
    elements = {"vertex": "v", "edge": "e", "face": "f"}
    return mesh.with_columns({
        f"of_{element}": (element, element_centers(mesh, kind) @ SLOPE)
        for element, kind in elements.items()
    })  # fmt: skip


def test_the_length_tells_the_element_of_a_column() -> None:
    sphere = meshes.icosphere(1)  # 42 vertices, 120 edges, 80 faces
    mesh = sphere.with_columns({"a": np.arange(42), "b": np.arange(120), "c": np.arange(80), "uv": np.ones((42, 2))})
    assert {name: column.element for name, column in mesh.columns.items()} == {
        "a": "vertex", "b": "edge", "c": "face", "uv_0": "vertex", "uv_1": "vertex",
    }  # fmt: skip
    again = pickle.loads(pickle.dumps(mesh))
    np.testing.assert_array_equal(again.columns["b"].values, np.arange(120))


def test_a_length_that_fits_two_elements_is_an_error_that_says_what_to_do() -> None:
    mesh = meshes.tetrahedron()  # four vertices, four faces
    with pytest.raises(MeshError, match=r"'heat' has 4 rows, as many as there are vertices and faces; pass \('vertex'"):
        mesh.with_columns({"heat": np.arange(4)})
    assert mesh.with_columns({"heat": ("face", np.arange(4))}).columns["heat"].element == "face"
    with pytest.raises(MeshError, match="'heat' has 5 rows, the mesh has 4 vertices, 4 faces, 6 edges"):
        mesh.with_columns({"heat": np.arange(5)})
    with pytest.raises(MeshError, match="'heat' has 4 rows, the mesh has 4 vertices, 4 faces, 6 edges"):
        mesh.with_columns({"heat": ("edge", np.arange(4))})
    with pytest.raises(MeshError, match=r"must be .* numbers, got <U1"):
        mesh.with_columns({"heat": ("face", np.array(list("abcd")))})
    with pytest.raises(MeshError, match="invalid name 'a b'"):
        mesh.with_columns({"a b": ("face", np.arange(4))})


def test_columns_of_a_ply_file_are_read_back(tmp_path: Path) -> None:
    mesh = sloped(meshes.open_grid()).with_columns({"flag": np.arange(30, dtype=np.uint8), "far": np.full(30, 1e9 + 1)})
    save_mesh(mesh, tmp_path / "a.ply")
    read = load_mesh(tmp_path / "a.ply")
    assert read.columns.keys() == mesh.columns.keys()
    for name, (element, values) in mesh.columns.items():
        assert read.columns[name].element == element
        np.testing.assert_array_equal(read.columns[name].values, values)
    with pytest.raises(MeshError, match="invalid name 'Red' of a column: it has another meaning in files"):
        mesh.with_columns({"Red": np.arange(30)})


TEXT = """ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
property float quality
property int scalar_Intensity
element face 1
property list uchar int vertex_indices
property float quality
property uchar patch
element edge {n}
property int vertex1
property int vertex2
property float angle
end_header
0 0 0 0.5 7
1 0 0 1.5 8
1 1 0 2.5 9
0 1 0 3.5 10
4 0 1 2 3 8.25 200
"""
EDGES = "2 1 12\n1 0 10\n0 2 20\n3 2 32\n0 3 30\n"  # the diagonal that cuts the square is 0-2


def test_a_file_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_text(TEXT.format(n=5) + EDGES)
    mesh = load_mesh(tmp_path / "a.ply")
    columns = {name: (element, values.tolist()) for name, (element, values) in mesh.columns.items()}
    assert columns["quality"] == ("vertex", [0.5, 1.5, 2.5, 3.5])
    assert columns["scalar_Intensity"] == ("vertex", [7, 8, 9, 10])
    assert columns["patch"] == ("face", [200, 200])  # both triangles of the square
    ends = np.sort(mesh.topology.edges, axis=1) @ [1, 10]
    assert columns["angle"] == ("edge", [{10: 10, 21: 12, 20: 20, 32: 32, 30: 30}[end] for end in ends])
    assert "property 'quality' of each face ignored: each vertex has it too" in mesh.notes


@pytest.mark.parametrize("edges", ["0 1 1\n", "0 1 1\n0 99 2\n"], ids=["few", "wrong"])
def test_columns_of_edges_that_are_not_listed_are_ignored(edges: str, tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_text(TEXT.format(n=edges.count("\n")) + edges)
    mesh = load_mesh(tmp_path / "a.ply")
    assert "angle" not in mesh.columns
    assert any(note.startswith("columns of edges ignored") for note in mesh.notes)


@pytest.mark.parametrize("mesh", [meshes.icosphere(4), meshes.open_grid(30, 30)], ids=lambda mesh: mesh.name)
def test_a_linear_function_survives_simplification(mesh: Mesh) -> None:
    for small in (simplify(sloped(mesh), 200).mesh, simplify(simplify(sloped(mesh), 600).mesh, 200).mesh):
        assert small.n_faces <= 200
        width = np.ptp(mesh.vertices @ SLOPE)
        for name, kind in (("of_vertex", "v"), ("of_edge", "e"), ("of_face", "f")):
            wanted = element_centers(small, kind) @ SLOPE
            found = small.columns[name].values
            assert np.abs(found - wanted).max() < 0.06 * width
            assert np.corrcoef(found, wanted)[0, 1] > 0.998


def test_a_linear_function_survives_refinement() -> None:
    coarse = sloped(meshes.icosphere(1))
    fine = refine(coarse, 1000).mesh
    assert fine.n_faces == 1280
    np.testing.assert_allclose(fine.columns["of_vertex"].values, fine.vertices @ SLOPE, atol=1e-12)
    for name, kind in (("of_edge", "e"), ("of_face", "f")):
        centers = element_centers(fine, kind)
        assert np.corrcoef(fine.columns[name].values, centers @ SLOPE)[0, 1] > 0.99


CONFIG = PrepareConfig(
    features=("coords", "of_vertex", "of_edge", "of_face"), column_scales={"of_vertex": (0.2, 2.0)}, pose="frame"
)


@pytest.mark.parametrize("mesh", [meshes.icosphere(2), meshes.non_manifold_fan(), meshes.moebius_strip()])
def test_columns_come_after_the_shape_as_means_over_incident_elements(mesh: Mesh) -> None:
    mesh = sloped(mesh)
    prepared = prepare(mesh, CONFIG)
    for kind, width in zip(KINDS, (3, 12, 9), strict=True):
        assert prepared.x_in[kind].shape[1] == CONFIG.widths[kind] == width + 3
        for i, (name, source) in enumerate([("of_vertex", "v"), ("of_edge", "e"), ("of_face", "f")]):
            values = mesh.columns[name].values[:, None]
            values = (values - 0.2) / 2.0 if name == "of_vertex" else values
            wanted = convert_values(values, mesh, source=source, to=kind)[:, 0]
            found = prepared.to_file_order(prepared.x_in[kind], kind)[:, width + i]
            np.testing.assert_allclose(found, wanted, atol=1e-6)


def moved(mesh: Mesh, seed: int) -> Mesh:
    """The same surface and columns in another numbering."""
    other, new_vertex, new_face = renumbered(mesh, seed)
    back_v, back_f = np.argsort(new_vertex), np.argsort(new_face)
    ends = np.sort(back_v[other.topology.edges], axis=1).tolist()
    edge_of = {tuple(end): i for i, end in enumerate(np.sort(mesh.topology.edges, axis=1).tolist())}
    rows = {"vertex": back_v, "face": back_f, "edge": np.array([edge_of[tuple(end)] for end in ends])}
    columns = {name: (element, values[rows[element]]) for name, (element, values) in mesh.columns.items()}
    return other.with_columns(columns)


@pytest.mark.parametrize("mesh", [meshes.icosphere(2), meshes.open_grid(), meshes.non_manifold_fan()])
def test_renumbering_changes_nothing(mesh: Mesh) -> None:
    mesh = sloped(mesh)
    for seed in range(3):
        before, after = prepare(mesh, CONFIG), prepare(moved(mesh, seed), CONFIG)
        for kind in KINDS:
            np.testing.assert_array_equal(before.x_in[kind], after.x_in[kind])


def test_renumbering_a_mesh_that_is_simplified_changes_nothing() -> None:
    mesh = sloped(meshes.icosphere(3))
    before, after = (simplify(each, 200).mesh for each in (mesh, moved(mesh, 1)))
    np.testing.assert_array_equal(before.faces, after.faces)
    for kind in KINDS:
        np.testing.assert_array_equal(prepare(before, CONFIG).x_in[kind], prepare(after, CONFIG).x_in[kind])


def test_color_is_that_of_the_file(tmp_path: Path) -> None:
    mesh, rng = meshes.icosphere(1), np.random.default_rng(0)
    colors = rng.integers(0, 256, (42, 3)).astype(np.uint8)
    for suffix in ("ply", "obj", "off", "glb"):
        save_mesh(mesh, tmp_path / f"a.{suffix}", vertex_colors=colors)
    config = PrepareConfig(features=("color",))
    wanted = prepare(mesh.with_columns({"color": colors}), config)
    np.testing.assert_array_equal(wanted.to_file_order(wanted.x_in.v, "v"), colors)
    for given in (mesh.with_columns({"color": colors / 255.0}), *(tmp_path / f"a.{s}" for s in ("ply", "obj", "off"))):
        np.testing.assert_array_equal(prepare(given, config).x_in.v, wanted.x_in.v)
    assert load_mesh(tmp_path / "a.glb").found_columns.keys() == {"color_0", "color_1", "color_2"}
    save_mesh(mesh, tmp_path / "labeled.ply", vertex_colors=0 * colors, vertex_own_colors=colors)
    np.testing.assert_array_equal(prepare(tmp_path / "labeled.ply", config).x_in.v, wanted.x_in.v)


def test_a_missing_column_is_named_with_those_that_are_there() -> None:
    mesh = meshes.icosphere(1).with_columns({"heat": np.arange(42.0), "color": np.ones((80, 3))})
    with pytest.raises(MeshError, match=r"'curvature' is missing; found: heat \(vertex\), color \(face\)"):
        prepare(mesh, PrepareConfig(features=("coords", "ply:curvature")))
    with pytest.raises(MeshError, match=r"icosphere: the column 'color' is missing; found: none"):
        prepare(meshes.icosphere(1), PrepareConfig(features=("coords", "color")))
    values = np.where(np.arange(42) > 39, np.nan, 0.0)
    with pytest.raises(MeshError, match=r"column 'heat' is nan at vertex 40 \(2 such values\)"):
        prepare(mesh.with_columns({"heat": values}), PrepareConfig(features=("heat",)))


def test_a_misspelled_feature_is_no_column() -> None:
    assert PrepareConfig(features=("curvature", "color", "normals")).features == ("normals", "ply:curvature", "color")
    assert PrepareConfig(features=("ply:normal",)).own_columns == ("normal",)
    for wrong, right in (("normal", "normals"), ("colour", "color"), ("distance", "distances")):
        with pytest.raises(ConfigError, match=f"unknown feature '{wrong}'; use {right}"):
            PrepareConfig(features=(wrong,))


def test_a_file_that_is_cut_off_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    save_mesh(sloped(meshes.open_grid()), tmp_path / "whole.ply")
    for data in ((tmp_path / "whole.ply").read_bytes(), (TEXT.format(n=5) + EDGES).encode()):
        for end in range(4, len(data) - 3, 29):  # in text, the last row may lose digits
            (tmp_path / "cut.ply").write_bytes(data[:end])
            with pytest.raises(MeshError):
                load_mesh(tmp_path / "cut.ply")
