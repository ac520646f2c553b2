"""hodgeformer bench: speed and memory on this machine."""

from __future__ import annotations

import json as json_format
import sys
from enum import StrEnum
from typing import Annotated

import typer


class Part(StrEnum):
    """What is measured."""

    prepare = "prepare"


def bench(
    part: Annotated[Part, typer.Argument(help="What to measure.")] = Part.prepare,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
) -> None:
    """Measure speed and memory on this machine; figures are medians, and ratios within one run."""
    _prepare(json, quick)


def _prepare(json: bool, quick: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from hodgeformer.bench.preparation import preparation_costs

    with Console(stderr=True).status("preparing meshes"):
        costs = preparation_costs(large=not quick)
    if json:
        json_format.dump([cost.to_json() for cost in costs], sys.stdout, indent=2)
        print()
        return
    table = Table(title="Preparation: median ms, and multiples of one 2048 x 2048 float32 product in this run")
    for column in (
        "mesh",
        "threads",
        "total",
        "order",
        "complex",
        "features",
        "patterns",
        "product",
        "x",
        "target",
    ):
        table.add_column(column, justify="left" if column == "mesh" else "right")
    for cost in costs:
        parts = (cost.total, cost.order, cost.complex, cost.features, cost.patterns, cost.product)
        table.add_row(
            cost.mesh,
            str(cost.n_threads),
            *(f"{part:,.1f}" for part in parts),
            f"{cost.products:.3f}",
            f"{cost.target:g}",
        )
    Console().print(table)
