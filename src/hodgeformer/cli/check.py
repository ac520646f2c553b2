"""`hodgeformer check`: the content of a mesh, a folder of meshes or a data set, and the problems found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from hodgeformer.base.errors import HodgeFormerError
from hodgeformer.base.files import is_folder, place
from hodgeformer.cli.results import (
    AllowRemoteOption,
    JsonOption,
    QuietOption,
    bar,
    mesh_files,
    one_line,
    print_failed,
    print_rows,
    table_console,
)

if TYPE_CHECKING:
    from rich.table import Table

    from hodgeformer.data.census import Census
    from hodgeformer.mesh.check import MeshReport


def check(
    context: typer.Context,
    text: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A mesh, a folder of meshes (a path or a URL), or a data set: folder or name."
        ),
    ],
    allow_remote: AllowRemoteOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find problems in a mesh, a folder or a data set.

    In meshes: boundary, non-manifold edges, degenerate faces, winding, scale. In a data set (a folder with a
    dataset.toml, or a benchmark's name): labels that are missing or do not fit, class balance, leaks between splits.
    If a folder has labels but no dataset.toml, or one without classes, the file to use is proposed.

    Exit code 0: all meshes can be used. 1: some cannot (each is named). 2: wrong use.
    """
    path = place(text)
    proposal = _proposal(path, quiet=quiet)
    has_many = is_folder(path)
    is_data = has_many and (path / "dataset.toml").is_file()
    if not proposal and (is_data or (not path.exists() and _is_data_name(path))):
        _check_data(text, allow_remote, quiet=quiet, as_json=as_json)
        return
    found = _inspect(mesh_files(path) if has_many else [path], quiet=quiet)
    errors = {file: error for file, error in found.items() if isinstance(error, Exception)}
    reports = {file: report for file, report in found.items() if not isinstance(report, Exception)}
    if as_json:
        meshes = [{"path": str(file)} | report.to_dict() for file, report in reports.items()]
        failed = [{"path": str(file), "error": one_line(error, file)} for file, error in errors.items()]
        content = {"meshes": meshes, "failed": failed} | ({"dataset_toml": proposal} if proposal else {})
        print(json.dumps(content, indent=2, allow_nan=False))
    elif has_many:
        _print_folder(found, path)
        if proposal:
            print(f"to train on this folder, save these lines as {path / 'dataset.toml'} and run the check again:")
            print(f"\n{proposal}")
    elif reports:
        table_console().print(_mesh_table(reports[path], path))
    if not has_many and errors:
        raise errors[path]
    print_failed(errors, context)
    if errors:
        raise typer.Exit(1)


def _is_data_name(path: Path) -> bool:
    from hodgeformer.data.open import DataName

    return str(path) in get_args(DataName)


def _proposal(path: Path, *, quiet: bool) -> str:
    """The dataset.toml that a local folder lacks, if its files show a task."""
    if not isinstance(path, Path) or not path.is_dir():
        return ""
    import tomli_w

    from hodgeformer.data.open import benchmark_layout
    from hodgeformer.data.proposal import proposed

    try:
        with bar("looking for labels", quiet=quiet) as progress:
            has_file = (path / "dataset.toml").is_file()
            table = proposed(path, progress) if has_file or not benchmark_layout(path) else None
    except (HodgeFormerError, OSError):  # the check itself reports what is wrong
        return ""
    return tomli_w.dumps(table) if table else ""


def _check_data(spec: str, allow_remote: bool, *, quiet: bool, as_json: bool) -> None:
    """Exit code 1: some meshes cannot be used, or a shape is in several splits."""
    from hodgeformer.data.census import take_census
    from hodgeformer.data.open import open_dataset

    dataset = open_dataset(spec, allow_remote=allow_remote)
    with bar("checking", quiet=quiet) as progress:
        census = take_census(dataset, progress=progress, again=True)
    if as_json:
        print(json.dumps(census.to_dict(), indent=2))
    else:
        _print_census(census)
    if not census.ok:
        raise typer.Exit(1)


def _print_census(census: Census) -> None:
    from rich.console import Console

    dataset, console = census.dataset, Console(highlight=False)
    splits = ", ".join(f"{len(samples)} {split}" for split, samples in dataset.splits.items())
    console.print(f"{dataset.name}: {dataset.task}, one label per {dataset.element}; meshes: {splits}")
    if dataset.classes:
        console.print(_balance(census))
    if columns := census.to_dict()["columns"]:
        counted = ", ".join(f"{name} ({n})" for name, n in columns.items())
        console.print(f"columns to use as features, and how many meshes have them: {counted}")
    for warning in census.warnings:
        console.print(f"note: {warning}")
    if census.training and census.ok:
        for reason in _plan(census):
            console.print(f"plan: {reason}")
    for problem in census.problems:
        print(f"hodgeformer: {problem.message}", file=sys.stderr)
    if census.ok:
        console.print("all meshes have matching labels, and no shape is in two splits")


def _plan(census: Census) -> tuple[str, ...]:
    """The plan of `hodgeformer train` for this data set."""
    from hodgeformer.training.config import read_config
    from hodgeformer.training.plan import planned, reasons

    return reasons(planned(read_config({"data": {}}), census), census)


def _balance(census: Census) -> Table:
    """The number of labeled elements (or meshes) of each class in each split."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("class")
    for split in census.class_counts:
        table.add_column(split, justify="right")
    for i, name in enumerate(census.dataset.classes):
        table.add_row(Text(name), *(_share(counts[i], sum(counts)) for counts in census.class_counts.values()))
    if any(census.unlabeled.values()):
        table.add_row("not labeled", *(f"{n:,}" for n in census.unlabeled.values()), end_section=True)
    return table


def _share(n: int, total: int) -> str:
    return f"{n:,} ({n / max(total, 1):.1%})"


def _inspect(files: list[Path], *, quiet: bool) -> dict[Path, MeshReport | Exception]:
    from hodgeformer.mesh.check import check_mesh
    from hodgeformer.mesh.io import load_mesh

    found: dict[Path, MeshReport | Exception] = {}
    with bar("checking", quiet=quiet) as progress:
        for file in files:
            progress(len(found), len(files))
            try:
                found[file] = check_mesh(load_mesh(file))
            except Exception as error:  # one bad file never stops a folder
                error.add_note(f"{file}:")
                found[file] = error
    return found


def _print_folder(found: dict[Path, MeshReport | Exception], folder: Path) -> None:
    rows: list[dict[str, Any]] = []
    for file, report in found.items():
        row: dict[str, Any] = {"mesh": file.relative_to(folder)}
        if isinstance(report, Exception):
            rows.append(row | {"problems": "cannot be read"})
            continue
        row |= {"vertices": report.n_vertices, "edges": report.n_edges, "faces": report.n_faces}
        rows.append(row | {"size": _size(report), "problems": ", ".join(report.oddities)})
    print_rows(rows, "")
    read = [report for report in found.values() if not isinstance(report, Exception)]
    n_odd, n_failed = sum(bool(report.oddities) for report in read), len(found) - len(read)
    line = f"{len(read)} {'mesh' if len(read) == 1 else 'meshes'}, {n_odd} with problems"
    print(line + (f", {n_failed} cannot be read" if n_failed else ""))


def _mesh_table(report: MeshReport, path: Path) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(str(path)), show_header=False)
    rows = {
        "vertices": report.n_vertices,
        "edges": report.n_edges,
        "faces": report.n_faces,
        "components": report.n_components,
        "boundary edges": report.n_boundary_edges,
        "non-manifold edges": report.n_nonmanifold_edges,
        "faces that repeat a vertex": report.n_repeating_faces,
        "faces without area": report.n_zero_area_faces,
        "duplicate faces": report.n_duplicate_faces,
        "unreferenced vertices": report.n_unreferenced_vertices,
        "winding": "consistent" if report.winding_consistent else f"changes at {report.n_flipped_edges} edges",
        "Euler characteristic": report.euler_characteristic,
        "size": _size(report),
        "area": f"{report.area:.6g}",
        "problems": ", ".join(report.oddities) or "none",
        "columns": ", ".join(f"{name} ({element})" for name, element in report.columns.items()) or "none",
        "notes": ", ".join(report.notes) or "none",
    }
    for row, value in rows.items():
        table.add_row(row, Text(str(value)))
    return table


def _size(report: MeshReport) -> str:
    return " x ".join(f"{side:.4g}" for side in report.size)
