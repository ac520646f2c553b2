"""Tables of results: printed, and written as CSV and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.files import write_atomically

if TYPE_CHECKING:
    from rich.console import Console

Row = Mapping[str, Any]
FacesOption = Annotated[
    str, typer.Option("--faces", help="Work on larger meshes at so many faces: auto (as trained), a number, original.")
]
UpOption = Annotated[
    Literal["auto", "x", "y", "z", "-x", "-y", "-z"], typer.Option("--up", help="What points up, for pictures.")
]

# Tables that go to a file or a pipe are not cut to the width of a terminal.
_PIPE_WIDTH = 200


def table_console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def print_rows(rows: Sequence[Row], title: str, *, digits: int | None = None) -> None:
    """A table with the columns that rows name; what is None stays empty. `digits` rounds fractions."""
    from rich.table import Table

    from hodgeformer.train.run_folder import columns_of

    def cell(value: Any) -> str:
        if digits is not None and isinstance(value, float):
            return f"{value:.{digits}g}"
        return "" if value is None else str(value)

    columns = columns_of(rows)
    table = Table(title=title)
    for number, column in enumerate(columns):
        table.add_column(column.replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row.get(column)) for column in columns))
    table_console().print(table)


def save_rows(folder: Path, name: str, rows: Sequence[Row], about: Row) -> list[Path]:
    """NAME.csv with the rows, NAME.json with the rows, what they are about, and what they were measured on."""
    from hodgeformer.train.run_folder import environment, write_csv

    files = [folder / f"{name}.csv", folder / f"{name}.json"]
    write_csv(files[0], rows)
    write_json(files[1], {**about, "environment": environment(), "rows": list(rows)})
    return files


def tell(rows: Sequence[Row], title: str, files: Sequence[Path], *, as_json: bool, content: Any = None) -> None:
    """The table and the files it went to; or nothing but JSON, of the rows or of all the content there is."""
    if as_json:
        print(json.dumps(rows if content is None else content, indent=2))
        return
    print_rows(rows, title)
    for file in files:
        print(file)


def read_rows(path: Path) -> list[dict[str, str]]:
    """What `save_rows` wrote; nothing where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
