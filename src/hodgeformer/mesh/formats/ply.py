"""PLY, ASCII and binary of both byte orders, with colors, integer labels and columns of vertices, edges and faces."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats.ply_tables import Columns, Element, List, Property, read_ascii, read_binary
from hodgeformer.mesh.formats.polygons import Content
from hodgeformer.mesh.formats.source import LARGEST_WHOLE, Source
from hodgeformer.mesh.mesh import (
    CHANNELS,
    ENDS,
    LABELS,
    OWN_COLOR,
    Attribute,
    Attributes,
    Column,
    IntArray,
    Mesh,
    is_column_name,
    to_colors,
)

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4",
    "float32": "f4", "float64": "f8", "int64": "i8", "uint64": "u8",
}  # fmt: skip
_LENGTHS = {name: code for name, code in _TYPES.items() if code[0] != "f"}
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_CORNER_LISTS = ("vertex_indices", "vertex_index")
_WRITTEN_AS = {"f4": "float", "u1": "uchar", "i1": "char", "u2": "ushort", "i2": "short", "u4": "uint", "i4": "int"}
_Written = tuple[str, str, NDArray[Any]]  # the header line, type of the bytes, values


def read_ply(source: Source) -> Content:
    """Colors are the properties red, green, blue, alpha; labels are label (or labels, scalar_Label).

    Other numbers are columns; those of edges need an element `edge` with vertex1 and vertex2.
    """
    path = source.path
    is_text, elements, body = _header(source.data, path)
    if is_text:
        tables, lines = read_ascii(source, body, elements)
    else:
        tables, lines = read_binary(source, body, elements), {}
    for needed in ("vertex", "face"):
        if needed not in tables:
            raise MeshFormatError(f"{path}: the file has no '{needed}' element; a surface needs vertices and faces")
    vertex, face = tables["vertex"], tables["face"]
    corners, n_corners = _corners(face, path)
    columns, notes = _columns(tables)
    ends = [tables.get("edge", {}).get(name) for name in ENDS]
    has_edges = all(isinstance(each, np.ndarray) and len(each) for each in ends)
    attributes = _attributes(vertex, "vertex_colors", "vertex_own_colors", "vertex_labels")
    return Content(
        vertices=_vertices(vertex, path),
        corners=corners,
        n_corners=n_corners,
        attributes=attributes | _attributes(face, "face_colors", "face_own_colors", "face_labels"),
        vertex_line=lines.get("vertex"),
        face_line=lines.get("face"),
        notes=notes,
        columns=columns,
        edges=np.stack(cast(Any, ends), axis=1).astype(np.int64) if has_edges else None,
    )


def _header(data: bytes, path: Path) -> tuple[bool, list[Element], int]:
    """Whether it is text, the elements with their properties, and the offset of the body."""
    # A header is short; without its end, do not search the whole file.
    end = data.find(b"end_header", 0, 1 << 20)
    newline = data.find(b"\n", end)
    if end < 0 or newline < 0:
        raise MeshFormatError(f"{path}:1: the PLY header has no 'end_header' line; the file is truncated or damaged")
    order: str | None = None
    elements: list[Element] = []
    for number, line in enumerate(data[:end].decode("ascii", errors="replace").splitlines(), start=1):
        words = line.split() or ["comment"]
        try:
            if words[0] == "format":
                order = _ORDERS[words[1]]
            elif order is None and words[0] in ("element", "property"):
                break
            elif words[0] == "element":
                elements.append(Element(words[1], int(words[2]), []))
                if elements[-1].n_rows < 0:
                    raise ValueError(words[2])
            elif words[0] == "property" and words[1] == "list":
                dtype, length = np.dtype(f"{order}{_TYPES[words[3]]}"), np.dtype(f"{order}{_LENGTHS[words[2]]}")
                elements[-1].properties.append(_property(elements[-1], words[4], dtype, length))
            elif words[0] == "property":
                dtype = np.dtype(f"{order}{_TYPES[words[1]]}")
                elements[-1].properties.append(_property(elements[-1], words[2], dtype, None))
            elif words[0] not in ("ply", "comment", "obj_info"):
                raise ValueError(words[0])
        except (KeyError, IndexError, ValueError):
            raise MeshFormatError(f"{path}:{number}: invalid line in the PLY header: {line.strip()[:60]!r}") from None
    if order is None:
        raise MeshFormatError(f"{path}:1: the PLY header has no 'format' line with one of {', '.join(_ORDERS)}")
    return order == "", elements, newline + 1


def _property(element: Element, name: str, dtype: np.dtype[Any], length: np.dtype[Any] | None) -> Property:
    is_read = length is None or name in _CORNER_LISTS
    return Property(name, dtype, length, element.name in ("vertex", "face", "edge") and is_read)


def _vertices(vertex: Columns, path: Path) -> NDArray[np.float64]:
    missing = [name for name in "xyz" if not isinstance(vertex.get(name), np.ndarray)]
    if missing:
        raise MeshFormatError(f"{path}: vertices have no property '{missing[0]}'; x, y and z are needed")
    vertices = np.empty((len(cast(NDArray[Any], vertex["x"])), 3))
    for i, name in enumerate("xyz"):
        vertices[:, i] = vertex[name]
    return vertices


def _corners(face: Columns, path: Path) -> tuple[IntArray, IntArray]:
    for name in _CORNER_LISTS:
        corners = face.get(name)
        if isinstance(corners, List):
            return corners.values.astype(np.int64, copy=False), corners.counts
    raise MeshFormatError(
        f"{path}: faces have no list named {' or '.join(_CORNER_LISTS)}; triangle strips are not supported"
    )


def _attributes(columns: Columns, colors_name: Attribute, own_name: Attribute, labels_name: Attribute) -> Attributes:
    scalars = {name.lower(): value for name, value in columns.items() if isinstance(value, np.ndarray)}
    found: Attributes = {}
    for kind, prefix in ((colors_name, ""), (own_name, OWN_COLOR)):
        channels = [scalars[prefix + name] for name in CHANNELS if prefix + name in scalars]
        if all(prefix + name in scalars for name in CHANNELS[:3]):
            found[kind] = to_colors(np.stack(channels, axis=1))
    labels = next((scalars[name] for name in LABELS if name in scalars), None)
    if labels is not None and bool(((labels == np.rint(labels)) & (np.abs(labels) < LARGEST_WHOLE)).all()):
        found[labels_name] = labels.astype(np.int64)
    return found


def _columns(tables: dict[str, Columns]) -> tuple[dict[str, Column], tuple[str, ...]]:
    """All other numbers of vertices, faces and edges, and notes."""
    columns: dict[str, Column] = {}
    notes = []
    for element in ("vertex", "face", "edge"):
        for name, values in tables.get(element, {}).items():
            if not isinstance(values, np.ndarray) or not is_column_name(name) or not len(values):
                continue
            if name in columns:
                notes.append(f"property '{name}' of each {element} ignored: each {columns[name].element} has it too")
                continue
            values.setflags(write=False)
            columns[name] = Column(cast(Any, element), values)
    return columns, tuple(notes)


def ply_bytes(mesh: Mesh, attributes: Attributes) -> bytes:
    """Binary, little endian; coordinates as double, labels as the int property `label`, columns under their names."""
    vertex: list[_Written] = [(f"double {name}", "<f8", mesh.vertices[:, i]) for i, name in enumerate("xyz")]
    # The count of a list and its entries are one property to PLY and two columns of bytes.
    face: list[_Written] = [("list uchar int vertex_indices", "u1", np.full(mesh.n_faces, 3)), ("", "<i4", mesh.faces)]
    tables = {"vertex": vertex, "face": face}
    if any(element == "edge" for element, _ in mesh.columns.values()):
        tables["edge"] = [(f"int {name}", "<i4", ends) for name, ends in zip(ENDS, mesh.topology.edges.T, strict=True)]
    for kind, values in sorted(attributes.items()):  # colors before labels and own colors
        rows = vertex if kind.startswith("vertex") else face
        if kind.endswith("labels"):
            rows.append(("int label", "<i4", values))
            continue
        for name, column in zip(CHANNELS, values.T, strict=False):
            rows.append((f"uchar {OWN_COLOR if kind.endswith('own_colors') else ''}{name}", "u1", column))
    for name, (element, values) in mesh.columns.items():
        code = values.dtype.str[1:]
        word, code = (_WRITTEN_AS[code], code) if code in _WRITTEN_AS else ("double", "f8")
        tables[element].append((f"{word} {name}", f"<{code}", values))
    head, body = ["ply", "format binary_little_endian 1.0", "comment written by hodgeformer"], b""
    for name, rows in tables.items():
        count = len(rows[0][2])
        head += [f"element {name} {count}", *(f"property {line}" for line, _, _ in rows if line)]
        table = np.empty(count, [(f"c{i}", dtype, values.shape[1:]) for i, (_, dtype, values) in enumerate(rows)])
        for i, (_, _, column) in enumerate(rows):
            table[f"c{i}"] = column
        body += table.tobytes()
    return ("\n".join([*head, "end_header"]) + "\n").encode() + body
