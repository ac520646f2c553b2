"""The bytes under a glTF scene: the container, the buffers and the typed arrays (accessors) in them."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshFormatError

MAGIC = b"glTF"
JSON_CHUNK, BINARY_CHUNK = b"JSON", b"BIN\0"
_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


def read_document(data: bytes, path: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON description and the binary chunk (empty for .gltf)."""
    text, binary = _chunks(data, path) if data[:4] == MAGIC else (data, b"")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MeshFormatError(f"{path}: the glTF description cannot be read ({error}); export the file again") from None
    if not isinstance(document, dict) or "asset" not in document:
        raise MeshFormatError(f"{path}: not a glTF description: no 'asset' entry; check the suffix of the file")
    return document, binary


def _chunks(data: bytes, path: Path) -> tuple[bytes, bytes]:
    version, length = int.from_bytes(data[4:8], "little"), int.from_bytes(data[8:12], "little")
    if len(data) < 20 or len(data) < length:
        raise MeshFormatError(
            f"{path}: the file ends early: {length} bytes are announced, {len(data)} are there; "
            "it is cut short, get it again"
        )
    if version != 2:
        raise MeshFormatError(f"{path}: glTF version {version} is not supported; export it as version 2")
    chunks: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "little"), data[at + 4 : at + 8]
        if at + 8 + size > len(data):
            raise MeshFormatError(f"{path}: a part of {size} bytes does not fit in the file; it is cut short")
        chunks.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    return chunks.get(JSON_CHUNK, b""), chunks.get(BINARY_CHUNK, b"")


class Buffers:
    """Typed arrays by accessor number."""

    def __init__(self, document: dict[str, Any], binary: bytes, path: Path) -> None:
        self._document, self._binary, self._path = document, binary, path
        self._loaded: dict[int, bytes] = {}

    def array(self, accessor: int) -> NDArray[Any]:
        """(count,) or (count, width); normalized 16-bit numbers become fractions, bytes stay bytes."""
        entry = self._document["accessors"][accessor]
        if "sparse" in entry or "bufferView" not in entry:
            raise MeshFormatError(f"{self._path}: sparse glTF arrays are not supported; export without them")
        view = self._document["bufferViews"][entry["bufferView"]]
        width, dtype = _WIDTHS[entry["type"]], np.dtype(_COMPONENTS[entry["componentType"]])
        count, offset = int(entry["count"]), int(entry.get("byteOffset", 0))
        stride = int(view.get("byteStride", 0)) or width * dtype.itemsize
        begin = int(view.get("byteOffset", 0))
        held = self._buffer(view["buffer"])[begin : begin + int(view["byteLength"])]
        if min(count, offset, begin) < 0 or offset + (count - 1) * stride + width * dtype.itemsize > len(held):
            raise MeshFormatError(
                f"{self._path}: array {accessor} needs {count} rows of {stride} bytes, its buffer holds "
                f"{len(held)} bytes; the file is cut short or damaged, export it again"
            )
        rows = np.ndarray((count, width), dtype, held, offset, (stride, dtype.itemsize))
        if entry.get("normalized") and dtype.kind in "iu" and dtype.itemsize > 1:
            return rows / np.iinfo(dtype).max
        return rows[:, 0] if width == 1 else rows

    def _buffer(self, index: int) -> bytes:
        if index not in self._loaded:
            uri = self._document["buffers"][index].get("uri")
            self._loaded[index] = self._binary if uri is None else self._fetch(uri)
        return self._loaded[index]

    def _fetch(self, uri: str) -> bytes:
        """A data URI, or a file in the folder of the mesh."""
        if uri.startswith("data:"):
            try:
                return base64.b64decode(uri.partition(",")[2], validate=True)
            except binascii.Error as error:
                raise MeshFormatError(f"{self._path}: an embedded buffer is damaged ({error})") from None
        beside = (self._path.parent / unquote(uri)).resolve()
        # A file must not make us read outside its own folder.
        if not beside.is_relative_to(self._path.parent.resolve()) or not beside.is_file():
            raise MeshFormatError(f"{self._path}: its buffer {uri!r} is not beside it; copy both, or export as .glb")
        return beside.read_bytes()
