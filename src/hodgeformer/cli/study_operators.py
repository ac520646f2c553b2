"""`hodgeformer study operators`: the operators that one head of a trained model has learned, on one mesh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import write_atomically
from hodgeformer.cli.results import JsonOption, ModelArgument, UpOption, print_rows, table_console, write_json

if TYPE_CHECKING:
    from hodgeformer.lab.study.operator_report import OperatorReport
    from hodgeformer.lab.study.star_report import StarReport
    from hodgeformer.mesh.mesh import Mesh
    from hodgeformer.predict.checkpoint import Checkpoint

_REACH = {
    "neighbors": "effective_neighbors_mean", "own": "own_weight_mean", "distance": "distance_mean", "hops": "hops_mean",
}  # fmt: skip
_LIKENESS = {"r entries": "entries", "r |entries|": "absolute_entries", "r diagonal": "diagonal"}


def operators(
    model: ModelArgument,
    mesh: Annotated[Path, typer.Argument(help="The mesh to inspect.")],
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer",
            min=1,
            help="The block, counted from 1; by default the last H and all D.",
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            "--head",
            help="The head of the H block or the time of D blocks, counted from 1; by default the first head and all "
            "times.",
            show_default=False,
        ),
    ] = None,
    element: Annotated[
        Literal["vertex", "edge", "face"] | None,
        typer.Option(
            "--element",
            help="The kind of the picked element; by default the one the model updates.",
            show_default=False,
        ),
    ] = None,
    pick: Annotated[
        int | None,
        typer.Option(
            "--pick", help="The number of the picked element in the file, counted from 0.", show_default=False
        ),
    ] = None,
    functions: Annotated[
        int, typer.Option("--functions", min=1, help="The number of eigenfunctions per operator.")
    ] = 6,
    end: Annotated[
        Literal["largest", "smallest"],
        typer.Option("--end", help="Use the eigenvalues of largest modulus, or of smallest real part."),
    ] = "largest",
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="The true labels of the faces, to compare stars with.", show_default=False),
    ] = None,
    up: UpOption = "auto",
    out: Annotated[Path, typer.Option("--out", help="Folder for tables and pictures.")] = Path("operators"),
    as_json: JsonOption = False,
) -> None:
    """Show attention around an element, the reach of the stars, and eigenfunctions of L_v, L_e and L_f.

    For D blocks: how far a vertex reads at each diffusion time, what each block uses of it, and the learned diagonal
    stars: by which factor they differ from the textbook's, and whether they differ on the borders of parts.
    """
    import numpy as np

    from hodgeformer.base.containers import KIND_OF
    from hodgeformer.lab.study.operator_pictures import save_operator_pictures
    from hodgeformer.lab.study.operator_report import study_operators
    from hodgeformer.mesh.io import load_mesh
    from hodgeformer.predict.checkpoint import load_checkpoint
    from hodgeformer.predict.pretrained import locate_model

    path = locate_model(model, "study")
    checkpoint, surface = load_checkpoint(path), load_mesh(mesh)
    blocks = checkpoint.model.blocks
    out.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"model": str(path), "mesh": str(mesh)}
    arrays: dict[str, Any] = {}
    files = [out / "operators.json"]
    diffuses = "D" in (blocks if layer is None else blocks[layer - 1 : layer])
    if diffuses and element in (None, "vertex"):
        content["spread"] = _spread(checkpoint, surface, layer, pick, out / "spread.png", up)
        files.append(out / "spread.png")
    learned = diffuses and checkpoint.model.diffusion_bound > 0
    if labels is not None and not learned:
        raise ConfigError(f"--labels needs D blocks with learned stars; the model is {checkpoint.model.description}")
    if learned:
        stars = _stars(checkpoint, surface, layer, head, labels, out, up)
        content["diagonal_stars"] = {"bound": stars.bound, "rows": stars.rows()}
        arrays |= stars.arrays()
        files += [out / name for name in ("stars.csv", "stars.png", "stars.html")]
    report = None
    if ("H" in blocks and not (diffuses and layer)) or len(content) == 2:
        report = study_operators(
            checkpoint.build_model(),
            surface,
            checkpoint.prepare,
            layer=layer,
            head=head or 1,
            kind=None if element is None else KIND_OF[element],
            picked=pick,
            n_functions=functions,
            end=end,
        )
        content |= report.to_dict()
        arrays |= report.arrays()
        files += save_operator_pictures(report, surface, out, up=up)
    if arrays:
        np.savez_compressed(out / "operators.npz", **arrays)
        files.insert(1, out / "operators.npz")
    write_json(out / "operators.json", content)
    if as_json:
        print(json.dumps(content, indent=2))
        return
    if "spread" in content:
        print_rows(content["spread"]["times"], f"spreading from vertex {content['spread']['picked']}")
    if "diagonal_stars" in content:
        title = "log of the learned diagonal star over the textbook's; border: on edges between two parts"
        print_rows(content["diagonal_stars"]["rows"], title, digits=3)
    if report is not None:
        _print_operators(report)
    for file in files:
        print(file)


def _spread(
    checkpoint: Checkpoint, surface: Mesh, layer: int | None, pick: int | None, picture: Path, up: Any
) -> dict[str, Any]:
    """Of the D blocks: how far a vertex reads at each time, and what each block takes from it."""
    from hodgeformer.lab.study.spread_picture import save_spread_picture
    from hodgeformer.mesh.prepare import prepare
    from hodgeformer.predict.spread import farthest_vertex, spread_from

    prepared = prepare(surface, checkpoint.prepare)
    picked = farthest_vertex(prepared) if pick is None else pick
    found = spread_from(checkpoint.build_model(), prepared, picked, layer)
    save_spread_picture(found, surface, picture, up=up)
    return {"picked": found.picked, "times": found.rows()}


def _stars(
    checkpoint: Checkpoint, surface: Mesh, layer: int | None, time: int | None, labels: Path | None, out: Path, up: Any
) -> StarReport:
    """Of the D blocks: learned diagonal stars, as a table, a picture and an HTML page."""
    from hodgeformer.data.label_files import COUNTED
    from hodgeformer.data.labels import Codes, LabelFile
    from hodgeformer.draw.page import page
    from hodgeformer.lab.study.spread_picture import save_star_picture
    from hodgeformer.lab.study.star_report import study_stars
    from hodgeformer.training.run_folder import write_csv

    truth = None
    if labels is not None:
        n = checkpoint.model.n_classes
        codes = Codes.counted_from(0, n + 1, checkpoint.classes)
        truth = LabelFile(labels, COUNTED.get(labels.suffix.lower(), "f"), "f", codes).read(surface)
        truth = truth - 1 if truth.max() == n else truth  # counted from 1
    found = study_stars(checkpoint, surface, layer=layer, time=time, truth=truth, up=up)
    write_csv(out / "stars.csv", found.rows())
    save_star_picture(found, checkpoint.colors, out / "stars.png")
    write_atomically(out / "stars.html", page(found.scenes(checkpoint), title=surface.name).encode())
    return found


def _print_operators(report: OperatorReport) -> None:
    rows = []
    for name, reach in report.reach.items():
        found, r = reach.summary(), report.correlations[name]
        row = {"star": name, "row sums": f"1 ± {found['largest_row_sum_error']:.0e}"}
        row |= {column: f"{found[key]:.3g}" for column, key in _REACH.items()}
        rows.append(row | {column: "-" if r[key] is None else f"{r[key]:.3f}" for column, key in _LIKENESS.items()})
    print_rows(rows, f"stars of layer {report.layer}, head {report.head}")
    spectra = {f"L_{kind}": pairs.values for kind, pairs in report.eigen.items()}
    for name, values in {**spectra, "cotangent": report.cotangent.values}.items():
        table_console().print(f"{name} eigenvalues: " + ", ".join(_number(value) for value in values.tolist()))


def _number(value: complex) -> str:
    real, imag = round(value.real, 9) + 0.0, round(value.imag, 9)
    return f"{real:.4g}{imag:+.4g}i" if imag else f"{real:.4g}"
