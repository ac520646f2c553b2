"""OFF, the Object File Format: plain, with colors (COFF), normals (NOFF), texture coordinates (STOFF)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats.polygons import Content
from hodgeformer.mesh.formats.source import LARGEST_WHOLE, Source, TextLines
from hodgeformer.mesh.mesh import Attributes, Colors, FloatArray, IntArray, Mesh, to_colors

_HEADER = re.compile(rb"(?:\s*#[^\n]*\n)*\s*(ST)?(C)?(N)?(4)?OFF(?=[\s#]|$)", re.IGNORECASE)
_HEAD = 65536  # bytes that comments before the header may take


def read_off(source: Source) -> Content:
    """One element per line; the header may be missing, and the counts may be on its line."""
    path, head = source.path, source.data[:_HEAD]
    header = _HEADER.match(head)
    if header is not None and head[header.end() :].lstrip()[:6].upper() == b"BINARY":
        raise MeshFormatError(f"{path}:1: binary OFF is not supported; save the mesh as ASCII OFF, PLY or OBJ")
    if header is not None and header[4]:
        raise MeshFormatError(f"{path}:1: OFF with 4 coordinates per vertex is not supported; 3 are needed")
    lines = TextLines(source, offset=header.end() if header is not None else 0)
    n_vertices, n_faces = _counts(lines, path)
    if len(lines) < 1 + n_vertices + n_faces:
        raise MeshFormatError(
            f"{path}:{lines.number(len(lines) - 1)}: the file ends early: expected {n_vertices} vertices and "
            f"{n_faces} faces, found {len(lines) - 1} lines; it is truncated, download or export it again"
        )
    vertex_lines = np.arange(1, 1 + n_vertices)
    face_lines = np.arange(1 + n_vertices, 1 + n_vertices + n_faces)
    colored = header is not None and header[2] is not None
    n_normals = 3 if header is not None and header[3] is not None else 0
    vertices, vertex_attributes = _vertices(lines, vertex_lines, colored, n_normals)
    corners, n_corners, face_attributes = _faces(lines, face_lines)
    n_more = len(lines) - 1 - n_vertices - n_faces
    return Content(
        vertices=vertices,
        corners=corners,
        n_corners=n_corners,
        attributes=vertex_attributes | face_attributes,
        notes=(f"{n_more} lines after the last face were ignored",) if n_more else (),
        vertex_line=lambda i: lines.number(1 + i),
        face_line=lambda i: lines.number(1 + n_vertices + i),
    )


def is_off(head: bytes) -> bool:
    return _HEADER.match(head) is not None


def _counts(lines: TextLines, path: Path) -> tuple[int, int]:
    if len(lines) == 0:
        raise MeshFormatError(f"{path}: the counts of vertices and faces are missing; the file is empty or truncated")
    if not 2 <= lines.n_tokens[0] <= 3:
        raise lines.error(0, "expected the counts of vertices, faces and edges")
    n_vertices, n_faces = lines.integers(np.array([0]), "counts").tolist()[:2]
    if n_vertices < 0 or n_faces < 0:
        raise lines.error(0, "counts must not be negative")
    return n_vertices, n_faces


def _vertices(lines: TextLines, vertex_lines: IntArray, colored: bool, n_normals: int) -> tuple[FloatArray, Attributes]:
    n_tokens = lines.n_tokens[vertex_lines]
    n_needed = 3 + n_normals + 3 * colored
    message = f"a vertex needs {n_needed} numbers here"
    lines.need(vertex_lines, n_tokens >= n_needed, lambda i: f"{message}, found {n_tokens[i]}")
    rows = lines.floats(vertex_lines, "coordinates")
    vertices = rows.columns(0, 3)
    if not colored or len(vertices) == 0:
        return vertices, {}
    colors = rows.columns(3 + n_normals, min(int(n_tokens.min()), 7 + n_normals))
    return vertices, {"vertex_colors": _colors(colors, lines, vertex_lines)}


def _faces(lines: TextLines, face_lines: IntArray) -> tuple[IntArray, IntArray, Attributes]:
    """`k i_1 .. i_k` and then nothing, an index into a color map (ignored), or 3 or 4 color values."""
    if len(face_lines) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), {}
    rows = lines.floats(face_lines, "face entries")
    values, begin, n_tokens = rows
    counts = values[begin]
    fine = (counts >= 0) & (counts + 1 <= n_tokens) & (counts == np.rint(counts))
    begins = "a face begins with its number of corners"
    lines.need(face_lines, fine, lambda i: f"{begins}; found {counts[i]:g} and {n_tokens[i] - 1} more numbers")
    n_corners = counts.astype(np.int64)
    corners, bad = rows.lists(begin + 1, n_corners)
    if bad >= 0:
        found = values[begin[bad] + 1 : begin[bad] + 1 + n_corners[bad]]
        wrong = found[~((found == np.rint(found)) & (np.abs(found) < LARGEST_WHOLE))][0]
        raise lines.error(int(face_lines[bad]), f"corners must be integers, found {wrong:g}")
    attributes: Attributes = {}
    n_extra = int((n_tokens - n_corners - 1).min())
    if n_extra >= 3:
        columns = np.arange(min(n_extra, 4))
        attributes["face_colors"] = _colors(values[(begin + n_corners + 1)[:, None] + columns], lines, face_lines)
    return corners, n_corners, attributes


def _colors(values: NDArray[np.float64], lines: TextLines, colored_lines: IntArray) -> Colors:
    """Numbers with a decimal point are 0..1, numbers without are 0..255."""
    whole = "." not in lines.text(int(colored_lines[0])).split()[-1]
    return to_colors(np.clip(values, 0, 255).astype(np.int64) if whole else values)


def off_bytes(mesh: Mesh, attributes: Attributes) -> bytes:
    """Numbers are written with all digits, so that they are read back exactly."""
    head = f"{'C' if 'vertex_colors' in attributes else ''}OFF\n{mesh.n_vertices} {mesh.n_faces} 0\n"
    parts = [head]
    for start, number, rows, colors in (
        ("", "%r", mesh.vertices, attributes.get("vertex_colors")),
        ("3 ", "%d", mesh.faces, attributes.get("face_colors")),
    ):
        columns: list[list[Any]] = rows.T.tolist() + ([] if colors is None else colors.T.tolist())
        row = start + " ".join([number] * len(columns)) + "\n"
        parts += [row % values for values in zip(*columns, strict=True)]
    return "".join(parts).encode()
