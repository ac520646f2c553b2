"""`hodgeformer study robustness`: what a model scores on mutated meshes, beside the paper's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.cli.results import FacesOption, UpOption, print_rows, save_rows

if TYPE_CHECKING:
    from hodgeformer.study.mutations import Mutation


def robustness(
    model: Annotated[str, typer.Argument(help="A bundled name, a run folder, or a checkpoint.")],
    data: Annotated[str, typer.Argument(help="A data-set folder, the name of a data set, or a TOML with [data].")],
    split: Annotated[str, typer.Option("--split", help="The split to mutate: train, val or test.")] = "test",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws all mutations.")] = 0,
    meshes: Annotated[
        int | None, typer.Option("--meshes", min=1, help="Only so many meshes.", show_default=False)
    ] = None,
    faces: FacesOption = "auto",
    remesh: Annotated[
        list[int] | None,
        typer.Option("--remesh", min=4, help="Also remesh to this many faces; repeatable.", show_default=False),
    ] = None,
    paper_only: Annotated[bool, typer.Option("--paper-only", help="Only what the paper has figures for.")] = False,
    up: UpOption = "auto",
    out: Annotated[Path, typer.Option("--out", help="Folder for tables and pictures.")] = Path("robustness"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Noise, remeshing, holes, cut-away parts, and changes of the file that leave the shape as it is.

    Accuracies are in percent, intervals bootstrapped over meshes. Ground truth is the label of the nearest original
    element; "own labels" counts against that of the face itself. Meshes with fewer faces than asked for are subdivided
    before they are decimated; the paper decimated finer originals.
    """
    from rich.console import Console

    from hodgeformer.checkpoint import load_checkpoint
    from hodgeformer.data.open import open_dataset
    from hodgeformer.predict.pretrained import locate_model
    from hodgeformer.study.robustness import robustness as scored
    from hodgeformer.study.robustness import save_robustness_picture
    from hodgeformer.train.evaluate import fitting

    checkpoint = load_checkpoint(locate_model(model))
    dataset = fitting(open_dataset(data), checkpoint)
    samples = dataset.split(split)[:meshes]
    mutations = _mutations(remesh or [], paper_only)
    results = []
    with Console(stderr=True).status("scoring the original meshes") as status:
        rows = scored(checkpoint.build_model(), dataset, samples, checkpoint.at(faces), mutations, seed=seed)
        for result in rows:
            results.append(result)
            status.update(f"{len(results)} of {len(mutations) + 1} scored: {result.mutation.name}")
    table = [result.row(results[0]) for result in results]
    about: dict[str, Any] = {
        "model": model,
        "data": dataset.name,
        "split": split,
        "n_meshes": len(samples),
        "seed": seed,
        "score": results[0].scores.main_name,
    }
    out.mkdir(parents=True, exist_ok=True)
    files = save_rows(out, "robustness", table, about)
    files.append(save_robustness_picture(results, dataset, out / "robustness.png", up=up))
    if as_json:
        print(json.dumps({**about, "rows": table}, indent=2))
        return
    print_rows(table, f"{about['score'].replace('_', ' ')} in percent, {len(samples)} meshes of {dataset.name} {split}")
    for file in files:
        print(file)


def _mutations(faces: list[int], paper_only: bool) -> list[Mutation]:
    from hodgeformer.study.mutations import Mutation, further_mutations, paper_mutations, remesh

    known = [mutation for mutation in paper_mutations() if mutation.paper is not None or not paper_only]
    asked = [Mutation(f"remeshed to {n} faces", remesh(n)) for n in faces if n not in (1000, 2000)]
    return [*known, *asked, *([] if paper_only else further_mutations())]
