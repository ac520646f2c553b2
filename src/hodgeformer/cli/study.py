"""`hodgeformer study`: inspect learned operators, and reproduce the measurements of the paper."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.base.errors import ConfigError
from hodgeformer.cli.evaluate import warn_of_learned
from hodgeformer.cli.results import (
    DataArgument,
    FacesOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    SettingsOption,
    SplitOption,
    UpOption,
    bar,
    conclude,
    counted,
    mesh_files,
    save_rows,
)
from hodgeformer.cli.study_operators import operators
from hodgeformer.cli.study_soft import soft_edges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hodgeformer.lab.study.ablation import PlannedRun
    from hodgeformer.mesh.mesh import FloatArray, Mesh
    from hodgeformer.predict.predictor import Predictor

_FIGURES: dict[str, Any] = {"name": "figures", "n_train": 24, "n_test": 8, "n_faces": 1500}

app = typer.Typer(
    help="Repeat the measurements of the paper.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(operators)
app.command(name="soft-edges")(soft_edges)


@app.command()
def robustness(
    model: ModelArgument,
    data: DataArgument,
    split: SplitOption = "test",
    seed: Annotated[int, typer.Option(min=0, help="The seed for all mutations.")] = 0,
    meshes: Annotated[int | None, typer.Option(min=1, help="Use only this many meshes.")] = None,
    faces: FacesOption = "auto",
    up: UpOption = "auto",
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures.")] = Path("robustness"),
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a model on changed meshes.

    Changes are noise, remeshing, holes, missing parts, and changes of the file that keep the shape.

    Accuracies are in percent, intervals bootstrapped over meshes. The ground truth is the label of the nearest original
    element; "own labels" compares with the label of the face itself. Meshes with too few faces are subdivided before
    they are decimated; the paper decimated finer originals.
    """
    from hodgeformer.data.open import open_dataset
    from hodgeformer.lab.study.mutations import further_mutations, paper_mutations
    from hodgeformer.lab.study.robustness import robustness as scored
    from hodgeformer.lab.study.robustness import save_incomplete_picture, save_robustness_picture
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.training.evaluate import fitting

    predictor = Predictor.load(model, "cpu")
    checkpoint = predictor.checkpoint
    dataset = fitting(open_dataset(data), checkpoint)
    samples = dataset.split(split)[:meshes]
    learned = warn_of_learned([checkpoint], dataset, samples)
    mutations = [*paper_mutations(), *further_mutations()]
    settings: dict[str, Any] = {"seed": seed, "smooth": checkpoint.smooth}
    with bar("scoring mutated meshes", quiet=quiet) as progress:
        found = scored(predictor.model, dataset, samples, checkpoint.at(faces), mutations, **settings)
        results = list(counted(found, progress, len(mutations) + 1))
    table = [result.row(results[0]) for result in results]
    about: dict[str, Any] = {"model": model, "data": dataset.name, "split": split, "n_meshes": len(samples)}
    about |= {"n_learned_from": len(learned), **settings, "score": results[0].scores.main_name}
    files = save_rows(out, "robustness", table, about)

    def up_of(mesh: Mesh) -> FloatArray:
        return predictor.predict(mesh, up=up).up

    files.append(save_robustness_picture(results, dataset, out / "robustness.png", up_of))
    files.append(save_incomplete_picture(results, dataset, out / "incomplete.png", up_of))
    title = f"{about['score'].replace('_', ' ')} in percent, {len(samples)} meshes of {dataset.name} {split}"
    conclude({**about, "rows": table}, {title: table}, files, as_json=as_json)


@app.command()
def familiarity(
    model: ModelArgument,
    data: DataArgument,
    split: SplitOption = "test",
    strange: Annotated[
        list[Path] | None, typer.Option(help="A folder of meshes that should be unfamiliar; repeatable.")
    ] = None,
    meshes: Annotated[int | None, typer.Option(min=2, help="Use at most this many of each.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed for the cutting planes.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the tables.")] = Path("familiarity"),
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count the meshes that cause a warning.

    A model calls a mesh unfamiliar if it is unlike the training meshes. Counted are the meshes of a split, halves and
    pairs of them, and other folders.
    """
    from hodgeformer.data.open import open_dataset
    from hodgeformer.lab.study.mutations import Mutation, cut_away, paired
    from hodgeformer.mesh.io import load_mesh
    from hodgeformer.predict.predictor import Predictor

    predictor = Predictor.load(model)
    if predictor.info.familiarity is None:
        raise ConfigError(f"{model} has no familiarity; fit it with `hodgeformer evaluate {model} DATA --calibrate`")
    dataset = open_dataset(data)
    known = [dataset.load(sample)[0] for sample in _spread(dataset.split(split), meshes)]
    half = Mutation("half", partial(cut_away, share=0.5))
    halves = [half(mesh, seed=seed).mesh for mesh in known]
    pairs = [paired(mesh, known[(i + len(known) // 2) % len(known)]) for i, mesh in enumerate(known)]
    kinds = {f"{dataset.name} {split}": known, "cut in half": halves, "pairs": pairs}
    kinds |= {
        folder.name: [load_mesh(file) for file in _spread(mesh_files(folder), meshes)] for folder in strange or []
    }
    with bar("predicting", quiet=quiet) as progress:
        found = (_row(predictor, name, shown) for name, shown in kinds.items())
        rows = list(counted(found, progress, len(kinds)))
    files = save_rows(out, "familiarity", rows, {"model": model, "data": dataset.name, "split": split, "seed": seed})
    conclude(rows, {"unfamiliar meshes": rows}, files, as_json=as_json)


def _spread(items: Any, most: int | None) -> Any:
    """At most this many items, spread evenly over the list."""
    return items if most is None else items[:: -(-len(items) // most)]


def _row(predictor: Predictor, name: str, meshes: Iterable[Mesh]) -> dict[str, Any]:
    import numpy as np

    results = list(predictor.predict_many(meshes))
    scores = np.array([result.familiarity for result in results])
    return {
        "meshes": name,
        "count": len(results),
        "warned_percent": round(100 * float(np.mean(scores < 0.5)), 1),
        "median_familiarity": round(float(np.median(scores)), 3),
        "lowest": round(float(scores.min()), 3),
        "highest": round(float(scores.max()), 3),
    }


@app.command()
def ablation(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="embedding, features, neighbors, mixing, label-smoothing, main, or a TOML file like theirs.",
        ),
    ],
    data: Annotated[str | None, typer.Option(help="A data-set folder or name; `main` has its own.")] = None,
    rows: Annotated[list[str] | None, typer.Option("--row", help="Only this row; repeatable.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds, counted from --first-seed.")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    epochs: Annotated[int | None, typer.Option(min=1, help="The number of epochs of every run.")] = None,
    settings: SettingsOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; default runs/STUDY.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the tables.")] = Path("results"),
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train every row of a study with several seeds.

    Writes results/STUDY.csv. Finished runs are skipped and stopped ones continue. If you start it twice, the two
    processes share the runs; with OMP_NUM_THREADS=1 this uses two cores best. The score is that of the last
    weights, in percent.
    """
    from hodgeformer.lab.study.ablation import load_study, plan_study
    from hodgeformer.lab.study.record import save_study

    name, loaded = load_study(study)
    numbers = range(first_seed, first_seed + seeds)
    overrides = [*(settings or []), *([f"train.epochs={epochs}"] if epochs else [])]
    source, place = {} if data is None else _source(data), out or Path("runs") / name
    runs = plan_study(loaded, data=source, overrides=overrides, seeds=numbers, out=place, rows=rows or ())
    about: dict[str, Any] = {"study": name, "data": data, "seeds": list(numbers), "settings": overrides}
    table: list[dict[str, Any]] = []
    for number, run in enumerate(runs, 1):
        _carry_out(run, f"{number} of {len(runs)}", quiet=quiet)
        table = save_study(results, name, loaded, runs, rows or ())
    title = loaded.title if data is None else f"{loaded.title} ({data})"
    shown, files = ({title: table}, [results / f"{name}.csv"]) if table else ({}, [])
    conclude({**about, "rows": table}, shown, files, as_json=as_json)


@app.command()
def table(
    results: Annotated[Path, typer.Option(help="The folder that studies write to.")] = Path("results"),
    as_json: JsonOption = False,
) -> None:
    """Show the paper's main table beside our results.

    Accuracies are in percent, mean and deviation over seeds. Missing rows show the command to run. A second table has
    all methods that report figures on this data. Also writes results/table.csv and results/field.csv.
    """
    from hodgeformer.lab.result_tables import field_table, main_table
    from hodgeformer.lab.study.ablation import load_study

    name, study = load_study("main")
    rows, field = main_table(study, results, name), field_table(study, results, name)
    files = [*save_rows(results, "table", rows, {"study": name}), *save_rows(results, "field", field, {"study": name})]
    tables = {study.title: rows, "all methods on this data": field}
    conclude({"rows": rows, "field": field}, tables, files, as_json=as_json)


def _carry_out(run: PlannedRun, place: str, *, quiet: bool) -> None:
    from hodgeformer.cli.train_display import display
    from hodgeformer.lab.study.ablation import carry_out, finished_result

    def report(text: str) -> None:
        if not quiet:
            print(f"run {place}: {run.row.name}, seed {run.seed}{text}", file=sys.stderr)

    result = finished_result(run)
    state = "already finished"
    if result is None:
        report("")
        with display(quiet=quiet) as listener:
            result = carry_out(run, listener)
        state = "finished"
    if result is None:
        report(f": another process is running it ({run.folder})")
        return
    score = f"{100 * result.score:.2f} % {result.split} {result.score_name.replace('_', ' ')}"
    report(f", {state}: {score}")


@app.command()
def efficiency(
    data: Annotated[
        str | None, typer.Option(help="A data-set folder or name; by default synthetic bodies of the size of Human.")
    ] = None,
    largest: Annotated[int, typer.Option(min=8, max=20, help="The largest mesh has 2 to this power vertices.")] = 14,
    capped: Annotated[
        bool, typer.Option("--capped", help="Limit neighbors as our recipes do, instead of sqrt(n).")
    ] = False,
    settings: SettingsOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the tables.")] = Path("results"),
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure time and peak memory.

    Measures by mesh size, and per epoch and batch, each in its own process.

    Size table: one HodgeFormer layer on vertices, d = 256; memory above the interpreter. Runtime table: the paper's
    Human model, batch size 12 in training and 1 in testing; memory of the whole process. The paper's figures are for
    an RTX 4090.
    """
    from hodgeformer.lab.study.efficiency import WORKS, human_tables, runtime_rows, size_rows
    from hodgeformer.mesh.prepare import PrepareConfig

    exponents = range(8, largest + 1, 2)
    config = PrepareConfig() if capped else PrepareConfig(max_neighbors=None)
    with bar("measuring", quiet=quiet) as progress:
        sizes = list(counted(size_rows(exponents, config), progress, len(WORKS) * len(exponents) + 1))
        runtime = runtime_rows(human_tables(_FIGURES if data is None else _source(data), settings or []))
    about = {"data": data or "figures", "capped": capped, "settings": settings or []}
    files = [*save_rows(out, "sizes", sizes, about), *save_rows(out, "runtime", runtime, about)]
    tables = {"one-layer model, d = 256, updates v": sizes, f"Human model on {about['data']}": runtime}
    conclude({**about, "sizes": sizes, "runtime": runtime}, tables, files, as_json=as_json)


def _source(data: str) -> dict[str, Any]:
    return {"name": "folder", "path": data} if Path(data).exists() else {"name": data}
