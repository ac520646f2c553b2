"""`hodgeformer study familiarity`: of which meshes a model says that it does not know their kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.cli.results import save_rows, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hodgeformer.mesh.mesh import Mesh
    from hodgeformer.predict.predictor import Predictor


def familiarity(
    model: Annotated[str, typer.Argument(help="A bundled name, a run folder, or a checkpoint.")],
    data: Annotated[str, typer.Argument(help="A data-set folder, the name of a data set, or a TOML with [data].")],
    split: Annotated[str, typer.Option("--split", help="The split of meshes that should be familiar.")] = "test",
    strange: Annotated[
        list[Path] | None,
        typer.Option("--strange", help="A folder of meshes that should not be; repeatable.", show_default=False),
    ] = None,
    meshes: Annotated[
        int | None, typer.Option("--meshes", min=2, help="At most so many of each.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the planes that cut.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="Folder for the tables.")] = Path("familiarity"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """How many meshes are warned of: those of a split, halves and pairs of them, and whatever else is given."""
    from functools import partial

    from hodgeformer.data.open import open_dataset
    from hodgeformer.errors import ConfigError
    from hodgeformer.mesh.io import MESH_SUFFIXES, load_mesh
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.study.mutations import Mutation, cut_away, paired

    predictor = Predictor.load(model)
    if predictor.checkpoint.familiarity is None:
        raise ConfigError(f"{model} does not know what is familiar; `evaluate {model} DATA --calibrate` teaches it")
    dataset = open_dataset(data)
    known = [dataset.load(sample)[0] for sample in _spread(dataset.split(split), meshes)]
    half = Mutation("half", partial(cut_away, share=0.5))
    halves = [half(mesh, seed=seed).mesh for mesh in known]
    pairs = [paired(mesh, known[(i + len(known) // 2) % len(known)]) for i, mesh in enumerate(known)]
    rows = [_row(predictor, f"{dataset.name} {split}", known), _row(predictor, "cut in half", halves)]
    rows.append(_row(predictor, "pairs", pairs))
    for folder in strange or []:
        files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in MESH_SUFFIXES)
        rows.append(_row(predictor, folder.name, [load_mesh(file) for file in _spread(files, meshes)]))
    out.mkdir(parents=True, exist_ok=True)
    files = save_rows(out, "familiarity", rows, {"model": model, "data": dataset.name, "split": split, "seed": seed})
    tell(rows, "meshes that are warned of", files, as_json=as_json)


def _spread(items: Any, most: int | None) -> Any:
    """At most so many of the items, from all over the list."""
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
