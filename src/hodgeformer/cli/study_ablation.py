"""`hodgeformer study ablation`: a whole table of trainings, resumed where it stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.cli.results import print_rows, save_rows
from hodgeformer.errors import ConfigError

if TYPE_CHECKING:
    from hodgeformer.study.ablation import PlannedRun, RunResult

_Results = dict[tuple[str, int], "RunResult"]


def ablation(
    study: Annotated[
        str,
        typer.Argument(help="embedding, features, neighbors, mixing, label-smoothing, or a TOML file like theirs."),
    ],
    data: Annotated[str, typer.Option("--data", help="A data-set folder, or the name of a data set.")],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds, counted from --first-seed.")] = 3,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0)] = 0,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Of every run.", show_default=False)] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Of every run, in place of epochs.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of all runs such as model.d_model=64; repeatable.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the runs; default runs/STUDY.", show_default=False)
    ] = None,
    results: Annotated[Path, typer.Option("--results", help="Folder of the tables.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Train every row of a study with several seeds and write results/STUDY.csv.

    Finished runs are skipped, stopped ones go on. Started twice, the two processes share the runs; with
    OMP_NUM_THREADS=1 that uses two cores best. The score is that of the last weights, in percent.
    """
    from hodgeformer.study.ablation import finished_result, load_study, plan_study, study_table

    if epochs is not None and minutes is not None:
        raise ConfigError("a run is as long as --epochs or as --minutes say, not both")
    length = [f"train.epochs={epochs}"] if epochs else [f"train.minutes={minutes}"] if minutes else []
    name, loaded = load_study(study)
    numbers = range(first_seed, first_seed + seeds)
    overrides = [*(settings or []), *length]
    runs = plan_study(loaded, data=_data(data), overrides=overrides, seeds=numbers, out=out or Path("runs") / name)
    about: dict[str, Any] = {"study": name, "data": data, "seeds": list(numbers), "settings": overrides}
    found: _Results = {}
    for number, run in enumerate(runs, 1):
        _carry_out(run, found, f"{number} of {len(runs)}")
        # Others may have finished runs that were theirs when we came by.
        found |= {(other.row.name, other.seed): result for other in runs if (result := finished_result(other))}
        if found:
            save_rows(results, name, study_table(loaded, found), about)
    if as_json:
        print(json.dumps({**about, "rows": study_table(loaded, found)}, indent=2))
        return
    if found:
        print_rows(study_table(loaded, found), f"{loaded.title} ({data})")
        print(results / f"{name}.csv")


def _carry_out(run: PlannedRun, found: _Results, place: str) -> None:
    from hodgeformer.cli.train_display import display
    from hodgeformer.study.ablation import carry_out, finished_result

    result = finished_result(run)
    told = "was finished before"
    if result is None:
        print(f"run {place}: {run.row.name}, seed {run.seed}", file=sys.stderr)
        with display(quiet=False) as listener:
            result = carry_out(run, listener)
        told = "done"
    if result is None:
        print(f"run {place}: another process is at it ({run.lock})", file=sys.stderr)
        return
    found[run.row.name, run.seed] = result
    score = f"{100 * result.score:.2f} % {result.split} {result.score_name.replace('_', ' ')}"
    print(f"run {place}: {run.row.name}, seed {run.seed}, {told}: {score}", file=sys.stderr)


def _data(data: str) -> dict[str, Any]:
    return {"name": "folder", "path": data} if Path(data).exists() else {"name": data}
