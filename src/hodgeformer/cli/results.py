"""Shared by the commands: arguments, the search for meshes, progress bars, and tables of results."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard, TypeVar

import typer

from hodgeformer.base.containers import PartElement
from hodgeformer.base.errors import ConfigError, HodgeFormerError, MeshError
from hodgeformer.base.files import files_below, files_matching, is_file, is_folder, place, write_atomically
from hodgeformer.base.machine import is_out_of_memory
from hodgeformer.base.settings import UpName
from hodgeformer.predict.options import PredictOptions

if TYPE_CHECKING:
    from rich.console import Console

Row = Mapping[str, Any]
T = TypeVar("T")
LOG_EVERY = 30.0
"""Seconds between two progress lines if there is no terminal for a bar."""
_LONGEST = 1500
# Tables in a file or a pipe are not cut to the width of a terminal.
_PIPE_WIDTH = 200
MODEL_HELP = (
    "A bundled name, a run folder, a checkpoint, or an exported .onnx file. Several are averaged: a,b or the folder of "
    "a cross-validation."
)
DATA_HELP = "A data-set folder, the name of a data set, or a TOML configuration."
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
DataArgument = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Hide progress; show only the result and errors.")]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as train.lr=3e-4; repeatable."),
]
DeviceOption = Annotated[str, typer.Option(help="Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1.")]
AllowRemoteOption = Annotated[
    bool, typer.Option("--allow-remote", help="Read shards at the URL that the dataset.toml names.")
]
SplitOption = Annotated[str, typer.Option(help="The split to use: train, val or test.")]


def _setting(name: str, *flags: str) -> Any:
    """The option that sets a field of `PredictOptions`, with the description of the field."""
    return typer.Option(*flags, help=PredictOptions.model_fields[name].description)


FacesOption = Annotated[str, _setting("faces")]
TtaOption = Annotated[int, _setting("tta")]
MemoryOption = Annotated[str | None, _setting("memory")]
SmoothOption = Annotated[bool | None, _setting("smooth", "--smooth/--no-smooth")]
ElementOption = Annotated[PartElement | None, _setting("element")]
UpOption = Annotated[UpName, _setting("up")]


def options_of(context: typer.Context) -> PredictOptions:
    """The options of a command that set fields of `PredictOptions`."""
    names = PredictOptions.model_fields.keys() & context.params.keys()
    return PredictOptions(**{name: context.params[name] for name in names})


def one_line(error: BaseException, path: Path | None = None) -> str:
    """The error of a file in one line of limited length; unexpected errors include how to report them.

    An example to paste, after a blank line, stays as it is.
    """
    if isinstance(error, HodgeFormerError):
        message, blank, example = str(error).partition("\n\n")
        text = " ".join(message.split()) + blank + example
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, FileNotFoundError):  # as stores raise it
        text = f"{error}: there is no such file"
    elif is_not_installed(error):
        text = f"this needs the package {error.name}, which is not installed: pip install {error.name}"
    elif is_out_of_memory(error):
        named = "".join(f"{note} " for note in getattr(error, "__notes__", ()))
        text = f"{named}out of memory; work on fewer faces (--faces, prepare.faces), or on a machine with more"
    else:
        where = traceback.extract_tb(error.__traceback__)[-1:]
        line = f" at {Path(where[0].filename).name}:{where[0].lineno}" if where else ""
        named = "".join(f"{note} " for note in getattr(error, "__notes__", ()))
        message = " ".join(str(error).split())[: _LONGEST // 2]
        text = (
            f"{named}unexpected {type(error).__name__}{line}: {message}; please report this with the output of "
            "`hodgeformer --debug ...`"
        )
    text = text if path is None or str(path) in text else f"{path}: {text}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 100]} ... ({len(text):,} characters)"


def is_not_installed(error: BaseException) -> TypeGuard[ModuleNotFoundError]:
    """Whether a package is missing, as torch is where only exported models run."""
    return isinstance(error, ModuleNotFoundError) and not (error.name or "hodgeformer").startswith("hodgeformer")


@contextmanager
def needs_extra(extra: str, reason: str) -> Iterator[None]:
    """Imports that may fail; the error then names the extra of this package to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not is_not_installed(error):
            raise
        raise ConfigError(f"{reason}: pip install 'hodgeformer[{extra}]'") from None


def print_failed(failed: Mapping[Path, Exception], context: typer.Context) -> None:
    """One line for each file that failed, and with --debug the traceback of unexpected errors."""
    for path, error in failed.items():
        print(f"hodgeformer: {one_line(error, path)}", file=sys.stderr)
        if context.find_root().params.get("debug") and not isinstance(error, (HodgeFormerError, OSError)):
            traceback.print_exception(error)


def mesh_files(folder: Path) -> list[Path]:
    """All meshes in a folder and its subfolders, sorted."""
    from hodgeformer.mesh.io import MESH_SUFFIXES

    files = [file for file in files_below(folder) if file.suffix.lower() in MESH_SUFFIXES]
    if not files:
        raise MeshError(f"{folder}: no meshes in this folder or its subfolders (looked for {', '.join(MESH_SUFFIXES)})")
    return files


def mesh_inputs(paths: list[str]) -> dict[Path, PurePath]:
    """Each mesh file once, in the order given, with its path relative to the given folder (or its own name).

    A file that does not exist is kept, and fails later like other bad files.
    """
    found: dict[Path, PurePath] = {}
    for text in paths:
        path = place(text)
        if is_folder(path):
            named = {file: PurePosixPath(str(file.relative_to(path))) for file in mesh_files(path)}
        elif any(letter in text for letter in "*?[") and not is_file(path):
            named = {match: PurePosixPath(match.name) for match in files_matching(text)}
            if not named:
                raise MeshError(f"{text}: no file matches")
        else:
            named = {path: PurePosixPath(path.name)}
        for file, below in named.items():
            found.setdefault(file, below)
    return found


class Pulse:
    """Decides when the next log line is due."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        """Whether enough time has passed since the last line; if so, the waiting time starts again."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


@contextmanager
def bar(doing: str, *, quiet: bool = False) -> Iterator[Callable[[float, float], None]]:
    """Progress and the time left: a bar in a terminal, elsewhere a line now and then.

    Call the yielded function with the amount of work done and the total.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("time left"), TimeRemainingColumn()
    progress = Progress(
        *columns,
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
        speed_estimate_period=600,  # a patch of a large mesh is slow
    )
    began, pulse = time.monotonic(), Pulse(LOG_EVERY)

    def update(done: float, total: float) -> None:
        progress.update(task, completed=done, total=total)
        if progress.disable and not quiet and pulse.due():
            left = f", {duration((time.monotonic() - began) * (total - done) / done)} left" if done else ""
            share = f"{int(done):,} of {int(total):,} ({done / total:.0%})"
            print(f"{doing}: {share}{left}", file=sys.stderr, flush=True)

    with progress:
        task = progress.add_task(doing, total=None)
        yield update


def counted(items: Iterable[T], progress: Callable[[float, float], None], total: int) -> Iterator[T]:
    """The items, whose number is shown as progress."""
    for done, item in enumerate(items, 1):
        progress(done, total)
        yield item


def duration(seconds: float) -> str:
    """Formatted as 2:05, or 1:02:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def conclude(content: Any, tables: Mapping[str, Sequence[Row]], files: Sequence[Path], *, as_json: bool) -> None:
    """Print the results of a study: only JSON, or its tables by title and the files it wrote."""
    if as_json:
        print(json.dumps(content, indent=2))
        return
    for title, rows in tables.items():
        print_rows(rows, title)
    for file in files:
        print(file)


def table_console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def print_rows(rows: Sequence[Row], title: str, *, digits: int | None = None) -> None:
    """Print a table with the columns that the rows name; None stays empty. `digits` rounds fractions."""
    from rich.table import Table
    from rich.text import Text

    def cell(value: Any) -> str:
        if digits is not None and isinstance(value, float):
            return f"{value:.{digits}g}"
        return "" if value is None else str(value)

    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table(title=title)
    for number, column in enumerate(columns):
        table.add_column(column.replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    table_console().print(table)


def save_rows(folder: Path, name: str, rows: Sequence[Row], about: Row) -> list[Path]:
    """Write NAME.csv with the rows, and NAME.json with the rows, a description and the environment."""
    from hodgeformer.training.run_folder import environment, write_csv

    files = [folder / f"{name}.csv", folder / f"{name}.json"]
    write_csv(files[0], rows)
    write_json(files[1], {**about, "environment": environment(), "rows": list(rows)})
    return files


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
