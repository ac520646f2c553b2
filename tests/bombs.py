"""Small files that ask for far more memory or time than their bytes, each of another kind."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MB = 2**20
_TRIANGLE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
_PLY = b"ply\nformat %b 1.0\n"
_XYZ = b"property %b x\nproperty %b y\nproperty %b z\n"


def _filled(part: bytes, n_bytes: int) -> bytes:
    return part * (n_bytes // len(part))


def _scene(positions: int, **more: Any) -> dict[str, Any]:
    """A glTF description with one buffer, a point accessor at 0 and a corner accessor at 1."""
    document: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": positions, "type": "VEC3"},
            {"bufferView": 0, "componentType": 5121, "count": 3, "type": "SCALAR"},
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 12 * positions}],
        "buffers": [{"uri": "data:;base64," + base64.b64encode(bytes(12 * positions)).decode()}],
    }
    return document | more


def _json(document: dict[str, Any], n_bytes: int = 0) -> bytes:
    """With spaces up to a size: a file that names itself is as large as its padding."""
    return json.dumps(document).encode().ljust(n_bytes)


def _gltf_names_itself() -> bytes:
    buffers = [{"uri": "bomb.gltf"}] * 3000
    views = [{"buffer": i, "byteLength": 12} for i in range(3000)]
    return _json(_scene(1, buffers=buffers, bufferViews=views), 1_600_000)


def _gltf_one_buffer_by_many_names() -> bytes:
    """The padding is spaces, which are small numbers as float32."""
    buffers = [{"uri": "./" * (i % 7) + f"bom{'%62' if i % 2 else 'b'}.gltf", "name": str(i)} for i in range(5000)]
    primitives = [{"attributes": {"POSITION": i}} for i in range(5000)]
    accessors = [{"bufferView": i, "componentType": 5126, "count": 3, "type": "VEC3"} for i in range(5000)]
    views = [{"buffer": i, "byteOffset": 1_199_000, "byteLength": 1000} for i in range(5000)]
    document = _scene(1, buffers=buffers, bufferViews=views, accessors=accessors, meshes=[{"primitives": primitives}])
    return _json(document, 1_200_000)


def _gltf_attributes() -> bytes:
    document = _scene(100_000)
    attributes = {f"_A{i}": 0 for i in range(4000)}
    document["meshes"][0]["primitives"][0]["attributes"] |= attributes
    return _json(document)


def _gltf_views_of_one_buffer() -> bytes:
    """Every corner array looks at the whole buffer and has three numbers."""
    document = _scene(100_000)
    document["bufferViews"] *= 4000
    corners = document["accessors"][1]
    document["accessors"] += [{**corners, "bufferView": i} for i in range(4000)]
    part = document["meshes"][0]["primitives"][0]
    document["meshes"][0]["primitives"] = [{**part, "indices": 2 + i} for i in range(4000)]
    return _json(document)


def _gltf_instances(n: int = 100_000) -> bytes:
    return _json(_scene(10_000, nodes=[{"children": list(range(1, n))}, *[{"mesh": 0}] * (n - 1)]))


def _gltf_empty_instances() -> bytes:
    """Parts without a single point, and many of points and lines only, placed very often."""
    document = _scene(1, nodes=[{"children": list(range(1, 20_000))}, *[{"mesh": 0}] * 20_000])
    part = document["meshes"][0]["primitives"][0]
    document["meshes"][0]["primitives"] = [{**part, "mode": 0}] * 20_000
    return _json(document)


def _gltf_tree(n: int = 100_000) -> bytes:
    """A chain of nodes, and each of them leads back to all before it."""
    nodes = [{"children": [i + 1, max(i - 1, 0), 0]} for i in range(n)]
    return _json(_scene(1, nodes=[*nodes, {"mesh": 0}]))


def _gltf_strips() -> bytes:
    """Corners of one byte each, in a strip: a triangle for every byte, and the strip for every part again."""
    document = _scene(MB)
    document["accessors"][1]["count"] = 12 * MB
    document["meshes"][0]["primitives"][0]["mode"] = 5
    document["meshes"][0]["primitives"] *= 8
    return _json(document)


def _gltf_counts() -> bytes:
    document = _scene(1)
    document["accessors"][0] = {"componentType": 5126, "count": 10**9, "type": "VEC3"}
    return _json(document)


def _gltf_sparse() -> bytes:
    document = _scene(1)
    indices = {"bufferView": 0, "componentType": 5121}
    document["accessors"][0] |= {"count": 10**9, "sparse": {"count": 1, "indices": indices, "values": indices}}
    return _json(document)


def _gltf_values(part: str) -> Callable[[], bytes]:
    """Many small values, which take far more in memory than as text."""

    def made() -> bytes:
        return _json(_scene(1))[:-1] + b',"extras":[' + _filled(part.encode(), 16 * MB) + b"0]}"

    return made


def _gltf_names() -> bytes:
    many = ",".join(f'"{i:x}":{i}' for i in range(1_200_000))
    return _json(_scene(1))[:-1] + b',"extras":{' + many.encode() + b"}}"


def _glb_chunks() -> bytes:
    text = _json(_scene(1)).ljust(4096)
    parts = struct.pack("<I4s", len(text), b"JSON") + text
    parts += b"".join(struct.pack("<II", 0, i) for i in range(MB))
    return b"glTF" + struct.pack("<II", 2, 12 + len(parts)) + parts


def _obj_libraries() -> bytes:
    materials = b"newmtl a\nKd 1 0 0\n" * 20_000
    return b"mtllib bomb.obj\n" * 60_000 + _TRIANGLE + b"usemtl a\nf 1 2 3\n" + materials


def _off(line: bytes, n_bytes: int = 16 * MB) -> bytes:
    n = n_bytes // len(line)
    return b"OFF\n3 %d 0\n0 0 0\n1 0 0\n0 1 0\n" % n + line * n


def _ply_ascii(line: bytes, n_bytes: int = 16 * MB) -> bytes:
    n = n_bytes // len(line)
    head = _PLY % b"ascii" + b"element vertex 3\n" + _XYZ.replace(b"%b", b"float")
    head += b"element face %d\nproperty list uchar int vertex_indices\nend_header\n" % n
    return head + b"0 0 0\n1 0 0\n0 1 0\n" + line * n


def _ply_binary(row: bytes, more: bytes = b"", last: bytes = b"", n_bytes: int = 16 * MB) -> bytes:
    """Coordinates of one byte each, and rows of faces."""
    n = n_bytes // len(row)
    head = _PLY % b"binary_little_endian" + b"element vertex 3\n" + _XYZ.replace(b"%b", b"char")
    head += b"element face %d\nproperty list uchar uchar vertex_indices\n%bend_header\n" % (n + bool(last), more)
    return head + bytes((0, 0, 0, 1, 0, 0, 0, 1, 0)) + row * n + last


def _ply_vertices() -> bytes:
    n = 5 * MB
    head = _PLY % b"binary_little_endian" + b"element vertex %d\n" % n + _XYZ.replace(b"%b", b"char")
    head += b"element face 1\nproperty list uchar uchar vertex_indices\nend_header\n"
    return head + bytes(3 * n) + bytes((3, 0, 1, 2))


def _ply_header(line: Callable[[int], bytes], last: int) -> bytes:
    """As many lines as a header may have, before a surface."""
    lines, size, i = [_PLY % b"binary_little_endian", b"element other 3\n"], 0, 0
    while size < MB - 1000:
        lines.append(line(i))
        size, i = size + len(lines[-1]), i + 1
    surface = b"element vertex 3\n" + _XYZ.replace(b"%b", b"char")
    surface += b"element face 1\nproperty list uchar uchar vertex_indices\nend_header\n"
    body = bytes(last * 3 * i) + bytes((0, 0, 0, 1, 0, 0, 0, 1, 0)) + bytes((3, 0, 1, 2))
    return b"".join(lines) + surface + body


_BOMBS: dict[str, Callable[[], bytes]] = {
    "names-itself.gltf": _gltf_names_itself,
    "many-names.gltf": _gltf_one_buffer_by_many_names,
    "attributes.gltf": _gltf_attributes,
    "views.gltf": _gltf_views_of_one_buffer,
    "instances.gltf": _gltf_instances,
    "empty-instances.gltf": _gltf_empty_instances,
    "tree.gltf": _gltf_tree,
    "strips.gltf": _gltf_strips,
    "counts.gltf": _gltf_counts,
    "sparse.gltf": _gltf_sparse,
    "empty-objects.gltf": _gltf_values("{},"),
    "lists.gltf": _gltf_values("[0],"),
    "objects.gltf": _gltf_values('{"":0},'),
    "names.gltf": _gltf_names,
    "chunks.glb": _glb_chunks,
    "libraries.obj": _obj_libraries,
    "polygon.obj": lambda: _TRIANGLE + b"f" + _filled(b" 1 2 3", 16 * MB) + b"\n",
    "quads.obj": lambda: _TRIANGLE + _filled(b"f 1 2 3 1\n", 16 * MB),
    "crooked.obj": lambda: b"v 0 0 0\nv 4 0 0\nv 1 1 0\nv 0 4 0\n" + _filled(b"f 1 3 2 4 3 1\n", 4 * MB),
    "joined.obj": lambda: _TRIANGLE + b"f 1 2 3\n" + _filled(b"\\\n", 16 * MB),
    "keywords.obj": lambda: _TRIANGLE + b"f 1 2 3\n" + _filled(b"g\n", 16 * MB),
    "unknown.obj": lambda: _TRIANGLE + b"f 1 2 3\n" + _filled(b"a\n", 16 * MB),
    "blank.obj": lambda: _TRIANGLE + b"f 1 2 3\n" + _filled(b"\n", 32 * MB),
    "comments.obj": lambda: _TRIANGLE + b"f 1 2 3\n" + _filled(b"#\n", 32 * MB),
    "comments.off": lambda: _filled(b"#\n", 16 * MB) + b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    "triangles.off": lambda: _off(b"3 0 1 2\n"),
    "counts.off": lambda: b"OFF\n%d %d 0\n0 0 0\n" % (10**18, 10**18),
    "triangles-text.ply": lambda: _ply_ascii(b"3 0 1 2\n"),
    "triangles.ply": lambda: _ply_binary(bytes((3, 0, 1, 2))),
    "polygons.ply": lambda: _ply_binary(bytes((255, *(0, 1, 2) * 85))),
    "uneven.ply": lambda: _ply_binary(bytes((3, 0, 1, 2)), last=bytes((4, 0, 1, 2, 0)), n_bytes=8 * MB),
    "empty-lists.ply": lambda: _ply_binary(bytes(1), last=bytes((3, 0, 1, 2)), n_bytes=8 * MB),
    "lists.ply": lambda: _ply_binary(
        bytes((3, 0, 1, 2)) + bytes(200),
        b"".join(b"property list uchar double a%d\n" % i for i in range(200)),
        bytes((3, 0, 1, 2, 1)) + bytes(8 + 199),
        n_bytes=4 * MB,
    ),
    "points.ply": _ply_vertices,
    "elements.ply": lambda: _ply_header(lambda i: b"element a%d 0\n" % i, 0),
    "same-elements.ply": lambda: _ply_header(lambda i: b"element vertex 0\nproperty list int int x\n", 0),
    "properties.ply": lambda: _ply_header(lambda i: b"property char a%d\n" % i, 1),
    "same-properties.ply": lambda: _ply_header(lambda i: b"property char x\n", 1),
    "facets.stl": lambda: b"solid a\n" + _filled(b"vertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendfacet\n", 16 * MB),
    "triangles.stl": lambda: bytes(80) + struct.pack("<I", 16 * MB // 50) + bytes(16 * MB // 50 * 50),
}


def _index(**columns: Any) -> bytes:
    """Of shards: numbers that are all the same, of which very many fit into little."""
    np.savez_compressed(stream := io.BytesIO(), **columns)
    return stream.getvalue()


_OTHERS: dict[str, Callable[[], bytes]] = {
    "words.txt": lambda: _filled(b"10 ", 16 * MB),
    "lines.txt": lambda: _filled(b"10\n", 16 * MB),
    "names.txt": lambda: _filled(b"ab\n", 16 * MB),
    "numbers.csv": lambda: _filled(b"10,1\n", 16 * MB),
    "row.csv": lambda: _filled(b"10,", 16 * MB),
    "rows.csv": lambda: b"face,label\n" + _filled(b"0,0\n", 16 * MB),
    "values.pts": lambda: _filled(b"10\n", 16 * MB),
    "numbers.json": lambda: b"[" + _filled(b"0,", 16 * MB) + b"0]",
    "lists.json": lambda: b"[" + _filled(b"[],", 16 * MB) + b"0]",
    "objects.json": lambda: b"[" + _filled(b"{},", 16 * MB) + b"0]",
    "keys.json": lambda: b"{" + b",".join(b'"%x":0' % i for i in range(1_200_000)) + b"}",
    "zeros.npz": lambda: _index(labels=np.zeros(100 * MB, np.uint8)),
    "names.npz": lambda: _index(labels=np.zeros(64, "U1000000")),
    "zeros.index": lambda: _index(split=np.zeros(100 * MB, np.int8)),
    "names.index": lambda: _index(split=np.zeros(1, np.int8), name=np.zeros(4 * MB, np.uint8)),
    "dots.toml": lambda: b"a." * 100_000 + b"a=0\n",
    "tables.toml": lambda: b"".join(b"[a%x.b]\n" % i for i in range(99_000)),
    "more-tables.toml": lambda: b"".join(b" [a%x.b]\n" % i for i in range(400_000)),
    "objects.toml": lambda: b"a=[" + _filled(b"{},", 2 * MB) + b"]\n",
}
NAMES, OTHERS = tuple(_BOMBS), tuple(_OTHERS)
# What a reader can pass over or share is no reason to refuse a mesh.
READ = {
    *("many-names.gltf", "attributes.gltf", "views.gltf", "tree.gltf", "names.gltf"),
    *("chunks.glb", "libraries.obj", "crooked.obj", "joined.obj"),
    *("blank.obj", "comments.obj", "triangles.off", "triangles-text.ply"),
    *("triangles.ply", "uneven.ply", "lists.ply", "elements.ply", "same-elements.ply", "properties.ply"),
    *("same-properties.ply", "facets.stl", "triangles.stl"),
    *("lines.txt", "numbers.csv", "values.pts", "numbers.json"),
}

LONG = {"tree.gltf"}  # takes a second of the processor or more: only in the attack


def bomb(name: str, folder: Path) -> Path:
    """The file, alone in a folder of its own; those that name themselves are called `bomb`."""
    folder = folder / Path(name).stem
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bomb{Path(name).suffix}"
    path.write_bytes((_BOMBS | _OTHERS)[name]())
    return path
