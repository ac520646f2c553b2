"""Numbers and tables in text, converted a block at a time: words need twenty times the memory of their text."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import DataError

_BLOCK = 1 << 18  # characters, or words
_BETWEEN_LINES, _BETWEEN_WORDS = re.compile(r"\n"), re.compile(r"[\s,]")


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def rows_of_numbers(text: str, path: Path) -> NDArray[Any]:
    """One row per line; the header of a table is skipped."""
    if path.suffix.lower() == ".csv" and not any(map(is_number, next(words_of(first_line(text)), []))):
        text = text.lstrip().partition("\n")[2]
    widths: set[int] = set()

    def words() -> Iterator[list[str]]:
        for block in _blocks(text, _BETWEEN_LINES):
            rows = [line.replace(",", " ").split() for line in block.splitlines() if line.strip()]
            widths.update(map(len, rows))
            if len(widths) > 1:
                raise DataError(f"{path}: every line must have the same number of values")
            yield [word for row in rows for word in row]

    values = parsed(words(), path)
    return values.reshape(-1, *widths) if widths else values.reshape(0, 0)


def first_line(text: str) -> str:
    return text.lstrip().partition("\n")[0]


def words_of(text: str) -> Iterator[list[str]]:
    """Words between spaces, commas or line breaks, many at a time."""
    return (block.replace(",", " ").split() for block in _blocks(text, _BETWEEN_WORDS))


def lines_of(text: str) -> list[str]:
    """Lines that are not empty, those that are equal in one place."""
    lines = (line.strip() for block in _blocks(text, _BETWEEN_LINES) for line in block.splitlines())
    return [sys.intern(line) for line in lines if line]


def _blocks(text: str, between: re.Pattern[str]) -> Iterator[str]:
    """The text in parts that end where the pattern is."""
    begin = 0
    while begin < len(text):
        found = between.search(text, begin + _BLOCK)
        end = found.start() if found else len(text)
        yield text[begin:end]
        begin = end


def in_blocks(words: Iterable[str]) -> Iterator[list[str]]:
    words = iter(words)
    while block := list(islice(words, _BLOCK)):
        yield block


def parsed(blocks: Iterable[Sequence[str]], path: Path) -> NDArray[Any]:
    """Integers, or floating-point numbers if any of the words is not an integer."""
    parts, n = [np.zeros(0, dtype=np.int64)], 0
    for words in blocks:
        parts.append(_converted(words, n, path))
        n += len(words)
    return np.concatenate(parts)


def _converted(words: Sequence[str], first: int, path: Path) -> NDArray[Any]:
    try:
        return np.array(words, dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        for at, word in enumerate(words, first):
            if not is_number(word):
                raise DataError(f"{path}: value {at} is not a number: {word[:40]!r}") from None
        raise


def table_rows(text: str, path: Path) -> Iterator[list[str]]:
    """The rows that are not empty, one after another."""
    first = first_line(text)
    delimiter = next((sign for sign in ("\t" if path.suffix == ".tsv" else ",;\t") if sign in first), ",")
    try:
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            if row:
                yield [cell.strip() for cell in row]
    except csv.Error as error:
        raise DataError(f"{path}: not a table ({error})") from None
