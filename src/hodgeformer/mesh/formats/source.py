"""The bytes of a mesh file, each read once and within a memory budget, and the numbers in its lines of text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.base.errors import HodgeFormerError, MeshFormatError
from hodgeformer.mesh.mesh import FloatArray, IntArray

_NEWLINE, _HASH, _SPACE = 10, 35, 32
_PER_LINE, _PER_NUMBER = 32, 8  # bytes
_PIECE = 1 << 20  # bytes of text that are converted at a time; as Python objects they need fifty times the memory
_GAP, _AFTER_SLASH = re.compile(rb"\s"), re.compile(rb"/[^\s]*")
LARGEST_WHOLE = 2.0**53  # beyond this, float64 skips integers
LineOf = Callable[[int], int]  # the line in the file of an element
_TIMES, _FREE = 12, 96 << 20  # bytes of memory: per byte of a file, and for any file
_FOREIGN = {
    b"PK\x03\x04": "a zip archive", b"PK\x05\x06": "an empty zip archive", b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive", b"\x89PNG": "a PNG picture", b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF": "a PDF document", b"\x93NUMPY": "a NumPy array", b"version https://git-lfs": "a git-lfs pointer",
}  # fmt: skip


class Source:
    """A mesh file, and the files in its folder that it names.

    A few bytes can request gigabytes: one buffer under a thousand names, one part at a thousand positions. Readers
    therefore reserve memory before they use it, and a file may reserve 96 MB plus 12 times its size on disk. A file
    counts once, however often it is named. With temporary arrays, reading needs less than 20 times the size.
    """

    @classmethod
    def open(cls, path: Path) -> Source:
        """The content of a file, without the byte order mark of UTF-8."""
        return cls(path, _read_bytes(path))

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data = path, data
        self._n_bytes, self._reserved = len(data), 0
        self._by_name: dict[str, bytes | None] = {}
        self._by_file: dict[Any, bytes] = {}

    def reserve(self, n_bytes: int, what: str) -> None:
        """Count memory that is about to be used, and raise an error if it is too much."""
        self._reserved += int(n_bytes)
        most = _FREE + _TIMES * self._n_bytes
        if self._reserved > most:
            raise MeshFormatError(
                f"{self.path}: {what} would need more than {most / 2**20:,.0f} MB of memory, too much for a file of "
                f"{self._n_bytes:,} bytes; export the mesh again as plain triangles, each part once"
            )

    def beside(self, name: str, *, has_geometry: bool = False) -> bytes | None:
        """The content of a file that the mesh names; None outside of the folder of the mesh, which is never read.

        Files with geometry are part of the mesh and increase the budget; others must fit in it.
        """
        if name not in self._by_name:
            try:
                self._by_name[name] = self._read((self.path.parent / name).resolve(), has_geometry)
            except (OSError, ValueError):  # too long, a zero byte, no permission
                self._by_name[name] = None
        return self._by_name[name]

    def _read(self, file: Path, has_geometry: bool) -> bytes | None:
        if not (file.is_relative_to(self.path.parent.resolve()) and file.is_file()):
            return None
        if file == self.path.resolve():
            return self.data
        status = file.stat()
        # Links share an inode; remote files have none.
        key = (status.st_dev, status.st_ino) if isinstance(file, Path) and status.st_ino else file
        if key not in self._by_file:
            if has_geometry:
                self._n_bytes += status.st_size
            else:
                self.reserve(status.st_size, f"the file {file.name[:60]!r} that it names")
            self._by_file[key] = file.read_bytes()
        return self._by_file[key]


def _read_bytes(path: Path) -> bytes:
    if isinstance(path, Path) and path.exists() and not path.is_file():  # a pipe would never end
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise MeshFormatError(f"{path}: this is {kind}; pass the path of a mesh file")
    try:
        data = path.read_bytes()
    except HodgeFormerError:  # from an archive that contains the file
        raise
    except Exception as error:  # each kind of store raises its own errors
        cause = error.__cause__  # web servers report a status; only 404 means that there is no such file
        if isinstance(error, FileNotFoundError) and (cause is None or getattr(cause, "status", 0) == 404):
            raise MeshFormatError(f"{path}: the file does not exist; check the spelling and the folder") from None
        reason = getattr(error, "strerror", None) or cause or error
        raise MeshFormatError(f"{path}: the file cannot be read ({reason}); check its permissions") from error
    if data.isspace() or not data:
        raise MeshFormatError(f"{path}: the file is empty; download or export it again")
    for magic, kind in _FOREIGN.items():
        if data.startswith(magic):
            raise MeshFormatError(f"{path}: this is {kind}, not a mesh; unpack or export a mesh file from it")
    return data.removeprefix(codecs.BOM_UTF8)


class Rows(NamedTuple):
    """Numbers of some lines in one array: line i has n[i] of them, from begin[i]."""

    values: FloatArray
    begin: IntArray
    n: IntArray

    def columns(self, first: int, last: int) -> FloatArray:
        """(n, last - first) these columns of every line; all lines are long enough."""
        if first == 0 and len(self.values) == last * len(self.n):
            return self.values.reshape(-1, last)
        columns = np.empty((len(self.n), last - first))
        for column in range(first, last):
            columns[:, column - first] = self.values[self.begin + column]
        return columns

    def lists(self, begin: IntArray, counts: IntArray) -> tuple[IntArray, int]:
        """counts[i] integers from begin[i] for each i, and the row of the first that is not an integer, or -1.

        Numbers that are not integers become -1.
        """
        first = np.cumsum(counts) - counts
        places = np.repeat(begin - first, counts)
        places += np.arange(len(places))
        values = self.values[places]
        whole = (values == np.rint(values)) & (np.abs(values) < LARGEST_WHOLE)
        bad = -1 if whole.all() else int(np.searchsorted(first, whole.argmin(), side="right")) - 1
        values[~whole] = -1
        return values.astype(np.int64), bad


class TextLines:
    """The lines that contain at least one token, without comments (`#` up to the end of the line).

    All bytes keep their position in the file: comments and line continuations are overwritten with spaces, so that an
    error can find its line number. `starts`, `ends` and `n_tokens` have one entry per line.
    """

    def __init__(self, source: Source, *, continuation: bytes | None = None, offset: int = 0) -> None:
        data = source.data
        refuse_binary(data, source.path)
        self.source = source
        self._data = data if b"\n" in data else data.replace(b"\r", b"\n")
        joined = self._data
        for end in (b"\r\n", b"\n") if continuation is not None else ():
            mark = (continuation or b"") + end
            joined = joined.replace(mark, b" " * len(mark))
        # With one newline past the end, the last line is always closed.
        self.bytes = np.full(len(joined) + 1, _NEWLINE, dtype=np.uint8)
        self.bytes[:-1] = np.frombuffer(joined, dtype=np.uint8)
        del joined
        self.bytes[:offset][self.bytes[:offset] != _NEWLINE] = _SPACE
        none = np.empty(0, dtype=np.int64)
        n_lines = _find_lines(self.bytes, none, none, none)
        source.reserve(_PER_LINE * n_lines, f"{n_lines:,} lines of text")
        self.starts, self.ends, self.n_tokens = (np.empty(n_lines, dtype=np.int64) for _ in range(3))
        _find_lines(self.bytes, self.starts, self.ends, self.n_tokens)

    def __len__(self) -> int:
        return len(self.starts)

    def number(self, line: int) -> int:
        """The line number in the file, from 1."""
        return self._data.count(b"\n", 0, int(self.starts[line])) + 1

    def text(self, line: int) -> str:
        return self._data[self.starts[line] : self.ends[line]].decode("utf-8", errors="replace").strip()

    def error(self, line: int, message: str) -> MeshFormatError:
        """A format error with the file, the line number and the line."""
        shown = self.text(line)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return MeshFormatError(f"{self.source.path}:{self.number(line)}: {message}; the line is {shown!r}")

    def need(self, lines: IntArray, fine: NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """Raise an error for the first line that is not fine; the message depends on its position."""
        wrong = np.flatnonzero(~fine)
        if wrong.size:
            raise self.error(int(lines[wrong[0]]), message(int(wrong[0])))

    def keywords(self, lines: IntArray) -> NDArray[np.bytes_]:
        """The first token of each line, cut to 8 bytes."""
        found = np.zeros((len(lines), 8), dtype=np.uint8)
        inside = np.ones(len(lines), dtype=bool)
        for i in range(8):
            letters = self.bytes[np.minimum(self.starts[lines] + i, len(self.bytes) - 1)]
            inside &= letters > _SPACE
            found[inside, i] = letters[inside]
        return found.view("S8").ravel()

    def drop_keyword(self, lines: IntArray, length: int = 1) -> None:
        """Remove the first token of these lines, which is `length` bytes long."""
        for at in range(length):
            self.bytes[self.starts[lines] + at] = _SPACE
        self.n_tokens[lines] -= 1

    def floats(self, lines: IntArray, what: str) -> Rows:
        """All tokens of the lines as numbers."""
        n = self.n_tokens[lines]
        message = f"{what} must be numbers such as 0.25 or 1e-3"
        return Rows(self._convert(lines, float, np.float64, message), np.cumsum(n) - n, n)

    def integers(self, lines: IntArray, what: str, *, before_slash: bool = False) -> IntArray:
        """All tokens of the lines as integers; with `before_slash`, only the first number of tokens such as 1/2/3."""
        return self._convert(lines, int, np.int64, f"{what} must be integers", before_slash)

    def _convert(
        self, lines: IntArray, convert: type, dtype: type, message: str, before_slash: bool = False
    ) -> NDArray[Any]:
        n_tokens = int(self.n_tokens[lines].sum())
        self.source.reserve(_PER_NUMBER * n_tokens, f"{n_tokens:,} numbers")
        try:
            tokens = chain.from_iterable(_pieces(self._blob(lines), before_slash))
            return np.fromiter(map(convert, tokens), dtype, count=n_tokens)
        except (ValueError, OverflowError):
            pass  # the slow search below finds the line
        for line in lines.tolist():
            for token in self.bytes[self.starts[line] : self.ends[line]].tobytes().split():
                try:
                    np.array(convert(token.split(b"/")[0] if before_slash else token), dtype=dtype)
                except (ValueError, OverflowError):
                    raise self.error(line, f"{message}, found {token[:60].decode(errors='replace')!r}") from None
        raise self.error(int(lines[0]), message)

    def _blob(self, lines: IntArray) -> bytes:
        """The bytes of the lines, which must be ascending."""
        if len(lines) == 0:
            return b""
        begin, end = int(self.starts[lines[0]]), int(self.ends[lines[-1]]) + 1
        edge = np.zeros(end - begin + 1, dtype=np.int8)
        edge[self.starts[lines] - begin] = 1
        # A line ends after its newline, so neighbors never share a byte.
        edge[self.ends[lines] + 1 - begin] -= 1
        inside = np.cumsum(edge[:-1], dtype=np.int8).view(np.bool_)
        return bytes(self.bytes[begin:end][inside])


def _pieces(blob: bytes, before_slash: bool) -> Iterator[list[bytes]]:
    """The tokens, in lists of limited size."""
    begin = 0
    while begin < len(blob):
        gap = _GAP.search(blob, begin + _PIECE)
        end = gap.end() if gap else len(blob)
        piece = blob[begin:end]
        yield (_AFTER_SLASH.sub(b"", piece) if before_slash and b"/" in piece else piece).split()
        begin = end


@njit(cache=True, nogil=True)
def _find_lines(text: NDArray[np.uint8], starts: IntArray, ends: IntArray, n_tokens: IntArray) -> int:
    """Blank the comments, count the lines with tokens, and record them if the arrays are not empty."""
    n_lines = tokens = start = 0
    inside = comment = False  # a token; a hash inside one is part of a name
    for at in range(len(text)):
        if text[at] == _NEWLINE:
            if tokens > 0:
                if len(starts) > 0:
                    starts[n_lines], ends[n_lines], n_tokens[n_lines] = start, at, tokens
                n_lines += 1
            tokens, inside, comment = 0, False, False
            continue
        comment |= text[at] == _HASH and not inside
        if comment:
            text[at] = _SPACE
        elif text[at] > _SPACE and not inside:
            inside = True
            start = at if tokens == 0 else start
            tokens += 1
        elif text[at] <= _SPACE:
            inside = False
    return n_lines


def refuse_binary(data: bytes, path: Path) -> None:
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise MeshFormatError(
            f"{path}:{line}: this is not a text file (a zero byte at offset {at}); "
            "it is damaged or has another format: check its suffix"
        )
