"""Numbers and tables in text, without a Python object for each of them."""

from __future__ import annotations

import csv
import io
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hodgeformer.base.errors import DataError
from hodgeformer.mesh.mesh import FloatArray

_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.ASCII | re.IGNORECASE)


def is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None


def numbers(text: str, where: str) -> FloatArray:
    """All numbers of a text, between spaces, commas or line breaks."""
    plain = text.replace(",", " ").strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # the error of NumPy before 2.3
            return np.fromstring(plain, sep=" ")
    except (ValueError, DeprecationWarning):
        words = enumerate(found[0] for found in re.finditer(r"\S+", plain))
        at, word = next((at, word) for at, word in words if not is_number(word))
        raise DataError(f"{where}: value {at} is not a number: {word[:40]!r}") from None


def rows_of_numbers(text: str, path: Path) -> FloatArray:
    """One row per line; the header of a table is skipped."""
    if path.suffix.lower() == ".csv" and not any(map(is_number, words_of(first_line(text)))):
        text = text.lstrip().partition("\n")[2]
    widths = {len(words_of(line)) for line in io.StringIO(text) if line.strip()}
    if len(widths) > 1:
        raise DataError(f"{path}: every line must have the same number of values")
    return numbers(text, str(path)).reshape(-1, *widths) if widths else np.zeros((0, 0))


def first_line(text: str) -> str:
    return text.lstrip().partition("\n")[0]


def words_of(line: str) -> list[str]:
    """The words between spaces or commas."""
    return line.replace(",", " ").split()


def lines_of(text: str) -> list[str]:
    """Lines that are not empty, those that are equal in one place."""
    return [sys.intern(stripped) for line in io.StringIO(text, newline=None) if (stripped := line.strip())]


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
