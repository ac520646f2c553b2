"""Reading takes memory and time in proportion to the size of the file, whatever the file requests."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bombs
from attack.attempts import Attempts
from attack.test_readers import whole_files
from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.io import load_mesh

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as Linux counts it")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempts]:
    """Limits a process to 300 MB plus 20 times the size of the file, and to ten seconds."""
    folder = tmp_path_factory.mktemp("whole")
    whole = []
    for suffix, files in whole_files(folder).items():
        for i, data in enumerate(files if suffix != ".mtl" else ()):
            whole.append(folder / f"whole{i}{suffix}")
            whole[-1].write_bytes(data)
    with Attempts("hodgeformer.mesh.io:load_mesh") as reader:
        list(reader.attempts(whole, limited=False))  # compiles
        yield reader


@linux
@pytest.mark.parametrize("name", [name for name in bombs.NAMES if name not in bombs.LONG])
def test_no_file_takes_more_than_its_bytes_allow(name: str, reader: Attempts, tmp_path: Path) -> None:
    """Slow files, and the peaks of all, are in tests/attack/test_bombs.py."""
    path = bombs.bomb(name, tmp_path)
    assert list(reader.attempts([path])) == ["accepted" if name in bombs.READ else "refused"]
    path.unlink()


def test_the_refusal_says_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    path = bombs.bomb("instances.gltf", tmp_path)
    with pytest.raises(MeshFormatError) as caught:
        load_mesh(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: the scene, which repeats its meshes and has ")
    assert f"MB of memory, too much for a file of {path.stat().st_size:,} bytes; export the mesh again" in text


def shared_buffer(folder: Path, n_parts: int, names: list[str]) -> Path:
    """Parts with separate arrays in one buffer file, as programs export them."""
    points = np.random.default_rng(0).random((n_parts, 50, 3)).astype("<f4")
    corners = np.tile(np.arange(48, dtype="<u2"), (n_parts, 1))
    (folder / names[0]).write_bytes(points.tobytes() + corners.tobytes())
    accessors, parts = [], []
    for i in range(n_parts):
        accessors.append(
            {"bufferView": i % len(names), "byteOffset": 600 * i, "componentType": 5126, "count": 50, "type": "VEC3"}
        )
        at = 600 * n_parts + 96 * i
        accessors.append({"bufferView": 0, "byteOffset": at, "componentType": 5123, "count": 48, "type": "SCALAR"})
        parts.append({"attributes": {"POSITION": 2 * i}, "indices": 2 * i + 1})
    document = {
        "asset": {"version": "2.0"},
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": parts}],
        "accessors": accessors,
        "bufferViews": [{"buffer": i, "byteLength": 696 * n_parts} for i in range(len(names))],
        "buffers": [{"uri": name, "byteLength": 696 * n_parts} for name in names],
    }
    (folder / "parts.gltf").write_text(json.dumps(document))
    return folder / "parts.gltf"


def test_a_file_of_bytes_is_read_once_for_all_parts_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared_buffer(tmp_path, 2000, ["bytes.bin", "./bytes.bin", "link.bin"])
    os.link(tmp_path / "bytes.bin", tmp_path / "link.bin")
    read: Counter[str] = Counter()
    whole = Path.read_bytes

    def counted(self: Path) -> bytes:
        read[self.suffix] += 1
        return whole(self)

    monkeypatch.setattr(Path, "read_bytes", counted)
    mesh = load_mesh(path)
    assert (mesh.n_vertices, mesh.n_faces) == (100_000, 32_000)
    assert read == {".gltf": 1, ".bin": 1}


def test_a_material_file_is_read_within_the_budget_of_the_mesh(tmp_path: Path) -> None:
    """A file next to a mesh may be anything, even hours of film."""
    with (tmp_path / "film.mp4").open("wb") as stream:
        stream.truncate(200 << 20)
    (tmp_path / "m.obj").write_text("mtllib film.mp4\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\n")
    with pytest.raises(MeshFormatError, match=r"the file 'film.mp4' that it names would need more than 96 MB"):
        load_mesh(tmp_path / "m.obj")


def test_the_last_material_of_a_name_counts_and_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a.mtl").write_text("newmtl a\nKd 1 0 0\nd 0.5\nnewmtl b\nKd 0 1 0\nd 1\nnewmtl unused\n")
    text = "mtllib a.mtl\n" * 3 + "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nusemtl b\nf 1 2 3\nusemtl a\nf 1 2 3\nf 1 2 3\n"
    (tmp_path / "m.obj").write_text(text)
    colors = load_mesh(tmp_path / "m.obj").attributes["face_colors"]
    assert colors.tolist() == [[204, 204, 204, 255], [0, 255, 0, 255], [255, 0, 0, 128], [255, 0, 0, 128]]
