"""The part of `hodgeformer check` that looks at data sets: labels, counts, class balance, leaks."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from hodgeformer.data.dataset import DataSet
    from hodgeformer.data.verify import DataReport


def check_data(spec: str, *, as_json: bool) -> None:
    """Verify a whole data set. Exit code 1: some meshes cannot be used, or a shape is in several splits."""
    from hodgeformer.data.open import open_dataset

    report = _verified(open_dataset(spec))
    if as_json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _verified(dataset: DataSet) -> DataReport:
    from rich.console import Console
    from rich.progress import Progress

    from hodgeformer.data.verify import verify

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking", total=None)
        return verify(dataset, progress=lambda done, total: progress.update(task, completed=done, total=total))


def _print_report(report: DataReport) -> None:
    from rich.console import Console

    dataset, console = report.dataset, Console(highlight=False)
    splits = ", ".join(f"{len(samples)} {split}" for split, samples in dataset.splits.items())
    console.print(f"{dataset.name}: {dataset.task}, one label per {dataset.element}; meshes: {splits}")
    if dataset.classes:
        console.print(_balance(report))
    for warning in report.warnings:
        console.print(f"note: {warning}")
    for problem in report.problems:
        print(f"hodgeformer: {problem.message}", file=sys.stderr)
    if report.ok:
        console.print("all meshes have labels that fit, and no shape is in two splits")


def _balance(report: DataReport) -> Table:
    """How many labelled elements (or meshes) each class has in each split."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("class")
    for split in report.class_counts:
        table.add_column(split, justify="right")
    for i, name in enumerate(report.dataset.classes):
        table.add_row(Text(name), *(_share(counts[i], sum(counts)) for counts in report.class_counts.values()))
    if any(report.unlabelled.values()):
        table.add_row("not labelled", *(f"{n:,}" for n in report.unlabelled.values()), end_section=True)
    return table


def _share(n: int, total: int) -> str:
    return f"{n:,} ({n / max(total, 1):.1%})"
