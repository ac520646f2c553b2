"""Rows of a study as CSV, the form in which results are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hodgeformer.files import write_atomically

Row = Mapping[str, Any]


def columns_of(rows: Sequence[Row]) -> list[str]:
    """All columns in the order in which rows first name them."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Replace the file as a whole; None becomes an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns_of(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode())
