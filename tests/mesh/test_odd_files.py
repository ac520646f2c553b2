"""Malicious and unusual files: each is read correctly or refused with its name, quickly."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import meshes
from clock import at_most
from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.elements import radius
from hodgeformer.mesh.geometry import in_range
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.up import up_from_shape

PLY = """ply
format {order} 1.0
element vertex {v}
property float x
property float y
property float z
element face {f}
property list {count} int vertex_indices
end_header
"""
TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"


@pytest.mark.parametrize("n", [10**9, 10**12, 10**18, 10**30])
@pytest.mark.parametrize("where", ["v", "f"])
@pytest.mark.parametrize("order", ["binary_little_endian", "binary_big_endian", "ascii"])
def test_rows_that_are_announced_but_not_there(n: int, where: str, order: str, tmp_path: Path) -> None:
    counts = {"v": 3, "f": 1} | {where: n}
    path = tmp_path / "m.ply"
    path.write_bytes(PLY.format(order=order, count="uchar", **counts).encode() + bytes(49))
    with pytest.raises(MeshFormatError):
        load_mesh(path)


@pytest.mark.parametrize("count", ["float", "double"])
def test_lengths_of_lists_are_whole_numbers(count: str, tmp_path: Path) -> None:
    path = tmp_path / "m.ply"
    head = PLY.format(order="binary_little_endian", count=count, v=3, f=1).encode()
    path.write_bytes(head + np.zeros(9, "<f4").tobytes() + struct.pack("<f", float("nan")) + bytes(12))
    with pytest.raises(MeshFormatError, match="property list"):
        load_mesh(path)


TEXTS = {
    "m.obj": TRIANGLE + "v 9 9 9\nf 1 2 3\n",
    "m.off": "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    "m.ply": PLY.format(order="ascii", count="uchar", v=3, f=1) + "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    "m.stl": "solid\nfacet\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid\n",
    "m.gltf": json.dumps(
        {
            "asset": {"version": "2.0"},
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
            "bufferViews": [{"buffer": 0, "byteLength": 36}],
            "buffers": [
                {
                    "byteLength": 36,
                    "uri": "data:;base64,"
                    + base64.b64encode(np.array([0, 0, 0, 1, 0, 0, 0, 1, 0], "<f4").tobytes()).decode(),
                }
            ],
        }
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_byte_order_mark_is_ignored(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(TEXTS[name].encode("utf-8-sig"))
    read = load_mesh(tmp_path / name)
    np.testing.assert_array_equal(read.vertices[read.faces[0]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]])


def test_tangled_polygons_take_a_bounded_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, k = 400, 128
    lines = [f"v {x!r} {y!r} 0" for x, y in rng.random((n * k, 2)).tolist()]
    lines += ["f " + " ".join(map(str, range(1 + i * k, 1 + (i + 1) * k))) for i in range(n)]
    (tmp_path / "m.obj").write_text("\n".join(lines))
    with at_most(10):
        read = load_mesh(tmp_path / "m.obj")
    assert read.n_faces == n * (k - 2)
    assert any("triangles may overlap" in note for note in read.notes)


def test_a_star_of_a_hundred_corners_keeps_its_area(tmp_path: Path) -> None:
    angles = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    radii = np.where(np.arange(100) % 2, 1.0, 0.2)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    text = "".join(f"v {x!r} {y!r} 0\n" for x, y in points.tolist()) + "f " + " ".join(map(str, range(1, 101)))
    (tmp_path / "star.obj").write_text(text)
    star = load_mesh(tmp_path / "star.obj")
    shoelace = 0.5 * np.abs(points[:, 0] @ np.roll(points[:, 1], -1) - points[:, 1] @ np.roll(points[:, 0], -1))
    assert check_mesh(star).area == pytest.approx(shoelace)


def test_a_scene_that_repeats_one_mesh_without_end_is_refused(tmp_path: Path) -> None:
    document = json.loads(TEXTS["m.gltf"])
    document["accessors"][0]["count"] = 3000
    document["bufferViews"][0]["byteLength"] = document["buffers"][0]["byteLength"] = 36_000
    document["buffers"][0]["uri"] = "data:;base64," + base64.b64encode(bytes(36_000)).decode()
    for n_nodes, fits in ((100, True), (3000, False)):
        document["nodes"] = [{"mesh": i} for i in range(n_nodes)]
        document["meshes"] = [{"primitives": [{"attributes": {"POSITION": 0}}]}] * n_nodes
        (tmp_path / "m.gltf").write_text(json.dumps(document))
        if fits:
            assert load_mesh(tmp_path / "m.gltf").n_faces == 100_000
        else:
            with pytest.raises(MeshFormatError, match="repeats its meshes"):
                load_mesh(tmp_path / "m.gltf")


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "-" + "9" * 19, "٣"])
def test_groups_with_numbers_of_no_label(number: str, tmp_path: Path) -> None:
    (tmp_path / "m.obj").write_text(f"{TRIANGLE}g label_{number}\nf 1 2 3\n")
    assert "face_labels" not in load_mesh(tmp_path / "m.obj").attributes


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "../secret", "." * 300 + "/y"])
def test_names_of_other_files_that_are_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.obj").write_text(f"mtllib {name.replace(chr(0), '')}\n{TRIANGLE}usemtl a\nf 1 2 3\n")
    assert "not in the folder of the mesh" in load_mesh(tmp_path / "m.obj").notes[0]
    document = json.loads(TEXTS["m.gltf"])
    document["buffers"][0]["uri"] = name
    (tmp_path / "m.gltf").write_text(json.dumps(document))
    with pytest.raises(MeshFormatError, match="not in the same folder") as caught:
        load_mesh(tmp_path / "m.gltf")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("far", [1e34, 1e200, -1e300, 1.7e308])
def test_a_vertex_that_no_face_uses_may_lie_anywhere(far: float) -> None:
    sphere = meshes.icosphere(3)
    spoiled = Mesh(np.vstack([sphere.vertices, [[far, far, -far]]]), sphere.faces)
    for config in (PrepareConfig(), PrepareConfig(pose="frame", size="area", winding="outward")):
        clean, prepared = prepare(sphere, config), prepare(spoiled, config)
        np.testing.assert_array_equal(
            prepared.positions[np.argsort(prepared.order.v)[:-1]], clean.positions[np.argsort(clean.order.v)]
        )
        assert max(float(np.abs(x).max()) for x in prepared.x_in) < 100
    small = simplify(spoiled, 200)
    np.testing.assert_array_equal(small.mesh.vertices, simplify(sphere, 200).mesh.vertices)
    values = np.arange(small.mesh.n_vertices, dtype=float)
    assert np.isfinite(small.values_back(values, "v")).all()
    assert check_mesh(spoiled).n_unreferenced_vertices == 1


@pytest.mark.parametrize("far", [1e20, 1e40, 1e80, 1e200])
def test_a_surface_that_is_nearly_a_line_has_finite_features(far: float) -> None:
    """Its area is too small to scale by: divided by its root, coordinates are infinite in float32."""
    ball = meshes.icosphere(1)
    vertices = ball.vertices.copy()
    vertices[3, 0] = far
    config = PrepareConfig(size="area", features=("coords", "normals", "distances"))
    assert max(float(np.abs(x).max()) for x in prepare(ball.with_vertices(vertices), config).x_in) < 1e7


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e40, 1e200, 1e307])
def test_what_an_extreme_mesh_is_scaled_to(size: float) -> None:
    ball = meshes.icosphere(1)
    large = Mesh(np.vstack([size * ball.vertices, [[1.7e308, 0, 0]]]), ball.faces)
    scaled = in_range(large)
    assert radius(large) == pytest.approx(size * radius(ball), rel=1e-3)
    assert 0.4 < radius(scaled) < 1.1 and np.abs(scaled.vertices).max() < 1e31
    np.testing.assert_array_equal(up_from_shape(large), up_from_shape(ball))
    assert in_range(ball) is ball


def test_sheets_that_touch_in_points_stay_apart_in_stl(tmp_path: Path) -> None:
    """Two closed surfaces with four vertices at the same places: the STL file is the same surface as the PLY file."""
    ball = meshes.icosphere(2)
    other = ball.with_vertices(ball.vertices + np.array([2.0, 0.0, 0.0]))
    touching = other.vertices.copy()
    touching[:4] = ball.vertices[:4]
    mesh = Mesh(np.vstack([ball.vertices, touching]), np.vstack([ball.faces, other.faces + ball.n_vertices]))
    for suffix in (".ply", ".stl"):
        save_mesh(mesh, tmp_path / f"m{suffix}")
    ply, stl = (check_mesh(load_mesh(tmp_path / f"m{suffix}")) for suffix in (".ply", ".stl"))
    assert (stl.n_vertices, stl.n_edges, stl.n_components) == (ply.n_vertices, ply.n_edges, ply.n_components)
    assert stl.closed


@pytest.mark.parametrize("text", ["OFF\n" + "1" * 5000 + " 1 0\n", "OFF\n3 1 0\n0 0 " + "x" * 5000 + "\n"])
def test_refusals_do_not_repeat_a_long_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.off").write_text(text)
    with pytest.raises(MeshFormatError) as caught:
        load_mesh(tmp_path / "m.off")
    assert len(str(caught.value)) < 500
