"""Wavefront OBJ. Face colors are materials in a separate .mtl file, face labels are groups."""

from __future__ import annotations

import io
import re

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats.polygons import Content
from hodgeformer.mesh.formats.source import Source, TextLines
from hodgeformer.mesh.mesh import Attributes, Colors, FloatArray, IntArray, Mesh, to_colors

_KEYWORDS = [
    b"vt", b"vn", b"vp", b"g", b"o", b"s", b"l", b"p", b"mg", b"usemtl", b"mtllib", b"usemap", b"maplib",
    b"call", b"cstype", b"deg", b"bmat", b"step", b"curv", b"curv2", b"surf", b"parm", b"trim", b"hole",
    b"scrv", b"sp", b"end", b"con", b"bevel", b"c_interp", b"d_interp", b"lod", b"ctech", b"stech",
]  # fmt: skip
_HEAD = 65536
_NO_MATERIAL = (0.8, 0.8, 0.8)
_PER_NAME = 250  # bytes: a name, its dictionary entry and its color
_GROUP_OF_LABEL = re.compile(r"label_(-?[0-9]{1,18})")  # 19 digits may not fit in 64 bits


def read_obj(source: Source) -> Content:
    """Vertices and polygons in the order of the file; texture coordinates and normals are ignored."""
    lines, vertex_lines, face_lines = _lines(source)
    vertices, attributes, notes = _vertices(lines, vertex_lines)
    corners = _corners(lines, vertex_lines, face_lines)
    keywords = _Keywords(lines)
    notes += keywords.notes()
    labels, (colors, color_notes) = _labels(keywords, face_lines), _face_colors(keywords, face_lines)
    attributes |= {} if labels is None else {"face_labels": labels}
    attributes |= {} if colors is None else {"face_colors": colors}
    return Content(
        vertices=vertices,
        corners=corners,
        n_corners=lines.n_tokens[face_lines],
        attributes=attributes,
        notes=tuple(notes + color_notes),
        vertex_line=lambda i: lines.number(int(vertex_lines[i])),
        face_line=lambda i: lines.number(int(face_lines[i])),
    )


def face_names(source: Source, keyword: str) -> tuple[list[str], IntArray]:
    """The names after a keyword (`usemtl`, `g` or `o`), and for every polygon the position of its name in this list; -1
    for polygons before the first."""
    lines, _, face_lines = _lines(source)
    return _names(_Keywords(lines), keyword, face_lines)


def _lines(source: Source) -> tuple[TextLines, IntArray, IntArray]:
    """All lines, and the positions of those of vertices and of faces, which lose their keyword."""
    if not any(mark in source.data for mark in (b"v ", b"v\t", b"f ", b"f\t")):
        # Not a mesh, so the error below need not read millions of lines.
        source = Source(source.path, source.data[:_HEAD])
    lines = TextLines(source, continuation=b"\\")
    first, second = lines.bytes[lines.starts], lines.bytes[1:][lines.starts]
    alone = second <= ord(" ")
    vertex_lines = np.flatnonzero((first == ord("v")) & alone)
    face_lines = np.flatnonzero((first == ord("f")) & alone)
    if len(vertex_lines) == 0 and len(face_lines) == 0:
        message = "not an OBJ mesh: the file has no line such as 'v x y z' or 'f a b c'"
        raise lines.error(0, message) if len(lines) else MeshFormatError(f"{source.path}: {message}")
    lines.drop_keyword(vertex_lines)
    lines.drop_keyword(face_lines)
    return lines, vertex_lines, face_lines


def _vertices(lines: TextLines, vertex_lines: IntArray) -> tuple[FloatArray, Attributes, list[str]]:
    """`v x y z`, `v x y z w` (w is ignored), `v x y z r g b` or `v x y z r g b a`."""
    n_tokens = lines.n_tokens[vertex_lines]
    fine = np.isin(n_tokens, (3, 4, 6, 7))
    lines.need(vertex_lines, fine, lambda i: f"a vertex needs 3 coordinates, found {n_tokens[i]} numbers")
    rows, colored = lines.floats(vertex_lines, "coordinates"), n_tokens >= 6
    vertices = rows.columns(0, 3)
    if colored.size and colored.all():
        return vertices, {"vertex_colors": to_colors(rows.columns(3, n_tokens.min()))}, []
    skipped = f"colors of {colored.sum()} vertices ignored: the others have none"
    return vertices, {}, [skipped] if colored.any() else []


def _corners(lines: TextLines, vertex_lines: IntArray, face_lines: IntArray) -> IntArray:
    """Vertex numbers from 0. The file counts from 1; negative numbers count back from the line of the face."""
    indices = lines.integers(face_lines, "corners of a face", before_slash=True)
    zero = np.flatnonzero(indices == 0)
    n_corners = lines.n_tokens[face_lines]
    if zero.size:
        face = int(np.searchsorted(np.cumsum(n_corners), zero[0], side="right"))
        raise lines.error(int(face_lines[face]), f"face {face} refers to vertex 0, but OBJ counts from 1")
    if indices.size and indices.min() < 0:
        seen = np.repeat(np.searchsorted(vertex_lines, face_lines) + 1, n_corners)
        np.add(indices, seen, out=indices, where=indices < 0)
    indices -= 1
    return indices


class _Keywords:
    """The lines of a file that are neither vertices nor faces, by keyword."""

    def __init__(self, lines: TextLines) -> None:
        self.lines = lines
        # A removed keyword (v, f) left a space at the start of its line.
        self.other = np.flatnonzero(lines.bytes[lines.starts] > ord(" "))
        lines.source.reserve(16 * len(self.other), f"{len(self.other):,} lines of text")
        self.heads = lines.keywords(self.other)

    def find(self, keyword: str) -> IntArray:
        """Line indices."""
        return np.asarray(self.other[self.heads == keyword.encode()], np.int64)

    def rest(self, line: int) -> str:
        """The rest of the line after the keyword."""
        return "".join(self.lines.text(line).split(maxsplit=1)[1:])

    def notes(self) -> list[str]:
        unknown = self.other[~np.isin(self.heads, _KEYWORDS)]
        if unknown.size == 0:
            return []
        number = self.lines.number(int(unknown[0]))
        return [f"{unknown.size} lines with unknown keywords were ignored, the first is line {number}"]


def _last_before(keywords: _Keywords, found: IntArray, face_lines: IntArray) -> IntArray:
    """For every face the last of the found lines before it, -1 if there is none."""
    keywords.lines.source.reserve(24 * len(face_lines) + 8 * len(found), f"groups of {len(face_lines):,} faces")
    return np.searchsorted(found, face_lines) - 1


def _names(keywords: _Keywords, keyword: str, face_lines: IntArray) -> tuple[list[str], IntArray]:
    found, place_of = keywords.find(keyword), dict[str, int]()
    places = np.full(len(found) + 1, -1, dtype=np.int64)  # the last is for faces before the first name
    for i, line in enumerate(found):
        n_known = len(place_of)
        places[i] = place_of.setdefault(keywords.rest(line), n_known)
        keywords.lines.source.reserve(_PER_NAME * (len(place_of) - n_known), f"{len(place_of):,} names")
    return list(place_of), np.asarray(places[_last_before(keywords, found, face_lines)], np.int64)


def _labels(keywords: _Keywords, face_lines: IntArray) -> IntArray | None:
    """The number of every face's group, if all are named like `label_3` and every face has one."""
    found = keywords.find("g")
    groups = _last_before(keywords, found, face_lines)
    if len(found) == 0 or groups.min(initial=0) < 0:
        return None
    labels = np.empty(len(found), dtype=np.int64)
    for i, line in enumerate(found):
        match = _GROUP_OF_LABEL.fullmatch(keywords.rest(line))
        if match is None:
            return None
        labels[i] = int(match[1])
    return np.asarray(labels[groups], np.int64)


def _face_colors(keywords: _Keywords, face_lines: IntArray) -> tuple[Colors | None, list[str]]:
    """The color of every face's material; None and a note if a material is missing."""
    source, libraries = keywords.lines.source, keywords.find("mtllib")
    if len(keywords.find("usemtl")) == 0 or len(libraries) == 0:
        return None, []
    names, row = _names(keywords, "usemtl", face_lines)
    row_of = {name: i for i, name in enumerate(names)}
    colors = np.full((len(names) + 1, 4), np.nan)
    colors[-1] = *_NO_MATERIAL, 1.0  # of faces before the first material
    read: set[int] = set()
    for line in libraries:
        library = keywords.rest(line)
        data = source.beside(library.replace("\\", "/"))
        if data is None:
            return None, [f"colors of faces ignored: material file {library[:60]!r} is not in the folder of the mesh"]
        if id(data) not in read:  # a file may be named any number of times
            read.add(id(data))
            _read_materials(data, row_of, colors)
    missing = np.isnan(colors[:, 0])
    if missing.any():
        name = names[int(np.argmax(missing))]
        return None, [f"colors of faces ignored: material {name[:60]!r} has no color"]
    colors = colors[:, :3] if np.isnan(colors[:, 3]).any() else colors
    colors = np.clip(np.rint(colors * 255), 0, 255).astype(np.uint8)
    return colors[row], []


def _read_materials(data: bytes, row_of: dict[str, int], colors: FloatArray) -> None:
    """Fill in `Kd` (three numbers) and `d` (one) of the materials; invalid lines are ignored."""
    row: int | None = None
    for line in io.BytesIO(data if b"\n" in data else data.replace(b"\r", b"\n")):
        keyword, _, rest = line.strip().partition(b" ")
        if keyword == b"newmtl":
            row = row_of.get(rest.decode("utf-8", errors="replace").strip())
        elif row is not None and keyword in (b"Kd", b"d"):
            try:
                values = [float(word) for word in rest.split()]
            except ValueError:
                continue
            if len(values) == (3 if keyword == b"Kd" else 1):
                colors[row, slice(0, 3) if keyword == b"Kd" else slice(3, 4)] = values


def obj_bytes(mesh: Mesh, attributes: Attributes, library: str) -> bytes:
    """An OBJ file; `library` is the name of the .mtl file with the face colors, if there are any."""
    rows = mesh.vertices
    row = "v %r %r %r\n"
    if "vertex_colors" in attributes:
        rows = np.concatenate([rows, attributes["vertex_colors"][:, :3] / 255.0], axis=1)
        row = "v %r %r %r %.6f %.6f %.6f\n"
    parts = [f"mtllib {library}\n"] if "face_colors" in attributes else []
    parts.append(row * len(rows) % tuple(rows.ravel().tolist()))
    change = np.arange(mesh.n_faces) == 0
    face_colors, face_labels = attributes.get("face_colors"), attributes.get("face_labels")
    for values in (face_colors, face_labels):
        if values is not None:
            flat = values.reshape(mesh.n_faces, -1)
            change[1:] |= (flat[1:] != flat[:-1]).any(axis=1)
    starts = np.flatnonzero(change).tolist()
    for begin, end in zip(starts, [*starts[1:], mesh.n_faces], strict=True):
        if face_labels is not None:
            parts.append(f"g label_{face_labels[begin]}\n")
        if face_colors is not None:
            parts.append(f"usemtl {_material_of(face_colors[begin])}\n")
        faces = mesh.faces[begin:end] + 1
        parts.append("f %d %d %d\n" * len(faces) % tuple(faces.ravel().tolist()))
    return "".join(parts).encode()


def _material_of(color: NDArray[np.uint8]) -> str:
    """`color_ff8000`: the same color is the same material."""
    return "color_" + bytes(color.tolist()).hex()


def mtl_bytes(face_colors: Colors) -> bytes:
    """The material library of an OBJ file: one material per color; `d` is the alpha channel if there is one."""
    blocks = []
    for color in np.unique(face_colors, axis=0):
        red, green, blue, *alpha = (color / 255.0).tolist()
        lines = [f"newmtl {_material_of(color)}", f"Kd {red:.6f} {green:.6f} {blue:.6f}", "Ks 0 0 0", "illum 1"]
        lines += [f"d {value:.6f}" for value in alpha]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks).encode()
