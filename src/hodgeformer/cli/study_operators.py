"""`hodgeformer study operators`: the operators that one head of a trained model has learned, on one mesh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.cli.results import JsonOption, ModelArgument, UpOption, print_rows, table_console, write_json

if TYPE_CHECKING:
    from hodgeformer.lab.study.operator_report import OperatorReport
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
        typer.Option("--layer", help="The block, counted from 1; by default the last H.", show_default=False),
    ] = None,
    head: Annotated[int, typer.Option("--head", help="The head, counted from 1.")] = 1,
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
    up: UpOption = "auto",
    out: Annotated[Path, typer.Option("--out", help="Folder for tables and pictures.")] = Path("operators"),
    as_json: JsonOption = False,
) -> None:
    """Show attention around an element, the reach of the stars, and eigenfunctions of L_v, L_e and L_f.

    For D blocks: how far a vertex reads at each diffusion time, and what each block uses of it.
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
    out.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"model": str(path), "mesh": str(mesh)}
    files = [out / "operators.json"]
    if "D" in checkpoint.model.blocks and element in (None, "vertex"):
        content["spread"] = _spread(checkpoint, surface, pick, out / "spread.png", up)
        files.append(out / "spread.png")
    report = None
    if "H" in checkpoint.model.blocks or "spread" not in content or layer is not None:
        report = study_operators(
            checkpoint.build_model(),
            surface,
            checkpoint.prepare,
            layer=layer,
            head=head,
            kind=None if element is None else KIND_OF[element],
            picked=pick,
            n_functions=functions,
            end=end,
        )
        content |= report.to_dict()
        np.savez_compressed(out / "operators.npz", **report.arrays())  # type: ignore[arg-type]
        files += [out / "operators.npz", *save_operator_pictures(report, surface, out, up=up)]
    write_json(out / "operators.json", content)
    if as_json:
        print(json.dumps(content, indent=2))
        return
    if "spread" in content:
        print_rows(content["spread"]["times"], f"spreading from vertex {content['spread']['picked']}")
    if report is not None:
        _print_operators(report)
    for file in files:
        print(file)


def _spread(checkpoint: Checkpoint, surface: Mesh, pick: int | None, picture: Path, up: Any) -> dict[str, Any]:
    """For D blocks: how far a vertex reads at each diffusion time, and what each block uses of it."""
    from hodgeformer.lab.study.spread_picture import save_spread_picture
    from hodgeformer.mesh.prepare import prepare
    from hodgeformer.predict.spread import farthest_vertex, spread_from

    prepared = prepare(surface, checkpoint.prepare)
    found = spread_from(checkpoint.build_model(), prepared, farthest_vertex(prepared) if pick is None else pick)
    save_spread_picture(found, surface, picture, up=up)
    return {"picked": found.picked, "times": found.rows()}


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
