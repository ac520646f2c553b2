"""Read and write the bytes of a glTF scene: the container, the buffers and the typed arrays (accessors) in them.

Colors and labels of faces need separate corners for each face: see `split`.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats.source import Source
from hodgeformer.mesh.mesh import Attributes, Colors, IntArray, Mesh

# Custom attributes: labels, and the vertex that a split corner belongs to.
VERTEX, VERTEX_LABEL, FACE_LABEL, COLOR = "_VERTEX", "_VERTEX_LABEL", "_FACE_LABEL", "COLOR_0"
OWN_COLOR, FACE_OWN_COLOR = "_OWN_COLOR", "_FACE_OWN_COLOR"
_MAGIC = b"glTF"
_JSON_CHUNK, _BINARY_CHUNK = b"JSON", b"BIN\0"
_UNSIGNED_BYTE, _UNSIGNED_INT, _FLOAT = 5121, 5125, 5126
_JSON_MARKS, _PER_MARK = (b",", b":", b"{", b"["), 100  # bytes that each value takes, with its name
_VERTEX_DATA, _INDEX_DATA = 34962, 34963
_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


def read_document(source: Source) -> tuple[dict[str, Any], memoryview]:
    """The JSON description and the binary chunk (empty for .gltf)."""
    data, path = source.data, source.path
    text, binary = _chunks(data, path) if data[:4] == _MAGIC else (data, memoryview(b""))
    n_values = sum(map(text.count, _JSON_MARKS))
    source.reserve(_PER_MARK * n_values, "its glTF description")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MeshFormatError(f"{path}: the glTF description cannot be read ({error}); export the file again") from None
    if not isinstance(document, dict) or "asset" not in document:
        raise MeshFormatError(f"{path}: not a glTF description: no 'asset' entry; check the suffix of the file")
    return document, binary


def _chunks(data: bytes, path: Path) -> tuple[bytes, memoryview]:
    version, length = int.from_bytes(data[4:8], "little"), int.from_bytes(data[8:12], "little")
    if len(data) < 20 or len(data) < length:
        raise MeshFormatError(
            f"{path}: the file ends early: expected {length} bytes, found {len(data)}; "
            "it is truncated, download or export it again"
        )
    if version != 2:
        raise MeshFormatError(f"{path}: glTF version {version} is not supported; export it as version 2")
    chunks: dict[bytes, memoryview] = {}
    at = 12
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "little"), data[at + 4 : at + 8]
        if at + 8 + size > len(data):
            raise MeshFormatError(f"{path}: a chunk of {size} bytes does not fit in the file; it is truncated")
        if kind in (_JSON_CHUNK, _BINARY_CHUNK):
            chunks.setdefault(kind, memoryview(data)[at + 8 : at + 8 + size])
        at += 8 + size
    return bytes(chunks.get(_JSON_CHUNK, b"")), chunks.get(_BINARY_CHUNK, memoryview(b""))


class Buffers:
    """Typed arrays by accessor number: views of the bytes of the file, which several accessors may share."""

    def __init__(self, document: dict[str, Any], binary: memoryview, source: Source) -> None:
        self._document, self._binary, self.source = document, binary, source
        self._loaded: dict[int, memoryview] = {}

    def array(self, accessor: int) -> NDArray[Any]:
        """(count,) or (count, width); normalized 16-bit integers become fractions, bytes stay bytes."""
        entry = self._document["accessors"][accessor]
        if "sparse" in entry or "bufferView" not in entry:
            raise MeshFormatError(f"{self.source.path}: sparse glTF arrays are not supported; export without them")
        view = self._document["bufferViews"][entry["bufferView"]]
        width, dtype = _WIDTHS[entry["type"]], np.dtype(_COMPONENTS[entry["componentType"]])
        count, offset = int(entry["count"]), int(entry.get("byteOffset", 0))
        stride = int(view.get("byteStride", 0)) or width * dtype.itemsize
        begin = int(view.get("byteOffset", 0))
        data = self._buffer(view["buffer"])[begin : begin + int(view["byteLength"])]
        if (
            min(count, offset, begin) < 0
            or stride < width * dtype.itemsize
            or offset + (count - 1) * stride + width * dtype.itemsize > len(data)
        ):
            raise MeshFormatError(
                f"{self.source.path}: array {accessor} needs {count} rows of {stride} bytes, its buffer has "
                f"{len(data)} bytes; the file is truncated or damaged, export it again"
            )
        rows = np.ndarray((count, width), dtype, data, offset, (stride, dtype.itemsize))
        if entry.get("normalized") and dtype.kind in "iu" and dtype.itemsize > 1:
            self.source.reserve(8 * rows.size, f"array {accessor}")
            return rows / np.iinfo(dtype).max
        return rows[:, 0] if width == 1 else rows

    def _buffer(self, index: int) -> memoryview:
        if index not in self._loaded:
            uri = self._document["buffers"][index].get("uri")
            self._loaded[index] = self._binary if uri is None else memoryview(self._fetch(uri))
        return self._loaded[index]

    def _fetch(self, uri: str) -> bytes:
        """A data URI, or a file in the folder of the mesh."""
        if uri.startswith("data:"):
            try:
                return base64.b64decode(uri.partition(",")[2], validate=True)
            except binascii.Error as error:
                raise MeshFormatError(f"{self.source.path}: an embedded buffer is damaged ({error})") from None
        data = self.source.beside(unquote(uri), has_geometry=True)
        if data is None:
            raise MeshFormatError(
                f"{self.source.path}: its buffer {uri[:60]!r} is not in the same folder; copy both, or export as .glb"
            )
        return data


def glb_bytes(mesh: Mesh, attributes: Attributes) -> bytes:
    """Coordinates become float32. Like in other mesh tools, colors are stored unchanged and not made linear."""
    file = _File()
    vertex, faces, face = np.arange(mesh.n_vertices), mesh.faces, np.empty(0, dtype=np.int64)
    if any(kind.startswith("face") for kind in attributes):
        vertex, faces, face = split(mesh)
        file.add_attribute(VERTEX, vertex)
    file.add_attribute("POSITION", mesh.vertices[vertex])
    # face_colors and vertex_colors exclude each other: glTF has one color per corner.
    names = {"labels": (FACE_LABEL, VERTEX_LABEL), "own_colors": (FACE_OWN_COLOR, OWN_COLOR), "colors": (COLOR, COLOR)}
    for kind, values in attributes.items():
        element, _, what = kind.partition("_")
        add = file.add_attribute if what == "labels" else file.add_colors
        add(names[what][element == "vertex"], values[face if element == "face" else vertex])
    return file.to_bytes(faces)


def split(mesh: Mesh) -> tuple[IntArray, IntArray, IntArray]:
    """Three separate corners per face: the vertex of each corner, faces of corners, the face of each corner.

    Vertices without a face follow as unused corners (their entry in the third array is 0).
    """
    lonely = np.setdiff1d(np.arange(mesh.n_vertices), mesh.faces)
    vertex = np.concatenate([mesh.faces.ravel(), lonely])
    faces = np.arange(3 * mesh.n_faces).reshape(-1, 3)
    face = np.concatenate([np.repeat(np.arange(mesh.n_faces), 3), np.zeros(len(lonely), np.int64)])
    return vertex, faces, face


class _File:
    """One mesh with one primitive."""

    def __init__(self) -> None:
        self._views: list[dict[str, Any]] = []
        self._accessors: list[dict[str, Any]] = []
        self._attributes: dict[str, int] = {}
        self._binary = bytearray()

    def add_attribute(self, name: str, values: NDArray[Any]) -> None:
        """Numbers as float32: glTF does not allow 32-bit integers here."""
        values = values.astype("<f4")
        accessor: dict[str, Any] = {"componentType": _FLOAT, "type": "VEC3" if values.ndim == 2 else "SCALAR"}
        if name == "POSITION":
            accessor |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        self._attributes[name] = self._add(values, {"target": _VERTEX_DATA}, accessor)

    def add_colors(self, name: str, colors: Colors) -> None:
        # Rows must start at multiples of four bytes.
        rows = np.full((len(colors), 4), 255, dtype=np.uint8)
        rows[:, : colors.shape[1]] = colors
        accessor = {"componentType": _UNSIGNED_BYTE, "type": f"VEC{colors.shape[1]}", "normalized": True}
        self._attributes[name] = self._add(rows, {"target": _VERTEX_DATA, "byteStride": 4}, accessor)

    def _add(self, rows: NDArray[Any], view: dict[str, Any], accessor: dict[str, Any]) -> int:
        """Number of the new accessor."""
        data = rows.tobytes()
        self._views.append({"buffer": 0, "byteOffset": len(self._binary), "byteLength": len(data), **view})
        self._binary += data
        self._accessors.append({"bufferView": len(self._views) - 1, "count": len(rows), **accessor})
        return len(self._accessors) - 1

    def to_bytes(self, faces: IntArray) -> bytes:
        accessor = {"componentType": _UNSIGNED_INT, "type": "SCALAR"}
        indices = self._add(faces.ravel().astype("<u4"), {"target": _INDEX_DATA}, accessor)
        material = {"doubleSided": True, "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0}}
        document = {
            "asset": {"version": "2.0", "generator": "hodgeformer"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "materials": [material],
            "meshes": [{"primitives": [{"attributes": self._attributes, "indices": indices, "material": 0}]}],
            "accessors": self._accessors,
            "bufferViews": self._views,
            "buffers": [{"byteLength": len(self._binary)}],
        }
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        binary = bytes(self._binary) + b"\0" * (-len(self._binary) % 4)
        chunks = (_JSON_CHUNK, text), (_BINARY_CHUNK, binary)
        parts = b"".join(len(part).to_bytes(4, "little") + kind + part for kind, part in chunks)
        return _MAGIC + (2).to_bytes(4, "little") + (12 + len(parts)).to_bytes(4, "little") + parts
