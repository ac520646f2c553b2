"""The body of a PLY file: rows of scalars and lists, as text or as bytes, into columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshFormatError
from hodgeformer.mesh.formats.content import LineOf
from hodgeformer.mesh.formats.text import TextLines
from hodgeformer.mesh.mesh import IntArray


@dataclass(frozen=True, eq=False)
class ListColumn:
    """Lists of all rows, one after the other, and the length of each."""

    values: NDArray[Any]
    counts: IntArray


Columns = dict[str, "NDArray[Any] | ListColumn"]
Properties = list[tuple[str, str, str | None]]
"""Name, type, and the type of the count (None for a scalar)."""
Tables = dict[str, Columns]
Elements = list[tuple[str, int, Properties]]
"""`element face 12` and its properties."""


def read_ascii(data: bytes, body: int, elements: Elements, order: str, path: Path) -> tuple[Tables, dict[str, LineOf]]:
    """One row per line."""
    lines = TextLines(data, path, offset=body)
    tables: Tables = {}
    line_of: dict[str, LineOf] = {}
    first = 0
    for name, count, properties in elements:
        if len(lines) < first + count:
            number = lines.number(len(lines) - 1) if len(lines) else 1
            raise MeshFormatError(
                f"{path}:{number}: the file ends early: {count} rows of '{name}' are announced, "
                f"{len(lines) - first} are there; it is cut short, get it again"
            )
        if count and properties:
            tables[name] = _ascii_columns(lines, first + np.arange(count), properties, name)
        else:
            tables[name] = _no_rows(properties)
        line_of[name] = lambda i, begin=first: lines.number(begin + i)  # type: ignore[misc]
        first += count
    return tables, line_of


def _ascii_columns(lines: TextLines, rows: IntArray, properties: Properties, name: str) -> Columns:
    def too_short(row: int) -> str:
        return f"row {row} of '{name}' has fewer values than the header announces"

    n_tokens = lines.n_tokens[rows]
    values = lines.floats(rows, f"values of '{name}'")
    at = np.cumsum(n_tokens) - n_tokens
    end = at + n_tokens
    columns: Columns = {}
    for prop, dtype, count_type in properties:
        lines.need(rows, at + 1 <= end, too_short)
        if count_type is None:
            columns[prop] = _as_type(values[at], dtype)
            at = at + 1
            continue
        counts = values[at]
        fine = (counts >= 0) & (counts == np.rint(counts)) & (at + 1 + counts <= end)
        lines.need(rows, fine, too_short)
        counts = counts.astype(np.int64)
        columns[prop] = ListColumn(_as_type(values[_runs(at + 1, counts)], dtype), counts)
        at = at + 1 + counts
    return columns


def _as_type(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Whole-number types become int64; a value that is not whole becomes -1, which is no index."""
    if dtype[0] == "f":
        return values
    whole = (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    return np.where(whole, values, -1).astype(np.int64)


def _runs(begin: IntArray, counts: IntArray) -> IntArray:
    """Indices begin_0 .. begin_0 + counts_0 - 1, begin_1 .. and so on."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(begin - before, counts), np.int64)


def _no_rows(properties: Properties) -> Columns:
    empty = np.zeros(0, dtype=np.int64)
    return {name: empty if count_type is None else ListColumn(empty, empty) for name, _, count_type in properties}


def read_binary(data: bytes, body: int, elements: Elements, order: str, path: Path) -> tuple[Tables, dict[str, LineOf]]:
    """Rows without padding; a table whose lists all have one length is read in one piece."""
    tables: Tables = {}
    for name, count, properties in elements:
        if count == 0 or not properties:
            tables[name] = _no_rows(properties)
            continue
        read = _read_even(data, body, count, properties, order)
        if read is None:
            read = _read_uneven(data, body, count, properties, order)
        if read is None:
            raise MeshFormatError(
                f"{path}: the file ends early: {count} rows of '{name}' are announced, but "
                f"{len(data) - body} bytes do not hold them; it is cut short or damaged, get it again"
            )
        tables[name], body = read
    return tables, {}


def _read_even(data: bytes, body: int, count: int, properties: Properties, order: str) -> tuple[Columns, int] | None:
    """All rows at once; None where the lists differ in length or bytes are missing."""
    fields: list[tuple[str, str, tuple[int, ...]]] = []
    at = body
    for i, (_, dtype, count_type) in enumerate(properties):
        length: tuple[int, ...] = ()
        if count_type is not None:
            n = _scalar(data, at, order + count_type)
            if n is None or n < 0 or n > len(data):
                return None
            fields.append((f"n{i}", order + count_type, ()))
            at += np.dtype(count_type).itemsize
            length = (n,)
        fields.append((f"c{i}", order + dtype, length))
        at += np.dtype(dtype).itemsize * int(np.prod(length, dtype=np.int64))
    dtype_of_row = np.dtype(fields)
    if body + count * dtype_of_row.itemsize > len(data):
        return None
    rows = np.frombuffer(data, dtype_of_row, count, body)
    columns: Columns = {}
    for i, (name, _, count_type) in enumerate(properties):
        if count_type is None:
            columns[name] = _native(rows[f"c{i}"])
            continue
        counts = rows[f"n{i}"].astype(np.int64)
        if (counts != counts[0]).any():
            return None
        columns[name] = ListColumn(_native(rows[f"c{i}"]).ravel(), counts)
    return columns, body + count * dtype_of_row.itemsize


def _read_uneven(data: bytes, body: int, count: int, properties: Properties, order: str) -> tuple[Columns, int] | None:
    """Row by row to find where each value lies; None where bytes are missing."""
    sizes = [(np.dtype(dtype).itemsize, count_type and order + count_type) for _, dtype, count_type in properties]
    at, spans = body, np.zeros((len(properties), count, 2), dtype=np.int64)
    for row in range(count):
        for i, (size, count_type) in enumerate(sizes):
            n = 1
            if count_type:
                found = _scalar(data, at, count_type)
                if found is None or found < 0:
                    return None
                n, at = found, at + np.dtype(count_type).itemsize
            spans[i, row] = at, n
            at += n * size
            if at > len(data):
                return None
    columns: Columns = {}
    raw = np.frombuffer(data, np.uint8)
    for (name, dtype, count_type), (begin, counts) in zip(properties, spans.transpose(0, 2, 1), strict=True):
        held = raw[_runs(begin, counts * np.dtype(dtype).itemsize)].view(order + dtype)
        columns[name] = _native(held) if count_type is None else ListColumn(_native(held), counts)
    return columns, at


def _scalar(data: bytes, at: int, dtype: str) -> int | None:
    size = np.dtype(dtype).itemsize
    if at + size > len(data):
        return None
    return int(np.frombuffer(data, dtype, 1, at)[0])


def _native(values: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
