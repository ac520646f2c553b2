"""Wavefront OBJ. Colors of faces travel as materials in a .mtl file beside it, labels of faces as groups."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshFormatError
from hodgeformer.mesh.formats.content import Attributes, Colors, Content, TextLines, read_beside, to_colors
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh

_KEYWORDS = [
    b"vt", b"vn", b"vp", b"g", b"o", b"s", b"l", b"p", b"mg", b"usemtl", b"mtllib", b"usemap", b"maplib",
    b"call", b"cstype", b"deg", b"bmat", b"step", b"curv", b"curv2", b"surf", b"parm", b"trim", b"hole",
    b"scrv", b"sp", b"end", b"con", b"bevel", b"c_interp", b"d_interp", b"lod", b"ctech", b"stech",
]  # fmt: skip
_HEAD = 65536
_NO_MATERIAL = (0.8, 0.8, 0.8)
_GROUP_OF_LABEL = re.compile(r"label_(-?[0-9]{1,18})")  # 19 digits may not fit in 64 bits


def read_obj(data: bytes, path: Path) -> Content:
    """Vertices and polygons in the order of the file; texture coordinates and normals are passed over."""
    if not any(mark in data for mark in (b"v ", b"v\t", b"f ", b"f\t")):
        data = data[:_HEAD]  # no mesh in any case, so the error below need not walk through millions of lines
    lines = TextLines(data, path, continuation=b"\\")
    first, second = lines.bytes[lines.starts], lines.bytes[lines.starts + 1]
    alone = second <= ord(" ")
    vertex_lines = np.flatnonzero((first == ord("v")) & alone)
    face_lines = np.flatnonzero((first == ord("f")) & alone)
    if len(vertex_lines) == 0 and len(face_lines) == 0:
        message = "no line of the form 'v x y z' or 'f a b c' in the whole file, this is not an OBJ mesh"
        raise lines.error(0, message) if len(lines) else MeshFormatError(f"{path}: {message}")
    lines.drop_keyword(vertex_lines)
    lines.drop_keyword(face_lines)
    vertices, attributes, notes = _vertices(lines, vertex_lines)
    corners = _corners(lines, vertex_lines, face_lines)
    keywords = _Keywords(lines)
    notes += keywords.notes()
    face_attributes, face_notes = _face_attributes(keywords, face_lines, path)
    return Content(
        vertices=vertices,
        corners=corners,
        n_corners=lines.n_tokens[face_lines],
        attributes=attributes | face_attributes,
        notes=tuple(notes + face_notes),
        vertex_line=lambda i: lines.number(int(vertex_lines[i])),
        face_line=lambda i: lines.number(int(face_lines[i])),
    )


def _vertices(lines: TextLines, vertex_lines: IntArray) -> tuple[FloatArray, Attributes, list[str]]:
    """`v x y z`, `v x y z w` (w is passed over), `v x y z r g b` or `v x y z r g b a`."""
    n_tokens = lines.n_tokens[vertex_lines]
    fine = np.isin(n_tokens, (3, 4, 6, 7))
    lines.need(vertex_lines, fine, lambda i: f"a vertex needs 3 coordinates, found {n_tokens[i]} numbers")
    rows, colored = lines.floats(vertex_lines, "coordinates"), n_tokens >= 6
    vertices = rows.columns(0, 3)
    if colored.size and colored.all():
        return vertices, {"vertex_colors": to_colors(rows.columns(3, n_tokens.min()))}, []
    left_out = f"colors of {colored.sum()} vertices left out: the others have none"
    return vertices, {}, [left_out] if colored.any() else []


def _corners(lines: TextLines, vertex_lines: IntArray, face_lines: IntArray) -> IntArray:
    """Vertex numbers from 0. The file counts from 1; negative numbers count back from the face's line."""
    indices = lines.indices(face_lines, "corners of a face")
    zero = np.flatnonzero(indices == 0)
    n_corners = lines.n_tokens[face_lines]
    if zero.size:
        face = int(np.searchsorted(np.cumsum(n_corners), zero[0], side="right"))
        raise lines.error(int(face_lines[face]), f"face {face} refers to vertex 0, but OBJ counts from 1")
    if indices.size and indices.min() < 0:
        seen = np.repeat(np.searchsorted(vertex_lines, face_lines), n_corners)
        indices = np.where(indices < 0, indices + seen + 1, indices)
    return indices - 1


class _Keywords:
    """The lines of a file that are neither vertices nor faces, by keyword."""

    def __init__(self, lines: TextLines) -> None:
        self.lines = lines
        # A dropped keyword (v, f) left a blank at the start of its line.
        self.other = np.flatnonzero(lines.bytes[lines.starts] > ord(" "))
        self.heads = lines.keywords(self.other)

    def find(self, keyword: str) -> IntArray:
        """Line indices."""
        return np.asarray(self.other[self.heads == keyword.encode()], np.int64)

    def rest(self, line: int) -> str:
        """What follows the keyword."""
        return "".join(self.lines.text(line).split(maxsplit=1)[1:])

    def notes(self) -> list[str]:
        unknown = self.other[~np.isin(self.heads, _KEYWORDS)]
        if unknown.size == 0:
            return []
        number = self.lines.number(int(unknown[0]))
        return [f"{unknown.size} lines that OBJ does not know were passed over, the first is line {number}"]


def _face_attributes(keywords: _Keywords, face_lines: IntArray, path: Path) -> tuple[Attributes, list[str]]:
    attributes: Attributes = {}
    notes: list[str] = []
    groups, names = _in_force(keywords, "g", face_lines)
    matches = [_GROUP_OF_LABEL.fullmatch(name) for name in names]
    if names and all(matches) and groups.min(initial=0) >= 0:
        labels = np.array([int(match[1]) for match in matches if match], dtype=np.int64)
        attributes["face_labels"] = labels[groups]
    used, names = _in_force(keywords, "usemtl", face_lines)
    libraries = [keywords.rest(int(line)) for line in keywords.find("mtllib")]
    if names and libraries:
        colors, note = _material_colors(names, libraries, path)
        if colors is not None:
            # Faces before the first usemtl take the last row, the color of no material.
            attributes["face_colors"] = colors[used]
        notes += note
    return attributes, notes


def _in_force(keywords: _Keywords, keyword: str, face_lines: IntArray) -> tuple[IntArray, list[str]]:
    """For every face the index of the name in force on its line, -1 before the first."""
    found = keywords.find(keyword)
    names = [keywords.rest(line) for line in found.tolist()]
    return np.searchsorted(found, face_lines) - 1, names


def _material_colors(names: list[str], libraries: list[str], obj_path: Path) -> tuple[Colors | None, list[str]]:
    """Color per name, then the color of no material; None and a note where a material is missing."""
    materials: dict[str, dict[str, list[float]]] = {}
    for library in libraries:
        held = read_beside(obj_path, library.replace("\\", "/"))
        if held is None:
            return None, [f"colors of faces left out: material file {library[:60]!r} is not beside the mesh"]
        materials |= _materials(held.decode("utf-8", errors="replace"))
    missing = [name for name in names if "Kd" not in materials.get(name, {})]
    if missing:
        return None, [f"colors of faces left out: material {missing[0][:60]!r} has no color"]
    has_alpha = all("d" in materials[name] for name in names)
    rows = [materials[name]["Kd"] + (materials[name]["d"] if has_alpha else []) for name in names]
    rows.append([*_NO_MATERIAL, 1.0] if has_alpha else [*_NO_MATERIAL])
    return np.clip(np.rint(np.nan_to_num(np.array(rows)) * 255), 0, 255).astype(np.uint8), []


def _materials(text: str) -> dict[str, dict[str, list[float]]]:
    """`Kd` (three numbers) and `d` (one) of every material; lines that make no sense are passed over."""
    materials: dict[str, dict[str, list[float]]] = {}
    current: dict[str, list[float]] = {}
    for line in text.splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "newmtl":
            current = materials.setdefault(rest.strip(), {})
        elif keyword in ("Kd", "d"):
            try:
                values = [float(word) for word in rest.split()]
            except ValueError:
                continue
            if len(values) == (3 if keyword == "Kd" else 1):
                current[keyword] = values
    return materials


def obj_bytes(mesh: Mesh, held: Attributes, library: str) -> bytes:
    """An OBJ file; `library` is the name of the .mtl file that holds the face colors, if there are any."""
    rows = mesh.vertices
    row = "v %r %r %r\n"
    if "vertex_colors" in held:
        rows = np.concatenate([rows, held["vertex_colors"][:, :3] / 255.0], axis=1)
        row = "v %r %r %r %.6f %.6f %.6f\n"
    parts = [f"mtllib {library}\n"] if "face_colors" in held else []
    parts.append(row * len(rows) % tuple(rows.ravel().tolist()))
    change = np.arange(mesh.n_faces) == 0
    face_colors, face_labels = held.get("face_colors"), held.get("face_labels")
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
    """The material library beside an OBJ file: one per distinct color; `d` is the alpha channel where there is one."""
    blocks = []
    for color in np.unique(face_colors, axis=0):
        red, green, blue, *alpha = (color / 255.0).tolist()
        lines = [f"newmtl {_material_of(color)}", f"Kd {red:.6f} {green:.6f} {blue:.6f}", "Ks 0 0 0", "illum 1"]
        lines += [f"d {value:.6f}" for value in alpha]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks).encode()
