"""Damaged meshes of every format: each loads or raises MeshError, within ten seconds and little memory."""

from __future__ import annotations

import base64
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import meshes
from attack.mutate import FEW, PART, assert_all_are_answered
from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.prepare import prepare
from hodgeformer.mesh.simplify import simplify

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as Linux counts it")

OBJ = b"""# a comment
mtllib whole0.mtl
v 0 0 0 1 0 0
v 1 0 0 0 1 0
v 1 1 0 0 0 1
v 0 1 0 1 1 0
v 0.5 0.5 1e0 1 1 1
vt 0 0
g label_0
usemtl red
f 1/1 2/1 5/1
f 2//1 3//1 \\
5//1
g label_1
usemtl green
f -3 -2 -1
f 4 1 5
f 1 4 3 2
f 1 2 3 4 5 1 2 3
"""
MTL = b"newmtl red\nKd 1 0 0\nd 1\nnewmtl green\nKd 0 0.5 0\nd 0.5\nnewmtl none\n"
ITSELF = b"itself.bin"
OBJ_ITSELF = OBJ.replace(b"whole0.mtl", ITSELF) + b"newmtl red\nKd 1 0 0\nnewmtl green\nKd 0 1 0\n"
OFF = b"""OFF
# five
5 4 0
0 0 0
1 0 0
1 1 0
0 1 0
.5 .5 1
4 0 3 2 1 255 0 0
3 0 1 4 1 2 3
3 1 2 4 1 2 3
3 2 3 4 1 2 3
"""
COFF = b"CNOFF 3 1 0\n0 0 0 0 0 1 255 0 0 255\n1 0 0 0 0 1 0 255 0 255\n0 1 0 0 0 1 0 0 255 255\n3 0 1 2\n"
PLY = b"""ply
format %s 1.0
comment five points
element vertex 5
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
element face 4
property list uchar int vertex_indices
property int label
element other 2
property list ushort double more
end_header
"""


def use(path: Path) -> None:
    """What every command first does with a mesh. A file that names another file may name itself."""
    data = path.read_bytes()
    if ITSELF in data:
        path.write_bytes(data.replace(ITSELF, path.name.encode()))
    if path.suffix == ".mtl":
        (path.parent / "beside.obj").write_bytes(OBJ.replace(b"whole0.mtl", path.name.encode()))
        load_mesh(path.parent / "beside.obj")
        return
    mesh = load_mesh(path)
    check_mesh(mesh)
    if mesh.n_faces <= 1000:
        prepare(mesh)
        simplify(mesh, 20)


def whole_files(folder: Path) -> dict[str, list[bytes]]:
    """Files of every format with everything the format can contain."""
    mesh = meshes.icosphere(1)
    more = {"face_colors": np.full((mesh.n_faces, 3), 7), "face_labels": np.arange(mesh.n_faces)}
    for suffix, given in ((".ply", more), (".glb", more), (".off", {}), (".stl", {}), (".obj", more)):
        save_mesh(mesh, folder / f"m{suffix}", **given)
    read = {suffix: (folder / f"m{suffix}").read_bytes() for suffix in (".ply", ".glb", ".off", ".stl", ".obj")}
    facet = "facet normal 0 0 1\nouter loop\n{}endloop\nendfacet\n"
    corners = [
        "".join(f"vertex {x!r} {y!r} {z!r}\n" for x, y, z in mesh.vertices[face].tolist()) for face in mesh.faces[:8]
    ]
    ascii_stl = ("solid a\n" + "".join(facet.format(lines) for lines in corners) + "endsolid a\n").encode()
    return {
        ".obj": [OBJ, OBJ_ITSELF, read[".obj"], b"\xef\xbb\xbf" + OBJ],
        ".off": [OFF, COFF, read[".off"]],
        ".ply": [read[".ply"], ascii_ply(), binary_ply("<"), binary_ply(">")],
        ".stl": [ascii_stl, read[".stl"]],
        ".glb": [read[".glb"]],
        ".gltf": [scene(read[".glb"]), scene(read[".glb"], ITSELF.decode())],
        ".mtl": [MTL],
        ".mesh": [OBJ, OFF, ascii_stl, read[".stl"], read[".glb"]],  # recognized by their content
    }


def ascii_ply() -> bytes:
    points = "0 0 0 255 0 0\n1 0 0 0 255 0\n1 1 0 0 0 255\n0 1 0 9 9 9\n.5 .5 1 9 9 9\n"
    rows = points + "4 0 3 2 1 0\n3 0 1 4 1\n3 1 2 4 2\n3 2 3 4 3\n"
    return PLY % b"ascii" + rows.encode() + b"2 0.5 1.5\n0\n"


def binary_ply(order: str) -> bytes:
    points = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 1))
    body = b"".join(struct.pack(f"{order}3f3B", *p, 1, 2, 3) for p in points)
    for corners in ((0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4)):
        body += struct.pack(f"{order}B{len(corners)}ii", len(corners), *corners, 5)
    name = b"binary_little_endian" if order == "<" else b"binary_big_endian"
    return PLY % name + body + struct.pack(f"{order}H2dH", 2, 0.5, 1.5, 0)


def scene(glb: bytes, uri: str = "") -> bytes:
    """The same mesh as glTF with embedded or external bytes, placed twice, once as a child."""
    size = int.from_bytes(glb[12:16], "little")
    document = json.loads(glb[20 : 20 + size])
    document["buffers"][0]["uri"] = uri or "data:;base64," + base64.b64encode(glb[28 + size :]).decode()
    document["nodes"] = [
        {"mesh": 0, "children": [1], "translation": [1, 2, 3], "rotation": [0, 0, 0.6, 0.8], "scale": [1, 2, 3]},
        {"mesh": 0, "matrix": [1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 0, 5, 0, 0, 1]},
    ]
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("n", "part"), [(FEW, 0), *(pytest.param(PART, i, marks=pytest.mark.attack(minutes=1)) for i in range(1, 4))]
)
def test_damaged_meshes(n: int, part: int, tmp_path: Path) -> None:
    assert_all_are_answered("attack.test_readers:use", whole_files(tmp_path), n, tmp_path, part)
