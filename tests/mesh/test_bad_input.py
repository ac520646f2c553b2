"""Any file loads as a mesh or raises a MeshError that names it: no library traceback, no NaN, no hang."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clock import at_most
from hodgeformer.base.errors import MeshError, MeshFormatError
from hodgeformer.mesh.io import MESH_SUFFIXES, load_mesh, save_mesh
from meshes import tetrahedron

TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
OFF = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n"
PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
)
STL = "solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 {} 0\nendloop\n{}endsolid\n"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("suffix", MESH_SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"\n", b" ", b"x", b"\0", b"\xff", b"{", b"\x80\0\0\1" * 300])
def test_empty_tiny_and_random_files(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"m{suffix}", content)
    with pytest.raises(MeshFormatError) as caught:
        load_mesh(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("m.obj", TRIANGLE, None, "no faces"),
        ("m.obj", "f 1 2 3\n", 1, "face 0 refers to vertex 0, but the file has 0 vertices"),
        ("m.obj", TRIANGLE + "\n# c\nf 1 2 4\n", 6, "face 0 refers to vertex 3, but the file has 3 vertices"),
        ("m.obj", TRIANGLE + "f 1 2 3\nf 1 -4 2\n", 5, "face 1 refers to vertex -1"),
        ("m.obj", TRIANGLE + "f 0 1 2\n", 4, "OBJ counts from 1"),
        ("m.obj", TRIANGLE + "f 1 2\n", 4, "face 0 has 2 corners, at least 3"),
        ("m.obj", TRIANGLE + "f 1 2 3.5\n", 4, "must be integers, found '3.5'"),
        ("m.obj", TRIANGLE + "f 1 2 /3\n", 4, "must be integers, found '/3'"),
        ("m.obj", TRIANGLE + f"f 1 2 {10**30}\n", 4, "must be integers"),
        ("m.obj", "v 0 0 0\nv 1 0,5 0\nv 0 1 0\nf 1 2 3\n", 2, "must be numbers such as 0.25 or 1e-3, found '0,5'"),
        ("m.obj", "v 0 0 0\nv 1 0\nv 0 1 0\nf 1 2 3\n", 2, "needs 3 coordinates, found 2"),
        ("m.obj", "v 0 0 0\nv 1 \\\n nan 0\nv 0 1 0\nf 1 2 3\n", 2, "vertex 1 has coordinates [1.0, nan, 0.0]"),
        ("m.obj", "v 0 0 0\nv 1 0 0\nv 0 1e999 0\nf 1 2 3\n", 3, "not finite"),
        ("m.obj", "<html>\n<body>\n", 1, "not an OBJ mesh"),
        ("m.obj", TRIANGLE + "f 1 2 3\n\0", 5, "not a text file"),
        ("m.off", OFF, 5, "the file ends early: expected 3 vertices and 1 faces"),
        ("m.off", OFF + "3 0 1 3\n", 6, "face 0 refers to vertex 3"),
        ("m.off", OFF + "3 0 1 -1\n", 6, "face 0 refers to vertex -1"),
        ("m.off", OFF + "3 0 1\n", 6, "begins with its number of corners; found 3 and 2 more"),
        ("m.off", OFF + "3 0 1 inf\n", 6, "corners must be integers, found inf"),
        ("m.off", OFF + "nan 0 1 2\n", 6, "begins with its number of corners"),
        ("m.off", OFF.replace("1 0 0", "1 inf 0") + "3 0 1 2\n", 4, "vertex 1 has coordinates [1.0, inf, 0.0]"),
        ("m.off", "OFF\nhello\n", 2, "expected the counts"),
        ("m.off", "OFF\n-3 1 0\n", 2, "must not be negative"),
        ("m.off", "OFF BINARY\n", 1, "binary OFF is not supported"),
        ("m.off", "OFF\n3 0 0\n0 0 0\n1 0 0\n0 1 0\n", None, "no faces"),
        ("m.ply", PLY + "0 0 0\n1 0 0\n0 1 0\n", 12, "the file ends early: expected 1 rows of 'face', found 0"),
        ("m.ply", PLY + "0 0 0\n1 nan 0\n0 1 0\n3 0 1 2\n", 11, "vertex 1 has coordinates"),
        ("m.ply", PLY + "0 0 0\n1 0 0\n0 1 0\n3 0 1 9\n", 13, "face 0 refers to vertex 9"),
        ("m.ply", PLY + "0 0 0\n1 0 0\n0 1 0\n3 0 1\n", 13, "row 0 of 'face' has fewer values"),
        ("m.ply", PLY + "0 0 0\n1 zero 0\n0 1 0\n3 0 1 2\n", 11, "must be numbers"),
        ("m.ply", PLY.replace("float z", "float w") + "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", None, "no property 'z'"),
        ("m.ply", PLY.replace("indices", "strips") + "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", None, "vertex_indices"),
        ("m.ply", PLY.replace("float x", "flota x"), 4, "invalid line in the PLY header: 'property flota x'"),
        ("m.ply", PLY.replace("vertex 3", "vertex -3"), 3, "invalid line in the PLY header"),
        ("m.ply", PLY.replace("end_header", ""), 1, "no 'end_header'"),
        ("m.ply", PLY.replace("format ascii 1.0\n", ""), 1, "no 'format' line"),
        ("m.ply", PLY.replace("face 1", "strip 1") + "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", None, "no 'face' element"),
        ("m.stl", STL.format("one", "endfacet\n"), 6, "must be numbers"),
        ("m.stl", STL.format("nan", "endfacet\n"), 6, "not finite"),
        ("m.stl", STL.format("1", ""), 8, "3 corners and 0 finished triangles"),
        ("m.stl", "solid\nendsolid\n", None, "no faces"),
        ("m.gltf", "{}", None, "no 'asset'"),
        ("m.gltf", '{"asset": {}}', None, "no faces"),
        ("m.gltf", '{"asset": {}, "nodes": [{"mesh": 3}], "meshes": []}', None, "damaged (IndexError"),
        ("m.gltf", '{"asset": {}, "scenes": [{"nodes": [0]}], "nodes": [{"children": [0]}]}', None, "no faces"),
        ("m.gltf", "[" * 100_000, None, "cannot be read"),
        ("m.gltf", '{"asset": {}, "extensionsRequired": ["KHR_draco_mesh_compression"]}', None, "compressed"),
        ("m.xyz", "1 2 3\n", None, "supported: .obj, .off, .ply, .stl, .glb, .gltf"),
    ],
)  # fmt: skip
def test_the_error_names_file_line_and_reason(
    name: str, content: str, line: int | None, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(MeshError) as caught:
        load_mesh(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: " if line is None else f"{path}:{line}: ")
    assert message in text
    assert "\n" not in text


def test_a_zip_called_obj(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.obj", "w") as archive:
        archive.writestr("m.obj", TRIANGLE)
    with pytest.raises(MeshFormatError, match="zip archive, not a mesh; unpack"):
        load_mesh(tmp_path / "m.obj")


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    with pytest.raises(MeshFormatError, match="does not exist"):
        load_mesh(tmp_path / "none.obj")
    (tmp_path / "folder.obj").mkdir()
    with pytest.raises(MeshFormatError, match="this is a folder"):
        load_mesh(tmp_path / "folder.obj")
    with pytest.raises(MeshFormatError):
        load_mesh(tmp_path / "a\0b.obj")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.obj")
        with pytest.raises(MeshFormatError, match="not a regular file"):
            load_mesh(tmp_path / "pipe.obj")


def test_a_file_that_must_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "m.obj", TRIANGLE)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(MeshFormatError, match="cannot be read \\(Permission denied\\); check its permissions"):
        load_mesh(path)


@pytest.mark.parametrize("suffix", [".ply", ".stl", ".glb"])
def test_a_binary_file_cut_anywhere(suffix: str, tmp_path: Path) -> None:
    mesh = tetrahedron()
    labels = {} if suffix == ".stl" else {"face_labels": np.arange(4)}
    save_mesh(mesh, tmp_path / f"m{suffix}", **labels)
    data = (tmp_path / f"m{suffix}").read_bytes()
    for end in range(0, len(data) - 1, 1 if suffix == ".stl" else 5):
        with pytest.raises(MeshFormatError):
            load_mesh(write(tmp_path, f"cut{suffix}", data[:end]))


def test_binary_files_with_bad_numbers(tmp_path: Path) -> None:
    mesh = tetrahedron()
    for suffix, kind in ((".ply", "<d"), (".stl", "<f"), (".glb", "<f")):
        save_mesh(mesh, tmp_path / f"m{suffix}")
        data = (tmp_path / f"m{suffix}").read_bytes()
        for bad in (np.nan, np.inf):
            spoiled = data.replace(struct.pack(kind, mesh.vertices[2, 1]), struct.pack(kind, bad))
            assert spoiled != data
            with pytest.raises(MeshError, match=r"vertex \d has coordinates .* that are not finite"):
                load_mesh(write(tmp_path, f"bad{suffix}", spoiled))
    data = (tmp_path / "m.ply").read_bytes()
    with pytest.raises(MeshError, match="face 3 refers to vertex 77"):
        load_mesh(write(tmp_path, "bad.ply", data[:-4] + struct.pack("<i", 77)))


def test_glb_with_cut_description(tmp_path: Path) -> None:
    text = b'{"asset": {"ver'
    chunk = struct.pack("<I", len(text)) + b"JSON" + text
    data = b"glTF" + struct.pack("<II", 2, 12 + len(chunk)) + chunk
    with pytest.raises(MeshFormatError, match="description cannot be read"):
        load_mesh(write(tmp_path, "m.glb", data))


@pytest.mark.parametrize("uri", ["../secret.bin", "/etc/hostname", "gone.bin", "data:;base64,%%%"])
def test_gltf_buffers_are_read_from_their_own_folder_only(uri: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(b"\0" * 36)
    folder = tmp_path / "in"
    folder.mkdir()
    scene = {
        "asset": {},
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "buffers": [{"uri": uri}],
    }
    with pytest.raises(MeshFormatError, match=r"not in the same folder|embedded buffer is damaged"):
        load_mesh(write(folder, "m.gltf", json.dumps(scene)))


@pytest.mark.parametrize("good_part", ["", TRIANGLE + "f 1 2 3\n"])
def test_a_million_lines_of_garbage_are_answered_soon(good_part: str, tmp_path: Path) -> None:
    path = write(tmp_path, "m.obj", good_part + "blah blah\n" * 1_000_000)
    with at_most(5):
        if good_part:
            assert load_mesh(path).notes[0].startswith("1000000 lines with unknown keywords")
        else:
            with pytest.raises(MeshFormatError, match=":1: not an OBJ mesh"):
                load_mesh(path)


@pytest.mark.parametrize("scale", [1e-200, 1e150, 1e300])
@pytest.mark.parametrize("suffix", [".obj", ".ply"])
def test_extreme_sizes_are_read_and_cut_without_a_warning(scale: float, suffix: str, tmp_path: Path) -> None:
    corners = scale * np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]])
    text = "".join(f"v {x!r} {y!r} {z!r}\n" for x, y, z in corners.tolist())
    read = load_mesh(write(tmp_path, "m.obj", text + "f 1 2 3 4\n"))
    save_mesh(read, tmp_path / f"n{suffix}")
    np.testing.assert_array_equal(load_mesh(tmp_path / f"n{suffix}").vertices, corners)


def test_degenerate_faces_and_lonely_vertices_are_noted_not_refused(tmp_path: Path) -> None:
    read = load_mesh(write(tmp_path, "m.obj", TRIANGLE + "v 5 5 5\nf 1 2 3\nf 1 1 2\nf 1 2 3\n"))
    assert read.n_faces == 3
    assert read.notes == ("1 faces repeat a vertex", "1 vertices are not used by any face")
