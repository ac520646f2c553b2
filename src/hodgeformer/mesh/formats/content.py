"""What readers share: the lines of a text file as numbers by the million, and what was found, before it is a `Mesh`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshError, MeshFormatError
from hodgeformer.mesh.geometry import is_used
from hodgeformer.mesh.mesh import Attribute, FloatArray, IntArray, Mesh
from hodgeformer.mesh.polygons import triangulate
from hodgeformer.mesh.topology import repeats_a_vertex

Colors = NDArray[np.uint8]
Attributes = dict[Attribute, NDArray[Any]]
LineOf = Callable[[int], int]
_NEWLINE, _HASH, _SPACE = 10, 35, 32


@dataclass(frozen=True, eq=False)
class Content:
    """Vertices, and polygons as one run of corners with the number of corners of each.

    Face attributes belong to polygons here. `vertex_line` and `face_line` give the line of the file that an
    element stands on; a binary file has none.
    """

    vertices: FloatArray
    corners: IntArray
    n_corners: IntArray
    attributes: Attributes = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    vertex_line: LineOf | None = None
    face_line: LineOf | None = None

    def to_mesh(self, path: Path) -> Mesh:
        """Check every number, cut the polygons into triangles, and carry face attributes to the triangles."""
        self._check(path)
        notes = list(self.notes)
        attributes = dict(self.attributes)
        polygons: IntArray | None = None
        if (self.n_corners == 3).all():
            faces = self.corners.reshape(-1, 3)
        else:
            faces, polygons, cut = triangulate(self.vertices, self.corners, self.n_corners)
            notes.extend(cut)
            for kind in [kind for kind in attributes if kind.startswith("face")]:
                attributes[kind] = attributes[kind][polygons]
        notes.extend(_notes_on(faces, len(self.vertices)))
        # The name of a file need not be text; that of a mesh is written into pages and files.
        name = os.fsencode(path.stem).decode("utf-8", "replace")
        return Mesh(self.vertices, faces, name, polygons, tuple(notes), attributes)

    def _check(self, path: Path) -> None:
        if len(self.n_corners) == 0:
            raise MeshError(f"{path}: the file has no faces; a surface made of triangles or polygons is needed")
        bad = np.flatnonzero(~np.isfinite(self.vertices).all(axis=1))
        if bad.size:
            raise MeshError(
                f"{where(path, self.vertex_line, bad[0])}: vertex {bad[0]} has coordinates "
                f"{self.vertices[bad[0]].tolist()} that are not finite ({bad.size} such vertices); "
                "repair or remove them"
            )
        small = np.flatnonzero(self.n_corners < 3)
        if small.size:
            raise MeshFormatError(
                f"{where(path, self.face_line, small[0])}: face {small[0]} has {self.n_corners[small[0]]} "
                f"corners, at least 3 are needed ({small.size} such faces); remove it"
            )
        wrong = np.flatnonzero((self.corners < 0) | (self.corners >= len(self.vertices)))
        if wrong.size:
            face = int(np.searchsorted(np.cumsum(self.n_corners), wrong[0], side="right"))
            raise MeshError(
                f"{where(path, self.face_line, face)}: face {face} refers to vertex {self.corners[wrong[0]]}"
                f", but the file has {len(self.vertices)} vertices (numbered from 0 here); "
                "the file is cut short or its faces are wrong: export it again"
            )


def where(path: Path, line_of: LineOf | None, element: int) -> str:
    """`file:line` for text, `file` for binary."""
    return str(path) if line_of is None else f"{path}:{line_of(int(element))}"


def read_beside(path: Path, name: str) -> bytes | None:
    """A file that a mesh names, if it is one and in the folder of the mesh: nothing outside is read."""
    try:
        beside = (path.parent / name).resolve()
        inside = beside.is_relative_to(path.parent.resolve()) and beside.is_file()
        return beside.read_bytes() if inside else None
    except (OSError, ValueError):  # too long, a zero byte, no permission
        return None


def to_colors(values: NDArray[Any]) -> Colors:
    """Color columns of a file as uint8: whole numbers are 0..255, fractions are 0..1."""
    if np.issubdtype(values.dtype, np.integer):
        return np.asarray(np.clip(values, 0, 255), np.uint8)
    values = np.clip(np.nan_to_num(values.astype(np.float64)), 0.0, 255.0)
    scale = 255.0 if values.size == 0 or values.max() <= 1.0 else 1.0
    return np.rint(values * scale).astype(np.uint8)


def _notes_on(faces: IntArray, n_vertices: int) -> list[str]:
    """What is allowed, but worth knowing."""
    repeating, unused = repeats_a_vertex(faces).sum(), n_vertices - is_used(faces, n_vertices).sum()
    notes = [f"{repeating} faces repeat a vertex"] if repeating else []
    return [*notes, f"{unused} vertices belong to no face"] if unused else notes


class Rows(NamedTuple):
    """Numbers of some lines, one after the other: line i has n[i] of them, from begin[i]."""

    values: FloatArray
    begin: IntArray
    n: IntArray

    def columns(self, first: int, last: int) -> FloatArray:
        """(n, last - first) numbers of every line; all have as many."""
        return np.asarray(self.values[self.begin[:, None] + np.arange(first, last)], np.float64)


class TextLines:
    """The lines that hold at least one token, without comments (`#` up to the end of the line).

    Everything stays at its byte of the file: comments and joined lines are overwritten with spaces. That is
    how an error can count the lines before it. `starts`, `ends` and `n_tokens` have one entry per line.
    """

    def __init__(self, data: bytes, path: Path, *, continuation: bytes | None = None, offset: int = 0) -> None:
        refuse_binary(data, path)
        self.path = path
        self._data = data if b"\n" in data else data.replace(b"\r", b"\n")
        joined = self._data
        if continuation is not None and continuation in joined:
            joined = re.sub(re.escape(continuation) + rb"\r?\n", lambda match: b" " * len(match[0]), joined)
        # One newline past the end spares every later step the question whether the last line is closed.
        self.bytes = np.frombuffer(bytearray(joined + b"\n"), dtype=np.uint8)
        self.bytes[:offset][self.bytes[:offset] != _NEWLINE] = _SPACE
        ends = np.flatnonzero(self.bytes == _NEWLINE)
        self._blank_comments(ends)
        filled = self.bytes > _SPACE
        token_starts = np.flatnonzero(filled & np.concatenate([[True], ~filled[:-1]]))
        tokens_before = np.searchsorted(token_starts, ends)
        n_tokens = np.diff(tokens_before, prepend=0)
        held = np.flatnonzero(n_tokens)
        self.ends: IntArray = ends[held]
        self.n_tokens: IntArray = n_tokens[held]
        self.starts: IntArray = token_starts[tokens_before[held] - self.n_tokens]

    def __len__(self) -> int:
        return len(self.starts)

    def _blank_comments(self, ends: IntArray) -> None:
        hashes = np.flatnonzero(self.bytes == _HASH)
        # A hash inside a token is part of a name.
        hashes = hashes[(hashes == 0) | (self.bytes[hashes - 1] <= _SPACE)]
        if hashes.size == 0:
            return
        line, first = np.unique(np.searchsorted(ends, hashes), return_index=True)
        edge = np.zeros(len(self.bytes), dtype=np.int8)
        edge[hashes[first]] = 1
        edge[ends[line]] = -1
        self.bytes[np.cumsum(edge, dtype=np.int8).astype(bool)] = _SPACE

    def number(self, line: int) -> int:
        """Line number in the file, from 1."""
        return self._data.count(b"\n", 0, int(self.starts[line])) + 1

    def text(self, line: int) -> str:
        return self._data[self.starts[line] : self.ends[line]].decode("utf-8", errors="replace").strip()

    def error(self, line: int, message: str) -> MeshFormatError:
        """A format error that names the file, the line and what stands there."""
        shown = self.text(line)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return MeshFormatError(f"{self.path}:{self.number(line)}: {message}; the line is {shown!r}")

    def need(self, lines: IntArray, fine: NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """Refuse the first of the lines that is not fine; the message is made from its place among them."""
        wrong = np.flatnonzero(~fine)
        if wrong.size:
            raise self.error(int(lines[wrong[0]]), message(int(wrong[0])))

    def keywords(self, lines: IntArray) -> NDArray[np.bytes_]:
        """The first token of each line, cut to 8 bytes."""
        padded = np.concatenate([self.bytes, np.zeros(8, dtype=np.uint8)])
        heads = np.lib.stride_tricks.sliding_window_view(padded, 8)[self.starts[lines]]
        heads = np.where(np.logical_or.accumulate(heads <= _SPACE, axis=1), np.uint8(0), heads)
        return np.ascontiguousarray(heads).view("S8").ravel()

    def drop_keyword(self, lines: IntArray, length: int = 1) -> None:
        """Forget the first token of these lines, which is `length` bytes long."""
        for at in range(length):
            self.bytes[self.starts[lines] + at] = _SPACE
        self.n_tokens[lines] -= 1

    def floats(self, lines: IntArray, what: str) -> Rows:
        """All tokens of the lines as numbers."""
        message, n = f"{what} must be numbers such as 0.25 or 1e-3", self.n_tokens[lines]
        return Rows(self._convert(self._blob(lines).split(), lines, float, np.float64, message), np.cumsum(n) - n, n)

    def integers(self, lines: IntArray, what: str) -> IntArray:
        return self._convert(self._blob(lines).split(), lines, int, np.int64, f"{what} must be whole numbers")

    def indices(self, lines: IntArray, what: str) -> IntArray:
        """As `integers`, of tokens such as 1/2/3 only the number before the slash."""
        blob = self._blob(lines)
        tokens = (re.sub(rb"/[^\s]*", b"", blob) if b"/" in blob else blob).split()
        return self._convert(tokens, lines, int, np.int64, f"{what} must be whole numbers")

    def _convert(
        self, tokens: list[bytes], lines: IntArray, convert: Callable[[bytes], Any], dtype: type, message: str
    ) -> NDArray[Any]:
        if len(tokens) == self.n_tokens[lines].sum():
            try:
                return np.fromiter(map(convert, tokens), dtype, count=len(tokens))
            except (ValueError, OverflowError):
                pass  # the slow walk below finds the line
        for line in lines.tolist():
            for token in self.bytes[self.starts[line] : self.ends[line]].tobytes().split():
                try:
                    np.array(convert(token.split(b"/")[0]), dtype=dtype)
                except (ValueError, OverflowError):
                    raise self.error(line, f"{message}, found {token[:60].decode(errors='replace')!r}") from None
        raise self.error(int(lines[0]), message)

    def _blob(self, lines: IntArray) -> bytes:
        """The bytes of the lines; they must be in rising order."""
        if len(lines) == 0:
            return b""
        begin, end = int(self.starts[lines[0]]), int(self.ends[lines[-1]]) + 1
        if lines[-1] - lines[0] + 1 == len(lines):
            return self.bytes[begin:end].tobytes()
        edge = np.zeros(end - begin + 1, dtype=np.int8)
        edge[self.starts[lines] - begin] = 1
        # A line ends after its newline, so neighbours never share a byte.
        edge[self.ends[lines] + 1 - begin] -= 1
        inside = np.cumsum(edge[:-1], dtype=np.int8).astype(bool)
        return bytes(self.bytes[begin:end][inside])


def refuse_binary(data: bytes, path: Path) -> None:
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise MeshFormatError(
            f"{path}:{line}: this is not a text file (a zero byte at offset {at}); "
            "it is damaged or belongs to another format: check its suffix"
        )
