"""The lines of a text file, cut into numbers by the million, with the line number at hand for an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshFormatError
from hodgeformer.mesh.mesh import FloatArray, IntArray

_NEWLINE, _HASH, _SPACE = 10, 35, 32


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

    def floats(self, lines: IntArray, what: str) -> FloatArray:
        """All tokens of the lines as numbers, one after the other (`n_tokens[lines]` of each)."""
        message = f"{what} must be numbers such as 0.25 or 1e-3"
        return self._convert(self._blob(lines).split(), lines, float, np.float64, message)

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
                    raise self.error(line, f"{message}, found {token.decode(errors='replace')!r}") from None
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
