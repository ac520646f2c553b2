"""The tables of a PLY file: the used columns, from lines of text or rows of bytes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats.source import LARGEST_WHOLE, LineOf, Source, TextLines
from hodgeformer.mesh.mesh import IntArray


class List(NamedTuple):
    """The lists of all rows in one array, and the length of each."""

    values: NDArray[Any]
    counts: IntArray


class Property(NamedTuple):
    """A column; `length` is the type of a list's length, None for a scalar. Only used columns are read."""

    name: str
    dtype: np.dtype[Any]
    length: np.dtype[Any] | None
    is_used: bool


class Element(NamedTuple):
    """`element face 12` and its properties."""

    name: str
    n_rows: int
    properties: list[Property]


Columns = dict[str, "NDArray[Any] | List"]


def read_ascii(source: Source, body: int, elements: list[Element]) -> tuple[dict[str, Columns], dict[str, LineOf]]:
    """One row per line."""
    lines = TextLines(source, offset=body)
    tables: dict[str, Columns] = {}
    line_of: dict[str, LineOf] = {}
    first = 0
    for element in elements:
        name, n_rows, _ = element
        if len(lines) < first + n_rows:
            number = lines.number(len(lines) - 1) if len(lines) else 1
            raise MeshFormatError(
                f"{source.path}:{number}: the file ends early: expected {n_rows} rows of '{name}', found "
                f"{len(lines) - first}; it is truncated, download or export it again"
            )
        tables[name] = _ascii_columns(lines, np.arange(first, first + n_rows), element)
        line_of[name] = lambda i, begin=first: lines.number(begin + i)  # type: ignore[misc]
        first += n_rows
    return tables, line_of


def _ascii_columns(lines: TextLines, rows: IntArray, element: Element) -> Columns:
    def too_short(row: int) -> str:
        return f"row {row} of '{element.name}' has fewer values than the header declares"

    if not any(column.is_used for column in element.properties):
        return {}
    found = lines.floats(rows, f"values of '{element.name}'")
    at, end = found.begin, found.begin + found.n
    columns: Columns = {}
    for column in element.properties:
        lines.need(rows, at + 1 <= end, too_short)
        if column.length is None:
            if column.is_used:
                columns[column.name] = _as_type(found.values[at], column.dtype)
            at = at + 1
            continue
        lengths = found.values[at]
        lines.need(rows, (lengths >= 0) & (lengths == np.rint(lengths)) & (at + 1 + lengths <= end), too_short)
        counts = lengths.astype(np.int64)
        if column.is_used:
            columns[column.name] = List(found.lists(at + 1, counts)[0], counts)
        at = at + 1 + counts
    return columns


def _as_type(values: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Integer types become int64; a value that is not an integer becomes -1, which is not a valid index."""
    if dtype.kind == "f":
        return values
    whole = (values == np.rint(values)) & (np.abs(values) < LARGEST_WHOLE)
    return np.where(whole, values, -1).astype(np.int64)


def read_binary(source: Source, body: int, elements: list[Element]) -> dict[str, Columns]:
    """Rows without padding; a table whose lists all have the same length is read at once."""
    data, tables = source.data, dict[str, Columns]()
    for element in elements:
        name, n_rows, properties = element
        # Compare counts with the remaining bytes before allocating memory for them.
        least = sum((column.length or column.dtype).itemsize for column in properties)
        read = None
        if n_rows * least <= len(data) - body:
            read = _even_rows(source, body, element) or _uneven_rows(source, body, element)
        if read is None:
            raise MeshFormatError(
                f"{source.path}: the file ends early: {n_rows} rows of '{name}' need more than the remaining "
                f"{len(data) - body} bytes; it is truncated or damaged, download or export it again"
            )
        tables[name], body = read
    return tables


def _even_rows(source: Source, body: int, element: Element) -> tuple[Columns, int] | None:
    """All rows at once; None if the lists differ in length or bytes are missing."""
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    (name, n_rows, properties), at, n_left = element, body, len(source.data) - body
    for i, (_, dtype, length, _) in enumerate(properties):
        n = 1
        if length is not None:
            order: Literal["big", "little"] = "big" if length.str[0] == ">" else "little"
            n = int.from_bytes(source.data[at : at + length.itemsize], order, signed=length.kind == "i")
            if n < 0 or n_rows * n * dtype.itemsize > n_left:
                return None
            fields.append((f"n{i}", length, ()))
            at += length.itemsize
        fields.append((f"c{i}", dtype, () if length is None else (n,)))
        at += n * dtype.itemsize
    row = np.dtype(fields)
    if n_rows * row.itemsize > n_left:
        return None
    rows = np.frombuffer(source.data, row, n_rows, body) if row.itemsize else np.empty(0, row)
    if any((rows[f"n{i}"] != rows[f"n{i}"][:1]).any() for i, column in enumerate(properties) if column.length):
        return None
    columns: Columns = {}
    for i, column in enumerate(properties):
        if column.is_used:
            source.reserve(8 * (rows[f"c{i}"].size + n_rows), f"{n_rows:,} rows of {name!r}")
            columns[column.name] = values = _native(rows[f"c{i}"])
            if column.length is not None:
                columns[column.name] = List(values.ravel(), rows[f"n{i}"].astype(np.int64))
    return columns, body + n_rows * row.itemsize


def _uneven_rows(source: Source, body: int, element: Element) -> tuple[Columns, int] | None:
    """Row by row, to find the position of each value; None if bytes are missing."""
    raw, properties = np.frombuffer(source.data, np.uint8), element.properties
    used = np.array([column.is_used for column in properties])
    shape = np.array([[_code(column.length), column.dtype.itemsize] for column in properties])
    source.reserve(16 * int(used.sum()) * element.n_rows, f"{element.n_rows:,} rows of {element.name!r}")
    spans = np.empty((int(used.sum()), 2, element.n_rows), dtype=np.int64)
    is_big = any(dtype.str[0] == ">" for column in properties for dtype in (column.dtype, column.length) if dtype)
    end = int(_find_values(raw, body, shape, used, is_big, spans))
    if end < 0:
        return None
    columns: Columns = {}
    for column, (begin, counts) in zip(np.flatnonzero(used), spans, strict=True):
        name, dtype, length, _ = properties[column]
        n_values = int(counts.sum())
        source.reserve(8 * n_values, f"{n_values:,} values of {name!r}")
        values = np.empty((n_values, dtype.itemsize), dtype=np.uint8)
        _gather_bytes(raw, begin, counts, values)
        native = _native(values.view(dtype).ravel())
        columns[name] = native if length is None else List(native, counts)
    return columns, end


def _code(length: np.dtype[Any] | None) -> int:
    """The number of bytes of a list's length, negative for signed types; 0 for a scalar."""
    return 0 if length is None else -length.itemsize if length.kind == "i" else length.itemsize


@njit(cache=True, nogil=True)
def _find_values(
    raw: NDArray[np.uint8], at: int, shape: IntArray, used: NDArray[np.bool_], is_big: bool, spans: IntArray
) -> int:
    """Find the position and number of each used value; returns the end, or -1 if bytes are missing."""
    for row in range(spans.shape[2]):
        n_used = 0
        for column in range(len(shape)):
            n_bytes, n = abs(shape[column, 0]), np.int64(1)
            if n_bytes > 0:
                if at + n_bytes > len(raw):
                    return -1
                n = np.int64(0)
                for k in range(n_bytes):
                    n = (n << 8) | np.int64(raw[at + k if is_big else at + n_bytes - 1 - k])
                if shape[column, 0] < 0 and n_bytes < 8 and n >> (8 * n_bytes - 1):
                    return -1  # a negative length; with eight bytes, n itself is negative
                at += n_bytes
            if n < 0 or n > (len(raw) - at) // shape[column, 1]:
                return -1
            if used[column]:
                spans[n_used, 0, row], spans[n_used, 1, row] = at, n
                n_used += 1
            at += n * shape[column, 1]
    return at


@njit(cache=True, nogil=True)
def _gather_bytes(raw: NDArray[np.uint8], begin: IntArray, counts: IntArray, values: NDArray[np.uint8]) -> None:
    at, n_bytes = 0, values.shape[1]
    for row in range(len(begin)):
        for k in range(counts[row]):
            for byte in range(n_bytes):
                values[at, byte] = raw[begin[row] + k * n_bytes + byte]
            at += 1


def _native(values: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
