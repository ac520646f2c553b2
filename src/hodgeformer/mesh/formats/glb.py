"""Write binary glTF. Colors and labels of faces need corners of their own: see `split`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.formats.content import Attributes, Colors
from hodgeformer.mesh.formats.gltf import COLOR, FACE_LABEL, VERTEX, VERTEX_LABEL
from hodgeformer.mesh.formats.gltf_buffers import BINARY_CHUNK, JSON_CHUNK, MAGIC
from hodgeformer.mesh.mesh import IntArray, Mesh

_UNSIGNED_BYTE, _UNSIGNED_INT, _FLOAT = 5121, 5125, 5126
_VERTEX_DATA, _INDEX_DATA = 34962, 34963


def glb_bytes(mesh: Mesh, held: Attributes) -> bytes:
    """Coordinates become float32. Colors are stored as they are given, as mesh tools do, not made linear."""
    file = _File()
    vertex, faces = np.arange(mesh.n_vertices), mesh.faces
    if "face_colors" in held or "face_labels" in held:
        vertex, faces, face = split(mesh)
        file.add_attribute(VERTEX, vertex)
        if "face_labels" in held:
            file.add_attribute(FACE_LABEL, held["face_labels"][face])
    file.add_attribute("POSITION", mesh.vertices[vertex])
    if "vertex_labels" in held:
        file.add_attribute(VERTEX_LABEL, held["vertex_labels"][vertex])
    # Only one of vertex_colors and face_colors fits: glTF has one color per corner.
    if "face_colors" in held:
        file.add_colors(held["face_colors"][face])
    elif "vertex_colors" in held:
        file.add_colors(held["vertex_colors"][vertex])
    return file.to_bytes(faces)


def split(mesh: Mesh) -> tuple[IntArray, IntArray, IntArray]:
    """Three corners per face: vertex of each corner, faces over the corners, face of each corner.

    Vertices of no face follow as corners that no face uses (their entry in the third array is 0).
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
        """Numbers as float32: glTF allows no 32-bit whole numbers here."""
        values = values.astype("<f4")
        accessor: dict[str, Any] = {"componentType": _FLOAT, "type": "VEC3" if values.ndim == 2 else "SCALAR"}
        if name == "POSITION":
            accessor |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        self._attributes[name] = self._add(values, {"target": _VERTEX_DATA}, accessor)

    def add_colors(self, colors: Colors) -> None:
        # Rows must begin at multiples of four bytes.
        rows = np.full((len(colors), 4), 255, dtype=np.uint8)
        rows[:, : colors.shape[1]] = colors
        accessor = {"componentType": _UNSIGNED_BYTE, "type": f"VEC{colors.shape[1]}", "normalized": True}
        self._attributes[COLOR] = self._add(rows, {"target": _VERTEX_DATA, "byteStride": 4}, accessor)

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
        material = {
            "doubleSided": True,
            "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0},
        }
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
        parts = b"".join(
            len(part).to_bytes(4, "little") + kind + part for kind, part in ((JSON_CHUNK, text), (BINARY_CHUNK, binary))
        )
        return MAGIC + (2).to_bytes(4, "little") + (12 + len(parts)).to_bytes(4, "little") + parts
