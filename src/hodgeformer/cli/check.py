"""`hodgeformer check`: what is in a mesh, a folder of meshes or a data set, and what is odd about each."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from hodgeformer.cli.results import table_console
from hodgeformer.errors import MeshError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from hodgeformer.data.census import Census
    from hodgeformer.mesh.check import MeshReport


@dataclass
class _Findings:
    reports: dict[Path, MeshReport] = field(default_factory=dict)
    errors: dict[Path, MeshError] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "meshes": [{"path": str(path)} | report.to_dict() for path, report in self.reports.items()],
            "failed": [{"path": str(path), "error": str(error)} for path, error in self.errors.items()],
        }


def check(
    path: Annotated[Path, typer.Argument(help="A mesh, a folder of meshes, or a data set: its folder or its name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show what is in a mesh, a folder or a data set, and what is odd about it.

    Of meshes: boundary, non-manifold edges, degenerate faces, winding, scale. Of a data set (a folder with a
    dataset.toml, or a benchmark's name): labels that are missing or do not fit, class balance, leaks between splits.

    Exit code 0: all can be used, odd or not. 1: some cannot, each is named. 2: wrong use.
    """
    if (path / "dataset.toml").is_file() or (not path.exists() and _is_data_name(path)):
        _check_data(str(path), as_json=as_json)
        return
    files = _mesh_files(path)
    findings = _inspect(files, show_progress=path.is_dir())
    if as_json:
        print(json.dumps(findings.to_dict(), indent=2, allow_nan=False))
    elif findings.reports:
        _print_tables(findings, path)
    if not path.is_dir() and findings.errors:
        raise findings.errors[path]
    for error in findings.errors.values():
        print(f"hodgeformer: {error}", file=sys.stderr)
    if findings.errors:
        raise typer.Exit(1)


def _is_data_name(path: Path) -> bool:
    from hodgeformer.data.open import DataName

    return str(path) in get_args(DataName)


def _check_data(spec: str, *, as_json: bool) -> None:
    """Exit code 1: some meshes cannot be used, or a shape is in several splits."""
    from hodgeformer.data.census import take_census
    from hodgeformer.data.open import open_dataset

    dataset = open_dataset(spec)
    with _progress(shown=True) as progress:
        task = progress.add_task("", total=None)
        census = take_census(dataset, progress=lambda done, total: progress.update(task, completed=done, total=total))
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
    for warning in census.warnings:
        console.print(f"note: {warning}")
    if census.training and census.ok:
        for reason in _plan(census):
            console.print(f"plan: {reason}")
    for problem in census.problems:
        print(f"hodgeformer: {problem.message}", file=sys.stderr)
    if census.ok:
        console.print("all meshes have labels that fit, and no shape is in two splits")


def _plan(census: Census) -> tuple[str, ...]:
    """What `hodgeformer train` would do with it."""
    from hodgeformer.train.config import read_config
    from hodgeformer.train.plan import planned, reasons

    return reasons(planned(read_config({"data": {}}), census), census)


def _balance(census: Census) -> Table:
    """How many labelled elements (or meshes) each class has in each split."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("class")
    for split in census.class_counts:
        table.add_column(split, justify="right")
    for i, name in enumerate(census.dataset.classes):
        table.add_row(Text(name), *(_share(counts[i], sum(counts)) for counts in census.class_counts.values()))
    if any(census.unlabelled.values()):
        table.add_row("not labelled", *(f"{n:,}" for n in census.unlabelled.values()), end_section=True)
    return table


def _share(n: int, total: int) -> str:
    return f"{n:,} ({n / max(total, 1):.1%})"


def _mesh_files(path: Path) -> list[Path]:
    from hodgeformer.mesh.io import MESH_SUFFIXES

    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in MESH_SUFFIXES and file.is_file())
    if not files:
        raise MeshError(f"{path}: no mesh in this folder or below; looked for {', '.join(MESH_SUFFIXES)}")
    return files


def _inspect(files: list[Path], *, show_progress: bool) -> _Findings:
    from hodgeformer.mesh.check import check_mesh
    from hodgeformer.mesh.io import load_mesh

    findings = _Findings()
    with _progress(shown=show_progress) as progress:
        for file in progress.track(files):
            try:
                findings.reports[file] = check_mesh(load_mesh(file))
            except MeshError as error:
                findings.errors[file] = error
    return findings


def _progress(*, shown: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    left = TextColumn("time left"), TimeRemainingColumn()
    columns = TextColumn("checking"), BarColumn(), MofNCompleteColumn(), *left
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def _print_tables(findings: _Findings, path: Path) -> None:
    console = table_console()
    if not path.is_dir():
        console.print(_mesh_table(findings.reports[path], path))
        return
    console.print(_folder_table(findings, path))
    n_odd = sum(bool(report.oddities) for report in findings.reports.values())
    line = f"{len(findings.reports)} meshes, {n_odd} with something odd"
    console.print(line + (f", {len(findings.errors)} cannot be read" if findings.errors else ""))


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
        "what is odd": ", ".join(report.oddities) or "nothing",
        "notes": ", ".join(report.notes) or "none",
    }
    for row, value in rows.items():
        table.add_row(row, Text(str(value)))
    return table


def _folder_table(findings: _Findings, folder: Path) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in ("mesh", "vertices", "edges", "faces", "size", "what is odd"):
        table.add_column(name, justify="left" if name in ("mesh", "what is odd") else "right", overflow="fold")
    for file in sorted([*findings.reports, *findings.errors]):
        shown = Text(str(file.relative_to(folder)))
        report = findings.reports.get(file)
        if report is None:
            table.add_row(shown, "", "", "", "", Text("cannot be read", style="red"))
            continue
        counts = (str(n) for n in (report.n_vertices, report.n_edges, report.n_faces))
        table.add_row(shown, *counts, _size(report), Text(", ".join(report.oddities), style="yellow"))
    return table


def _size(report: MeshReport) -> str:
    return " x ".join(f"{side:.4g}" for side in report.size)
