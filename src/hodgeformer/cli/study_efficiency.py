"""`hodgeformer study efficiency`: the paper's size table and runtime table on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hodgeformer.cli.results import print_rows, save_rows

_FIGURES: dict[str, Any] = {"name": "figures", "n_train": 24, "n_test": 8, "n_faces": 1500}


def efficiency(
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="A data-set folder or name; default made-up bodies of Human size.", show_default=False
        ),
    ] = None,
    largest: Annotated[int, typer.Option("--largest", min=8, max=20, help="2^this is the largest mesh.")] = 14,
    capped: Annotated[bool, typer.Option("--capped", help="Our caps on neighbors in place of sqrt(n).")] = False,
    batches: Annotated[int, typer.Option("--batches", min=1, help="Training batches to measure.")] = 3,
    meshes: Annotated[int, typer.Option("--meshes", min=1, help="Test meshes to measure.")] = 8,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the runtime table such as train.batch_size=4.", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the tables.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Time and peak memory by mesh size, and per epoch and batch, each measured in a process of its own.

    Size table: one HodgeFormer layer on vertices, d = 256; memory above the interpreter. Runtime table: the paper's
    Human model, batch size 12 in training and 1 in testing; memory of the whole process. The paper's figures are those
    of an RTX 4090.
    """
    from rich.console import Console

    with Console(stderr=True).status("measuring sizes") as status:
        sizes = _sizes(range(8, largest + 1, 2), capped)
        status.update("measuring training and testing")
        runtime = _runtime(data, settings or [], batches, meshes)
    about = {"data": data or "figures", "capped": capped, "settings": settings or []}
    files = [*save_rows(out, "sizes", sizes, about), *save_rows(out, "runtime", runtime, about)]
    if as_json:
        print(json.dumps({**about, "sizes": sizes, "runtime": runtime}, indent=2))
        return
    print_rows(sizes, "one-layer model, d = 256, updates v")
    print_rows(runtime, f"Human model on {about['data']}")
    for file in files:
        print(file)


def _sizes(exponents: range, capped: bool) -> list[dict[str, Any]]:
    from hodgeformer.bench.yardsticks import bumpy_torus
    from hodgeformer.mesh.prepare import PrepareConfig
    from hodgeformer.study.efficiency import WORKS, size_cost, size_row

    config = PrepareConfig() if capped else PrepareConfig(max_neighbors=None)
    small = bumpy_torus(64)
    return [
        size_row(work, 1 << exponent, size_cost(bumpy_torus(1 << exponent), small, work, config))
        for work in WORKS
        for exponent in exponents
    ]


def _runtime(data: str | None, settings: list[str], n_batches: int, n_meshes: int) -> list[dict[str, Any]]:
    from hodgeformer.study.efficiency import HUMAN_BATCH, HUMAN_MODEL, HUMAN_PREPARE, runtime_rows
    from hodgeformer.train.config import with_overrides

    source = _FIGURES if data is None else {"name": "folder", "path": data} if Path(data).exists() else {"name": data}
    train = {"batch_size": HUMAN_BATCH, "workers": 0}
    tables: dict[str, Any] = {"data": source, "prepare": HUMAN_PREPARE, "model": HUMAN_MODEL, "train": train}
    return runtime_rows(with_overrides(tables, settings), n_batches=n_batches, n_meshes=n_meshes)
