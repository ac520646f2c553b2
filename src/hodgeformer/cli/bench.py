"""hodgeformer bench: speed and memory on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hodgeformer.cli.results import print_rows


def bench(
    part: Annotated[
        Literal["verbs", "predict", "serving", "training", "stars", "all"],
        typer.Argument(
            help="verbs: whole commands. predict: the waiting time of a user, step by step. serving: answers over HTTP "
            "to one and to eight clients. training: a step compared with its matrix products. stars: a step with "
            "learned stars compared with fixed ones."
        ),
    ] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
    recipe: Annotated[
        list[Path] | None,
        typer.Option(metavar="TOML", help="training: measure an epoch of this configuration instead of steps."),
    ] = None,
) -> None:
    """Measure speed and memory on this machine. Figures are medians; ratios compare values of one run.

    Run it on an idle machine: if other programs run, only the order of magnitude is reliable.
    """
    from rich.console import Console

    from hodgeformer.base.machine import keep_freed_memory
    from hodgeformer.lab.bench import serving, training, waiting

    measures: dict[str, tuple[Callable[[bool], list[dict[str, Any]]], str]] = {
        "verbs": (waiting.verb_costs, "Whole commands on a mesh of Human size: seconds"),
        "predict": (waiting.waiting_costs, "predict human scan.ply at full resolution: seconds, step by step"),
        "serving": (serving.serving_costs, "serve human: answers per second, and milliseconds that a client waits"),
        "training": (
            training.step_costs,
            "A training step and its dense matrix products alone, or an epoch of a recipe",
        ),
        "stars": (
            training.star_costs,
            "A training step of four blocks, Human size, width 96: median CPU ms, and ratio to fixed stars",
        ),
    }
    results: dict[str, list[dict[str, Any]]] = {}
    for name in measures if part == "all" else (part,):
        measure, title = measures[name]
        if name in ("training", "stars"):
            keep_freed_memory()  # as `hodgeformer train` does
        with Console(stderr=True).status(f"measuring: {name}"):
            if recipe and name == "training":
                results[name] = [training.recipe_cost(path) for path in recipe]
            else:
                results[name] = measure(quick)
        if not as_json:
            print_rows(results[name], title, digits=4)
    if as_json:
        print(json.dumps(results, indent=2))
