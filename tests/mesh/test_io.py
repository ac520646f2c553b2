"""What is written is what is read, in every format; and hand-made files in every dialect."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import HealthCheck, given, settings

from hodgeformer.base.errors import MeshError, MeshFormatError
from hodgeformer.base.files import place
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from meshes import all_kinds, icosphere, tetrahedron
from soups import soups

EXACT = (".obj", ".off", ".ply")
SUFFIXES = (*EXACT, ".stl", ".glb")
STORED = {
    ".obj": ["face_colors", "vertex_colors", "face_labels"],
    ".off": ["face_colors", "vertex_colors"],
    ".ply": ["face_colors", "vertex_colors", "face_labels", "vertex_labels", "face_own_colors", "vertex_own_colors"],
    ".stl": [],
    ".glb": ["face_colors", "vertex_colors", "face_labels", "vertex_labels", "face_own_colors", "vertex_own_colors"],
}


def attribute(kind: str, mesh: Mesh, channels: int = 3) -> np.ndarray:
    rng = np.random.default_rng(len(kind))
    n = mesh.n_faces if kind.startswith("face") else mesh.n_vertices
    if kind.endswith("labels"):
        return rng.integers(-1, 9, n)
    return rng.integers(0, 256, (n, channels), dtype=np.uint8)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def assert_same(read: Mesh, mesh: Mesh, suffix: str) -> None:
    expected = mesh.vertices if suffix in EXACT else mesh.vertices.astype(np.float32)
    np.testing.assert_array_equal(read.faces, mesh.faces)
    np.testing.assert_array_equal(read.vertices, expected)


@pytest.mark.parametrize("suffix", [*EXACT, ".glb"])
@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_round_trip_keeps_order_and_numbers(mesh: Mesh, suffix: str, tmp_path: Path) -> None:
    save_mesh(mesh, tmp_path / f"m{suffix}")
    read = load_mesh(tmp_path / f"m{suffix}")
    assert_same(read, mesh, suffix)
    assert read.polygons is None
    assert read.name == "m"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mesh=soups(coincident=False))
@pytest.mark.parametrize("suffix", [*EXACT, ".glb"])
def test_round_trip_of_soups_with_everything_the_format_stores(mesh: Mesh, suffix: str, tmp_path: Path) -> None:
    kinds = [kind for kind in STORED[suffix] if suffix != ".glb" or kind != "vertex_colors"]
    given_ = {kind: attribute(kind, mesh) for kind in kinds}
    save_mesh(mesh, tmp_path / f"m{suffix}", **given_)
    read = load_mesh(tmp_path / f"m{suffix}")
    assert_same(read, mesh, suffix)
    assert set(read.attributes) == set(kinds)
    for kind, values in given_.items():
        np.testing.assert_array_equal(read.attributes[kind], values)
        assert read.attributes[kind].dtype == values.dtype


@pytest.mark.parametrize(
    ("suffix", "kind", "channels"),
    [
        (suffix, kind, channels)
        for suffix in SUFFIXES
        for kind in STORED[suffix]
        for channels in ((3, 4) if kind.endswith("colors") else (3,))
        if (suffix, kind, channels) != (".obj", "vertex_colors", 4)  # no alpha there
    ],
)
def test_each_attribute_alone(suffix: str, kind: str, channels: int, tmp_path: Path) -> None:
    mesh = icosphere(1)
    values = attribute(kind, mesh, channels)
    save_mesh(mesh, tmp_path / f"m{suffix}", **{kind: values})
    read = load_mesh(tmp_path / f"m{suffix}")
    assert_same(read, mesh, suffix)
    np.testing.assert_array_equal(read.attributes[kind], values)
    assert set(read.attributes) == {kind}


@given(mesh=soups(coincident=False))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stl_round_trip_has_the_same_triangles(mesh: Mesh, tmp_path: Path) -> None:
    save_mesh(mesh, tmp_path / "m.stl")
    read = load_mesh(tmp_path / "m.stl")
    single = mesh.vertices.astype(np.float32)
    np.testing.assert_array_equal(read.vertices[read.faces], single[mesh.faces])
    assert read.n_vertices >= len(np.unique(single[mesh.faces.ravel()], axis=0))
    _, first = np.unique(read.faces, return_index=True)
    assert (np.diff(first) > 0).all(), "vertices are numbered by first appearance"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_another_library_reads_the_same(suffix: str, tmp_path: Path) -> None:
    mesh = icosphere(1)
    colors = attribute("face_colors", mesh)
    path = tmp_path / f"m{suffix}"
    # That library sorts the faces of an OBJ by material.
    save_mesh(mesh, path, **({} if suffix in (".stl", ".obj") else {"face_colors": colors}))
    (other,) = trimesh.load_scene(path, process=False).geometry.values()
    np.testing.assert_allclose(other.triangles, mesh.vertices[mesh.faces], atol=1e-6)
    if suffix == ".ply":
        np.testing.assert_array_equal(other.visual.face_colors[:, :3], colors)
    if suffix == ".glb":
        seen = other.visual.vertex_attributes["color"][other.faces[:, 0]]
        np.testing.assert_array_equal(np.asarray(seen)[:, :3], colors)


@pytest.mark.parametrize("kind", ["ply", "stl", "stl_ascii", "off", "obj", "glb", "gltf"])
def test_files_of_another_library(kind: str, tmp_path: Path) -> None:
    mesh = icosphere(1)
    path = tmp_path / f"m.{kind.split('_', maxsplit=1)[0]}"
    exported = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(file_type=kind)
    if kind == "gltf":
        for name, data in exported.items():
            write(tmp_path, "m.gltf" if name == "model.gltf" else name, data)
    else:
        write(tmp_path, path.name, exported)
    read = load_mesh(path)
    np.testing.assert_allclose(read.vertices[read.faces], mesh.vertices[mesh.faces], atol=1e-6)


def test_obj_dialects(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "M.OBJ",
        "# a comment\r\nmtllib gone.mtl\r\no thing\r\n  v 0 0 0 # inline\r\nv 1 0 0\nv\t1 1 0\nvt 0 0\nvn 0 0 1\n"
        "f 1/1/1 2/1/1 3/1/1\nv 0 1 0\n\nusemtl red\nf 1//1 -2//1 -1//1\nf 1/1 \\\n  2/1 \\\n3/1\ng x\ns off\nl 1 2\n",
    )
    read = load_mesh(path)
    np.testing.assert_array_equal(read.faces, [[0, 1, 2], [0, 2, 3], [0, 1, 2]])
    np.testing.assert_array_equal(read.vertices, [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    assert len(read.notes) == 1 and re.search(r"colors of faces ignored: .*'gone\.mtl'", read.notes[0])


def test_obj_texture_seams_do_not_split_vertices(tmp_path: Path) -> None:
    lines = [f"v {x} {y} 0\nvt 0.{x} 0.{y}\n" for x in (0, 1) for y in (0, 1)]
    read = load_mesh(write(tmp_path, "m.obj", "".join(lines) + "f 1/1 3/2 2/3\nf 2/4 3/1 4/2\n"))
    assert read.n_vertices == 4
    np.testing.assert_array_equal(read.faces, [[0, 2, 1], [1, 2, 3]])


def test_obj_with_vertex_colors_old_newlines_and_unknown_lines(tmp_path: Path) -> None:
    text = "v 0 0 0 1 0 0\rv 1 0 0 0 1 0\rv 0 1 0 0 0 0.5\rwhat is this\rf 1 2 3"
    read = load_mesh(write(tmp_path, "m.obj", text))
    np.testing.assert_array_equal(read.attributes["vertex_colors"], [[255, 0, 0], [0, 255, 0], [0, 0, 128]])
    assert len(read.notes) == 1 and re.search(r"1 .* unknown .* line 4", read.notes[0])


def test_polygons_are_cut_and_mapped_back(tmp_path: Path) -> None:
    # A square, an arrow head that no fan from its first corner covers, and a plain triangle.
    text = (
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"
        "v 2 0 0\nv 4 0 0\nv 4 2 0\nv 3 0.2 0\nv 2 2 0\nv 0 0 1\n"
        "f 1 2 3 4\nf 5 6 7 8 9\nf 1 2 10\n"
    )
    read = load_mesh(write(tmp_path, "m.obj", text))
    assert read.polygons is not None
    np.testing.assert_array_equal(read.polygons, [0, 0, 1, 1, 1, 2])
    np.testing.assert_array_equal(read.faces[:2], [[0, 1, 2], [0, 2, 3]])
    assert set(read.faces[2:5].ravel()) == {4, 5, 6, 7, 8}
    corners = read.vertices[read.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normals[:5, 2] > 0).all(), "no triangle is turned over"
    assert normals[2:5, 2].sum() / 2 == pytest.approx(2.2)
    assert read.notes == ("2 polygons cut into triangles", "1 of them are not convex")


@pytest.mark.parametrize("rotation", range(7))
@pytest.mark.parametrize(
    "outline",
    [
        [[0, 0], [4, 0], [4, 3], [3, 3], [3, 1], [1, 1], [1, 3]],
        # Two notches: no corner sees all of it, so ears must be clipped.
        [[0, 0], [3, 0], [3, 1], [4, 1], [4, 0], [7, 0], [7, 4], [5, 4], [5, 2], [2, 2], [2, 4], [0, 4]],
    ],
)
def test_concave_polygons_keep_their_area_whatever_the_first_corner(
    rotation: int, outline: list[list[float]], tmp_path: Path
) -> None:
    points = np.roll(np.array(outline, dtype=float), rotation, axis=0)
    tilted = np.column_stack([points, points @ [0.3, -0.2]])
    text = (
        "".join(f"v {x!r} {y!r} {z!r}\n" for x, y, z in tilted.tolist())
        + "f "
        + " ".join(map(str, range(1, len(points) + 1)))
        + "\n"
    )
    read = load_mesh(write(tmp_path, "m.obj", text))
    flat = read.vertices[read.faces][:, :, :2]
    side, other = flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]
    areas = (side[:, 0] * other[:, 1] - side[:, 1] * other[:, 0]) / 2
    shoelace = points[:, 0] @ np.roll(points[:, 1], -1) - points[:, 1] @ np.roll(points[:, 0], -1)
    assert (areas >= 0).all()
    assert areas.sum() == pytest.approx(shoelace / 2)


@pytest.mark.parametrize(
    "text",
    [
        "OFF\n# comment\n4 2 0\n\n0 0 0\n1 0 0 # end\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n",
        "OFF 4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n",
        "4 2\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n",
        "# first\nNOFF\n4 2 0\n0 0 0 0 0 1\n1 0 0 0 0 1\n1 1 0 0 0 1\n0 1 0 0 0 1\n3 0 1 2\n3 0 2 3\n",
        "OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3  0 1 2 7\n3  0 2 3 7\n",
    ],
)
def test_off_dialects(text: str, tmp_path: Path) -> None:
    read = load_mesh(write(tmp_path, "m.off", text))
    np.testing.assert_array_equal(read.vertices, [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(read.faces, [[0, 1, 2], [0, 2, 3]])
    assert not read.attributes


def test_off_colors_and_polygons(tmp_path: Path) -> None:
    text = "COFF\n4 1 0\n0 0 0 255 0 0 255\n1 0 0 0 0 0 9\n1 1 0 1 1 1 1\n0 1 0 7 8 9 10\n4 0 1 2 3 1.0 0.0 0.5\n"
    read = load_mesh(write(tmp_path, "m.off", text))
    np.testing.assert_array_equal(read.attributes["vertex_colors"][[0, 3]], [[255, 0, 0, 255], [7, 8, 9, 10]])
    np.testing.assert_array_equal(read.attributes["face_colors"], [[255, 0, 128]] * 2)
    np.testing.assert_array_equal(read.polygons, [0, 0])


PLY_HEAD = (
    "ply\nformat {} 1.0\ncomment hello\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
    "property uchar red\nproperty uchar green\nproperty uchar blue\nelement face 3\n"
    "property list uchar int vertex_indices\nproperty int label\nelement edge 1\nproperty int a\nend_header\n"
)
PLY_VERTICES = [(0, 0, 0, 1, 2, 3), (1, 0, 0, 4, 5, 6), (1, 1, 0, 7, 8, 9), (0, 1, 0, 9, 9, 9), (0.5, 0.5, 1, 0, 0, 0)]
PLY_FACES = [([0, 1, 2, 3], 7), ([0, 1, 4], -2), ([1, 2, 4], 5)]


def ply_file(order: str) -> bytes:
    head = PLY_HEAD.format(order).encode()
    if order == "ascii":
        rows = [" ".join(map(str, row)) for row in PLY_VERTICES]
        rows += [" ".join(map(str, [len(corners), *corners, label])) for corners, label in PLY_FACES]
        return head + "\n".join([*rows, "3"]).encode()
    mark = "<" if "little" in order else ">"
    body = b"".join(struct.pack(f"{mark}fffBBB", *row) for row in PLY_VERTICES)
    for corners, label in PLY_FACES:
        body += struct.pack(f"{mark}B{len(corners)}ii", len(corners), *corners, label)
    return head + body + struct.pack(f"{mark}i", 3)


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_dialects_with_mixed_polygons_colors_and_labels(order: str, tmp_path: Path) -> None:
    read = load_mesh(write(tmp_path, "m.ply", ply_file(order)))
    np.testing.assert_array_equal(read.vertices, [row[:3] for row in PLY_VERTICES])
    np.testing.assert_array_equal(read.faces, [[0, 1, 2], [0, 2, 3], [0, 1, 4], [1, 2, 4]])
    np.testing.assert_array_equal(read.polygons, [0, 0, 1, 2])
    np.testing.assert_array_equal(read.attributes["face_labels"], [7, 7, -2, 5])
    np.testing.assert_array_equal(read.attributes["vertex_colors"], [row[3:] for row in PLY_VERTICES])


def test_binary_stl_that_begins_with_solid(tmp_path: Path) -> None:
    save_mesh(tetrahedron(), tmp_path / "m.stl")
    data = (tmp_path / "m.stl").read_bytes()
    read = load_mesh(write(tmp_path, "s.stl", b"solid box".ljust(80) + data[80:]))
    assert (read.n_vertices, read.n_faces) == (4, 4)


def test_ascii_stl_with_several_solids_and_capitals(tmp_path: Path) -> None:
    loop = "  OUTER LOOP\n    VERTEX {}\n    VERTEX {}\n    VERTEX {}\n  ENDLOOP\n"
    facet = f"  FACET NORMAL 0 0 1\n{loop}  ENDFACET\n"
    one = facet.format("0 0 0", "1 0 0", "0 1 0")
    two = facet.format("0 1 -0.0", "1 0 0", "1 1 0")
    read = load_mesh(write(tmp_path, "m.stl", f"solid a\n{one}endsolid a\nsolid b\n{two}endsolid b\n"))
    np.testing.assert_array_equal(read.faces, [[0, 1, 2], [2, 1, 3]])
    assert read.notes == ("6 corners welded into 4 vertices",)


def gltf_scene(**more: object) -> dict[str, object]:
    """One triangle, placed by a parent that mirrors and a child that turns, and once more by a matrix."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype="<f4").tobytes()
    indices = np.array([0, 1, 2], dtype="<u2").tobytes()
    half = 0.5**0.5
    return {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0, 2]}],
        "nodes": [
            {"children": [1], "scale": [-1, 1, 1], "translation": [10, 0, 0]},
            {"mesh": 0, "rotation": [0, 0, half, half]},
            {"mesh": 0, "matrix": [2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 5, 1]},
        ],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5123, "count": 3, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": 36},
            {"buffer": 0, "byteOffset": 36, "byteLength": 6},
        ],
        "buffers": [{"byteLength": 42, "uri": "data:;base64," + base64.b64encode(points + indices).decode()}],
        **more,
    }


def test_gltf_colors_of_one_number_are_refused(tmp_path: Path) -> None:
    colored = gltf_scene(meshes=[{"primitives": [{"attributes": {"POSITION": 0, "COLOR_0": 1}, "indices": 1}]}])
    with pytest.raises(MeshFormatError, match="three or four numbers"):
        load_mesh(write(tmp_path, "m.gltf", json.dumps(colored)))


def test_gltf_scene_is_joined_in_file_order_with_its_placements(tmp_path: Path) -> None:
    read = load_mesh(write(tmp_path, "m.gltf", json.dumps(gltf_scene())))
    turned = [[10, 0, 0], [10, 1, 0], [11, 0, 0]]
    np.testing.assert_allclose(read.vertices, [*turned, [0, 0, 5], [2, 0, 5], [0, 2, 5]], atol=1e-12)
    np.testing.assert_array_equal(read.faces, [[2, 1, 0], [3, 4, 5]])
    assert read.notes == ("2 parts of the scene were joined",)


@pytest.mark.parametrize(("mode", "faces"), [(5, [[0, 1, 2], [2, 1, 3]]), (6, [[0, 1, 2], [0, 2, 3]])])
def test_gltf_strips_and_fans(mode: int, faces: list[list[int]], tmp_path: Path) -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype="<f4").tobytes()
    scene = gltf_scene(
        nodes=[{"mesh": 0}],
        scenes=[{"nodes": [0]}],
        meshes=[{"primitives": [{"attributes": {"POSITION": 0}, "mode": mode}, {"attributes": {}, "mode": 1}]}],
        accessors=[{"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"}],
        bufferViews=[{"buffer": 0, "byteLength": 48}],
        buffers=[{"byteLength": 48, "uri": "data:;base64," + base64.b64encode(points).decode()}],
    )
    read = load_mesh(write(tmp_path, "m.gltf", json.dumps(scene)))
    np.testing.assert_array_equal(read.faces, faces)
    assert read.notes == ("1 primitives of points or lines were skipped",)


@pytest.mark.parametrize("suffix", [".obj", ".off", ".ply", ".stl", ".glb"])
def test_the_content_decides_if_the_suffix_is_unknown(suffix: str, tmp_path: Path) -> None:
    save_mesh(icosphere(0), tmp_path / f"m{suffix}")
    (tmp_path / f"m{suffix}").rename(tmp_path / "m.dat")
    read = load_mesh(tmp_path / "m.dat")
    assert read.n_faces == 20
    assert read.notes[0].startswith(f"read as {suffix[1:].upper()}")


def test_obj_face_colors_are_in_a_material_file_without_reordering(tmp_path: Path) -> None:
    mesh = tetrahedron()
    save_mesh(mesh, tmp_path / "a b.obj", face_colors=[[255, 0, 0], [0, 255, 0], [255, 0, 0], [255, 0, 0]])
    lines = (tmp_path / "a b.obj").read_text().splitlines()
    assert lines[0] == "mtllib a b.mtl"
    assert [line for line in lines if line.startswith("usemtl")] == [
        "usemtl color_ff0000",
        "usemtl color_00ff00",
        "usemtl color_ff0000",
    ]
    assert (tmp_path / "a b.mtl").read_text().count("newmtl") == 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saving_leaves_only_the_file_and_replaces_what_was_there(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"m{suffix}", "something old")
    save_mesh(tetrahedron(), path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert load_mesh(path).n_faces == 4


@pytest.mark.parametrize(
    ("suffix", "given_", "message"),
    [
        (
            ".stl",
            {"face_colors": np.zeros((4, 3), int)},
            r"STL cannot store face_colors; use \.obj, \.off, \.ply, \.glb",
        ),
        (".obj", {"vertex_labels": np.zeros(4, int)}, r"OBJ cannot store vertex_labels; use \.ply, \.glb"),
        (".obj", {"vertex_colors": np.zeros((4, 4), int)}, "transparent"),
        (".glb", {"vertex_colors": np.zeros((4, 3), int), "face_colors": np.zeros((4, 3), int)}, "not both"),
        (".ply", {"face_colors": np.zeros((3, 3), int)}, r"shape \(4, 3\) or \(4, 4\), got \(3, 3\)"),
        (".ply", {"face_colors": np.zeros((4, 3))}, "integers, got float64"),
        (".ply", {"face_colors": np.full((4, 3), 256)}, r"0\.\.255"),
        (".ply", {"face_labels": np.full(4, 2**31)}, "face_labels must be in"),
        (".glb", {"face_labels": np.full(4, 2**25)}, "use .ply"),
        (".xyz", {}, r"cannot write '\.xyz'; supported: \.obj"),
    ],
)
def test_what_a_format_cannot_store_is_refused(
    suffix: str, given_: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    with pytest.raises(MeshError, match=message):
        save_mesh(tetrahedron(), tmp_path / f"m{suffix}", **given_)
    assert not list(tmp_path.iterdir())


def test_saving_where_no_folder_is(tmp_path: Path) -> None:
    with pytest.raises(MeshError, match="does its folder exist"):
        save_mesh(tetrahedron(), tmp_path / "none" / "m.ply")


def test_coordinates_too_large_for_float32(tmp_path: Path) -> None:
    with pytest.raises(MeshError, match="too large"):
        save_mesh(tetrahedron().with_vertices(tetrahedron().vertices * 1e300), tmp_path / "m.glb")


@pytest.mark.parametrize("suffix", [*EXACT, ".glb"])
def test_a_mesh_at_an_address_is_written_and_read_with_what_is_beside_it(suffix: str) -> None:
    mesh, address = icosphere(1), f"memory://meshes/a{suffix}"
    colors = {kind: attribute(kind, mesh) for kind in STORED[suffix][:1]}
    save_mesh(mesh, address, **colors)
    read = load_mesh(address)
    assert_same(read, mesh, suffix)
    assert read.name == "a"
    for kind, values in colors.items():
        np.testing.assert_array_equal(read.attributes[kind][:, :3], values)


@pytest.mark.parametrize("name", ["../b/red.mtl", "/b/red.mtl", "memory://b/red.mtl", "file:///etc/hostname"])
def test_nothing_outside_the_address_of_a_mesh_is_read(name: str) -> None:
    place("memory://b/red.mtl").write_bytes(b"newmtl red\nKd 1 0 0\n")
    lines = f"mtllib {name}\nusemtl red\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
    place("memory://a/m.obj").write_bytes(lines.encode())
    assert not load_mesh("memory://a/m.obj").attributes


def test_a_missing_remote_mesh_is_reported() -> None:
    with pytest.raises(MeshError, match=r"memory://meshes/gone\.ply: the file does not exist"):
        load_mesh("memory://meshes/gone.ply")
