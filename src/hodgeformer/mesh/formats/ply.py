"""PLY, ASCII and binary of both byte orders, with colors and integer labels of faces and vertices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshFormatError
from hodgeformer.mesh.formats.content import Attributes, Content, LineOf, TextLines, to_colors
from hodgeformer.mesh.mesh import Attribute, IntArray, Mesh

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4",
    "float32": "f4", "float64": "f8", "int64": "i8", "uint64": "u8",
}  # fmt: skip
_LENGTHS = {name: code for name, code in _TYPES.items() if code[0] != "f"}
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_CORNER_LISTS = ("vertex_indices", "vertex_index")
_CHANNELS = ("red", "green", "blue", "alpha")
_OWN = "own_"  # before a channel of the colors that a scan came with; no viewer shows them
_LABEL_NAMES = ("label", "labels", "scalar_label", "face_label", "vertex_label")
_Written = tuple[str, str, NDArray[Any]]  # what the header says, type of the bytes, values


class _List(NamedTuple):
    """Lists of all rows, one after the other, and the length of each."""

    values: NDArray[Any]
    counts: IntArray


class _Property(NamedTuple):
    """A column; `length` is the type of a list's length, None for a scalar."""

    name: str
    dtype: np.dtype[Any]
    length: np.dtype[Any] | None


class _Element(NamedTuple):
    """`element face 12` and its properties."""

    name: str
    n_rows: int
    properties: list[_Property]


_Columns = dict[str, "NDArray[Any] | _List"]


def read_ply(data: bytes, path: Path) -> Content:
    """Colors are the properties red, green, blue, alpha; labels are label (or labels, scalar_Label)."""
    is_text, elements, body = _header(data, path)
    if is_text:
        tables, lines = _read_ascii(data, body, elements, path)
    else:
        tables, lines = _read_binary(data, body, elements, path), {}
    for needed in ("vertex", "face"):
        if needed not in tables:
            raise MeshFormatError(f"{path}: the file has no '{needed}' element; a surface needs vertices and faces")
    vertex, face = tables["vertex"], tables["face"]
    corners, n_corners = _corners(face, path)
    attributes = _attributes(vertex, "vertex_colors", "vertex_own_colors", "vertex_labels")
    return Content(
        vertices=_vertices(vertex, path),
        corners=corners,
        n_corners=n_corners,
        attributes=attributes | _attributes(face, "face_colors", "face_own_colors", "face_labels"),
        vertex_line=lines.get("vertex"),
        face_line=lines.get("face"),
    )


def _header(data: bytes, path: Path) -> tuple[bool, list[_Element], int]:
    """Whether it is text, the elements with their properties, and where the body begins."""
    # A header is short; a file without its end must not be searched to the last byte as text.
    end = data.find(b"end_header", 0, 1 << 20)
    newline = data.find(b"\n", end)
    if end < 0 or newline < 0:
        raise MeshFormatError(f"{path}:1: the PLY header has no 'end_header' line; the file is cut short, get it again")
    order: str | None = None
    elements: list[_Element] = []
    for number, line in enumerate(data[:end].decode("ascii", errors="replace").splitlines(), start=1):
        words = line.split() or ["comment"]
        try:
            if words[0] == "format":
                order = _ORDERS[words[1]]
            elif order is None and words[0] in ("element", "property"):
                break
            elif words[0] == "element":
                elements.append(_Element(words[1], int(words[2]), []))
                if elements[-1].n_rows < 0:
                    raise ValueError(words[2])
            elif words[0] == "property" and words[1] == "list":
                dtype, length = np.dtype(f"{order}{_TYPES[words[3]]}"), np.dtype(f"{order}{_LENGTHS[words[2]]}")
                elements[-1].properties.append(_Property(words[4], dtype, length))
            elif words[0] == "property":
                elements[-1].properties.append(_Property(words[2], np.dtype(f"{order}{_TYPES[words[1]]}"), None))
            elif words[0] not in ("ply", "comment", "obj_info"):
                raise ValueError(words[0])
        except (KeyError, IndexError, ValueError):
            raise MeshFormatError(f"{path}:{number}: not a line of a PLY header: {line.strip()[:60]!r}") from None
    if order is None:
        raise MeshFormatError(f"{path}:1: the PLY header has no 'format' line with one of {', '.join(_ORDERS)}")
    return order == "", elements, newline + 1


def _read_ascii(
    data: bytes, body: int, elements: list[_Element], path: Path
) -> tuple[dict[str, _Columns], dict[str, LineOf]]:
    """One row per line."""
    lines = TextLines(data, path, offset=body)
    tables: dict[str, _Columns] = {}
    line_of: dict[str, LineOf] = {}
    first = 0
    for name, n_rows, properties in elements:
        if len(lines) < first + n_rows:
            number = lines.number(len(lines) - 1) if len(lines) else 1
            raise MeshFormatError(
                f"{path}:{number}: the file ends early: {n_rows} rows of '{name}' are announced, "
                f"{len(lines) - first} are there; it is cut short, get it again"
            )
        tables[name] = _ascii_columns(lines, first + np.arange(n_rows), properties, name)
        line_of[name] = lambda i, begin=first: lines.number(begin + i)  # type: ignore[misc]
        first += n_rows
    return tables, line_of


def _ascii_columns(lines: TextLines, rows: IntArray, properties: list[_Property], name: str) -> _Columns:
    def too_short(row: int) -> str:
        return f"row {row} of '{name}' has fewer values than the header announces"

    values, at, n_tokens = lines.floats(rows, f"values of '{name}'")
    end = at + n_tokens
    columns: _Columns = {}
    for prop, dtype, length in properties:
        lines.need(rows, at + 1 <= end, too_short)
        if length is None:
            columns[prop] = _as_type(values[at], dtype)
            at = at + 1
            continue
        said = values[at]
        lines.need(rows, (said >= 0) & (said == np.rint(said)) & (at + 1 + said <= end), too_short)
        counts = said.astype(np.int64)
        columns[prop] = _List(_as_type(values[_runs(at + 1, counts)], dtype), counts)
        at = at + 1 + counts
    return columns


def _as_type(values: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Whole-number types become int64; a value that is not whole becomes -1, which is no index."""
    if dtype.kind == "f":
        return values
    whole = (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    return np.where(whole, values, -1).astype(np.int64)


def _runs(begin: IntArray, counts: IntArray, step: int = 1) -> IntArray:
    """begin_0, begin_0 + step .. (counts_0 of them), begin_1 .. and so on."""
    before = np.cumsum(counts) - counts
    return np.asarray(step * np.arange(int(counts.sum())) + np.repeat(begin - step * before, counts), np.int64)


def _read_binary(data: bytes, body: int, elements: list[_Element], path: Path) -> dict[str, _Columns]:
    """Rows without padding; a table whose lists all have one length is read in one piece."""
    tables: dict[str, _Columns] = {}
    for name, n_rows, properties in elements:
        # Counts are compared with the bytes that are left before anything is made as large as they say.
        least = sum((length or dtype).itemsize for _, dtype, length in properties)
        read = None
        if n_rows * least <= len(data) - body:
            read = _even_rows(data, body, n_rows, properties) or _uneven_rows(data, body, n_rows, properties)
        if read is None:
            raise MeshFormatError(
                f"{path}: the file ends early: {n_rows} rows of '{name}' are announced, but "
                f"{len(data) - body} bytes do not hold them; it is cut short or damaged, get it again"
            )
        tables[name], body = read
    return tables


def _even_rows(data: bytes, body: int, n_rows: int, properties: list[_Property]) -> tuple[_Columns, int] | None:
    """All rows at once; None where the lists differ in length or bytes are missing."""
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    at = body
    for i, (_, dtype, length) in enumerate(properties):
        n = 1
        if length is not None:
            n = _length_at(data, at, length)
            if n < 0 or n_rows * n * dtype.itemsize > len(data) - body:
                return None
            fields.append((f"n{i}", length, ()))
            at += length.itemsize
        fields.append((f"c{i}", dtype, () if length is None else (n,)))
        at += n * dtype.itemsize
    row = np.dtype(fields)
    if body + n_rows * row.itemsize > len(data):
        return None
    rows = np.frombuffer(data, row, n_rows, body) if row.itemsize else np.empty(0, row)
    columns: _Columns = {}
    for i, (name, _, length) in enumerate(properties):
        columns[name] = values = _native(rows[f"c{i}"])
        if length is not None:
            counts = rows[f"n{i}"].astype(np.int64)
            if (counts != counts[:1]).any():
                return None
            columns[name] = _List(values.ravel(), counts)
    return columns, body + n_rows * row.itemsize


def _uneven_rows(data: bytes, body: int, n_rows: int, properties: list[_Property]) -> tuple[_Columns, int] | None:
    """Row by row to find where each value lies; None where bytes are missing."""
    at, spans = body, np.zeros((len(properties), n_rows, 2), dtype=np.int64)
    for row in range(n_rows):
        for i, (_, dtype, length) in enumerate(properties):
            n = 1
            if length is not None:
                n = _length_at(data, at, length)
                at += length.itemsize
            if n < 0 or at + n * dtype.itemsize > len(data):
                return None
            spans[i, row] = at, n
            at += n * dtype.itemsize
    columns: _Columns = {}
    raw = np.frombuffer(data, np.uint8)
    for (name, dtype, length), (begin, counts) in zip(properties, spans.transpose(0, 2, 1), strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(raw, dtype.itemsize)
        values = _native(windows[_runs(begin, counts, dtype.itemsize)].view(dtype).ravel())
        columns[name] = values if length is None else _List(values, counts)
    return columns, at


def _length_at(data: bytes, at: int, dtype: np.dtype[Any]) -> int:
    order: Literal["big", "little"] = "big" if dtype.str[0] == ">" else "little"
    return int.from_bytes(data[at : at + dtype.itemsize], order, signed=dtype.kind == "i")


def _native(values: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))


def _vertices(vertex: _Columns, path: Path) -> NDArray[np.float64]:
    missing = [name for name in "xyz" if not isinstance(vertex.get(name), np.ndarray)]
    if missing:
        raise MeshFormatError(f"{path}: vertices have no property '{missing[0]}'; x, y and z are needed")
    return np.stack([np.asarray(vertex[name], dtype=np.float64) for name in "xyz"], axis=1)


def _corners(face: _Columns, path: Path) -> tuple[IntArray, IntArray]:
    for name in _CORNER_LISTS:
        corners = face.get(name)
        if isinstance(corners, _List):
            return corners.values.astype(np.int64), corners.counts
    raise MeshFormatError(
        f"{path}: faces have no list called {' or '.join(_CORNER_LISTS)}; triangle strips are not read"
    )


def _attributes(columns: _Columns, colors_name: Attribute, own_name: Attribute, labels_name: Attribute) -> Attributes:
    scalars = {name.lower(): value for name, value in columns.items() if isinstance(value, np.ndarray)}
    found: Attributes = {}
    for kind, prefix in ((colors_name, ""), (own_name, _OWN)):
        channels = [scalars[prefix + name] for name in _CHANNELS if prefix + name in scalars]
        if all(prefix + name in scalars for name in _CHANNELS[:3]):
            found[kind] = to_colors(np.stack(channels, axis=1))
    labels = next((scalars[name] for name in _LABEL_NAMES if name in scalars), None)
    if labels is not None and bool(((labels == np.rint(labels)) & (np.abs(labels) < 2.0**53)).all()):
        found[labels_name] = labels.astype(np.int64)
    return found


def ply_bytes(mesh: Mesh, held: Attributes) -> bytes:
    """Binary, little endian; coordinates as double, labels as the int property `label`."""
    vertex: list[_Written] = [(f"double {name}", "<f8", mesh.vertices[:, i]) for i, name in enumerate("xyz")]
    # The count of a list and its entries are one property to PLY and two columns of bytes.
    face: list[_Written] = [("list uchar int vertex_indices", "u1", np.full(mesh.n_faces, 3)), ("", "<i4", mesh.faces)]
    for kind, values in sorted(held.items()):  # colors before labels and own colors
        rows = vertex if kind.startswith("vertex") else face
        if kind.endswith("labels"):
            rows.append(("int label", "<i4", values))
            continue
        for name, column in zip(_CHANNELS, values.T, strict=False):
            rows.append((f"uchar {_OWN if kind.endswith('own_colors') else ''}{name}", "u1", column))
    head, body = ["ply", "format binary_little_endian 1.0", "comment written by hodgeformer"], b""
    for name, rows in (("vertex", vertex), ("face", face)):
        count = len(rows[0][2])
        head += [f"element {name} {count}", *(f"property {line}" for line, _, _ in rows if line)]
        table = np.empty(count, [(f"c{i}", dtype, values.shape[1:]) for i, (_, dtype, values) in enumerate(rows)])
        for i, (_, _, column) in enumerate(rows):
            table[f"c{i}"] = column
        body += table.tobytes()
    return ("\n".join([*head, "end_header"]) + "\n").encode() + body
