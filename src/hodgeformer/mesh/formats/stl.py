"""STL, binary and ASCII: each triangle has its own corners, so corners at one position are welded into one vertex."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats.polygons import Content
from hodgeformer.mesh.formats.source import LineOf, Source, TextLines
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.topology import corner_fans, inverse_permutation

_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("extra", "<u2")])
_HEAD = 80


def read_stl(source: Source) -> Content:
    """Corners at exactly the same position whose faces are connected there become one vertex."""
    data = source.data
    head = data[:4096]
    if is_binary(data) or head.lstrip()[:5].lower() != b"solid" or b"\0" in head:
        corners, notes = _read_binary(data, source.path)
        corner_line: LineOf | None = None
    else:
        corners, corner_line, notes = _read_ascii(source)
    faces, first = weld_corners(corners) if len(corners) else (np.arange(0), np.arange(0))
    return Content(
        vertices=corners[first],
        corners=faces,
        n_corners=np.broadcast_to(np.int64(3), len(corners) // 3),
        notes=(*notes, f"{len(corners)} corners welded into {len(first)} vertices"),
        vertex_line=None if corner_line is None else lambda i: corner_line(int(first[i])),
        face_line=None if corner_line is None else lambda i: corner_line(3 * i),
    )


def is_binary(data: bytes) -> bool:
    """Whether the size fits: many binary files begin with "solid", like ASCII ones."""
    return len(data) == _HEAD + 4 + _TRIANGLE.itemsize * int.from_bytes(data[_HEAD : _HEAD + 4], "little")


def _read_binary(data: bytes, path: Path) -> tuple[FloatArray, list[str]]:
    n_faces = int.from_bytes(data[_HEAD : _HEAD + 4], "little")
    expected = _HEAD + 4 + _TRIANGLE.itemsize * n_faces
    if len(data) < expected:
        raise MeshFormatError(
            f"{path}: not ASCII STL, and as binary STL it ends early: {n_faces} triangles need {expected} "
            f"bytes, the file has {len(data)}; it is truncated or has another format, download or export it again"
        )
    corners = np.frombuffer(data, _TRIANGLE, n_faces, _HEAD + 4)["corners"].reshape(-1, 3).astype(np.float64)
    n_more = len(data) - expected
    return corners, [f"{n_more} bytes after the last triangle were ignored"] if n_more else []


def _read_ascii(source: Source) -> tuple[FloatArray, LineOf, list[str]]:
    lines = TextLines(source)
    keywords = np.char.lower(lines.keywords(np.arange(len(lines))))
    found = np.flatnonzero(keywords == b"vertex")
    lines.drop_keyword(found, length=len("vertex"))
    n_tokens = lines.n_tokens[found]
    lines.need(found, n_tokens == 3, lambda i: f"a vertex needs 3 coordinates, found {n_tokens[i]} numbers")
    n_facets = int((keywords == b"endfacet").sum())
    if len(found) != 3 * n_facets:
        raise lines.error(
            len(lines) - 1,
            f"the file has {len(found)} corners and {n_facets} finished triangles, expected three for each; "
            "it is truncated, download or export it again",
        )
    corners = lines.floats(found, "coordinates").columns(0, 3)
    closed = bool(keywords[-1] == b"endsolid")
    notes = [] if closed else ["the last line is not 'endsolid'; the file may be truncated"]
    return corners, lambda i: lines.number(int(found[i])), notes


def weld_corners(points: FloatArray) -> tuple[IntArray, IntArray]:
    """For every corner its vertex, and for every vertex its first corner, in the order of the file; -0.0 equals 0.0.

    Sheets of a surface that only touch in points stay separate: corners are welded if they are at one position and
    their faces are connected by sides that meet there.
    """
    order = np.lexsort(points.T)
    ordered = points[order]
    place = np.empty(len(points), dtype=np.int64)
    place[order] = np.cumsum(np.concatenate([[False], (ordered[1:] != ordered[:-1]).any(axis=1)]))
    _, first, vertex = np.unique(corner_fans(place.reshape(-1, 3)), return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    return inverse_permutation(by_appearance)[vertex.ravel()], first[by_appearance]


def stl_bytes(mesh: Mesh) -> bytes:
    """Binary STL: coordinates become float32."""
    triangles = np.zeros(mesh.n_faces, dtype=_TRIANGLE)
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    triangles["normal"] = np.divide(normals, lengths, out=np.zeros_like(normals), where=lengths > 0)
    triangles["corners"] = corners
    return b"written by hodgeformer".ljust(_HEAD) + np.uint32(mesh.n_faces).tobytes() + triangles.tobytes()
