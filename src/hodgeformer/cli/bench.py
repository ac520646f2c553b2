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
        Literal["verbs", "predict", "prepare", "attention", "training", "stars", "all"],
        typer.Argument(
            help="verbs: whole commands. predict: the waiting time of a user, step by step. prepare: meshes to input. "
            "attention: the kernel compared with a plain gather. training: a step compared with its matrix products. "
            "stars: a step with learned stars compared with fixed ones."
        ),
    ] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
    recipe: Annotated[
        list[Path] | None,
        typer.Option(
            "--recipe", metavar="TOML", help="training: measure an epoch of this configuration instead of steps."
        ),
    ] = None,
) -> None:
    """Measure speed and memory on this machine. Figures are medians; ratios compare values of one run.

    Run it on an idle machine: if other programs run, only the order of magnitude is reliable.
    """
    from rich.console import Console

    results: dict[str, Any] = {}
    for name in _MEASURES if part == "all" else (part,):
        measure, title = _MEASURES[name]
        with Console(stderr=True).status(f"measuring: {name}"):
            results[name] = _recipes(recipe) if recipe and name == "training" else measure(quick)
        if not as_json:
            print_rows(results[name], title, digits=4)
    if as_json:
        print(json.dumps(results, indent=2))


def _verbs(quick: bool) -> list[dict[str, Any]]:
    from hodgeformer.lab.bench.waiting import verb_costs

    return verb_costs(2 if quick else None, repeat=1 if quick else 5)


def _predict(quick: bool) -> list[dict[str, Any]]:
    from hodgeformer.lab.bench.waiting import waiting_costs
    from hodgeformer.lab.study.efficiency import growth

    if quick:
        return waiting_costs("human", ())
    rows = waiting_costs("human", (1 << 12, 1 << 14, 1 << 16, 1 << 18))
    exponents = {step: growth(rows, step, 1 << 14) for step in ("load", "prepare", "model", "write", "peak")}
    return [*rows, {"n_vertices": "growth from 16,384 on", **exponents}]


def _prepare(quick: bool) -> list[dict[str, Any]]:
    from hodgeformer.lab.bench.preparation import preparation_costs

    return preparation_costs(large=not quick)


def _attention(quick: bool) -> list[dict[str, Any]]:
    from hodgeformer.lab.bench.attention import compare

    sizes = [(512, 16)] if quick else [(2250, 48), (9216, 96)]
    return [{**compare(n=n, s=s), "target_speedup": 20.0, "target_memory": 3.0} for n, s in sizes]


def _training(quick: bool) -> list[dict[str, Any]]:
    from hodgeformer.base.memory import keep_freed_memory
    from hodgeformer.lab.bench.training import step_cost

    keep_freed_memory()  # as `hodgeformer train` does
    sizes = [("SHREC11", 1)] if quick else [("Human", 1), ("Human", 4), ("Human", 12), ("SHREC11", 16)]
    return [step_cost(*size, repeat=1 if quick else 5) for size in sizes]


def _stars(quick: bool) -> list[dict[str, Any]]:
    from hodgeformer.base.memory import keep_freed_memory
    from hodgeformer.lab.bench.training import star_costs

    keep_freed_memory()
    return star_costs(repeat=3 if quick else 60)


def _recipes(recipes: list[Path]) -> list[dict[str, Any]]:
    from hodgeformer.base.memory import keep_freed_memory
    from hodgeformer.lab.bench.training import recipe_cost

    keep_freed_memory()
    return [recipe_cost(recipe) for recipe in recipes]


_MEASURES: dict[str, tuple[Callable[[bool], list[dict[str, Any]]], str]] = {
    "verbs": (_verbs, "Whole commands on a mesh of Human size: seconds"),
    "predict": (_predict, "predict human scan.ply at full resolution: seconds, step by step"),
    "prepare": (_prepare, "Preparation: median ms; products = total / one 2048 x 2048 float32 product of this run"),
    "attention": (
        _attention,
        "Star attention and a plain gather: seconds forward + backward; memory in multiples of q, k, y",
    ),
    "training": (_training, "A training step and its dense matrix products alone, or an epoch of a recipe"),
    "stars": (_stars, "A training step of four blocks, Human size, width 96: median CPU ms, and ratio to fixed stars"),
}
