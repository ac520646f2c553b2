"""`hodgeformer study operators`: the operators that one head of a trained model has learned, on one mesh."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import write_atomically
from hodgeformer.cli.results import JsonOption, ModelArgument, UpOption, conclude, write_json

if TYPE_CHECKING:
    from hodgeformer.lab.study.operator_report import OperatorReport
    from hodgeformer.mesh.mesh import Mesh
    from hodgeformer.predict.predictor import Predictor

_REACH = {
    "neighbors": "effective_neighbors_mean", "own": "own_weight_mean", "distance": "distance_mean",
}  # fmt: skip
_LIKENESS = {"r entries": "entries", "r |entries|": "absolute_entries", "r diagonal": "diagonal"}


def operators(
    model: ModelArgument,
    mesh: Annotated[Path, typer.Argument(help="The mesh to inspect.")],
    layer: Annotated[
        int | None, typer.Option("--layer", min=1, help="The block, counted from 1; by default the last H and all D.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            "--head",
            help="The head of the H block or the time of D blocks, counted from 1; by default the first head and all "
            "times.",
        ),
    ] = None,
    element: Annotated[
        Literal["vertex", "edge", "face"] | None,
        typer.Option("--element", help="The kind of the picked element; by default the one the model updates."),
    ] = None,
    pick: Annotated[
        int | None, typer.Option("--pick", help="The number of the picked element in the file, counted from 0.")
    ] = None,
    functions: Annotated[
        int, typer.Option("--functions", min=1, help="The number of eigenfunctions per operator.")
    ] = 6,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="The true labels of the faces, to compare stars with.")
    ] = None,
    up: UpOption = "auto",
    out: Annotated[Path, typer.Option("--out", help="Folder for tables and pictures.")] = Path("operators"),
    as_json: JsonOption = False,
) -> None:
    """Show attention around an element, the reach of the stars, and eigenfunctions of L_v, L_e and L_f.

    For D blocks: how far a vertex reads at each diffusion time, what each block uses of it, and the learned diagonal
    stars: by which factor they differ from the textbook's, and whether they differ on the borders of parts.
    """
    from hodgeformer.mesh.io import load_mesh
    from hodgeformer.predict.predictor import Predictor

    predictor = Predictor.load(model, "cpu")
    checkpoint = predictor.checkpoint
    blocks = checkpoint.model.blocks
    diffuses = "D" in (blocks if layer is None else blocks[layer - 1 : layer])
    learned = diffuses and checkpoint.model.diffusion_bound > 0
    if labels is not None and not learned:
        raise ConfigError(f"--labels needs D blocks with learned stars; the model is {checkpoint.model.description}")
    out.mkdir(parents=True, exist_ok=True)
    study = _Study(predictor, load_mesh(mesh), out, up, layer, {"model": str(checkpoint.path), "mesh": str(mesh)})
    spreads = diffuses and element in (None, "vertex")
    if spreads:
        study.spread(pick)
    if learned:
        study.stars(head, labels)
    if ("H" in blocks and not (diffuses and layer)) or not (spreads or learned):
        study.attention(head or 1, element, pick, functions)
    study.finish(as_json=as_json)


@dataclass
class _Study:
    """What was found: `content` for JSON, arrays for NPZ, tables by title, and the files written."""

    predictor: Predictor
    mesh: Mesh
    out: Path
    up: Any
    layer: int | None
    content: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)

    def spread(self, pick: int | None) -> None:
        """D blocks: how far a vertex reads at each time, and what each block takes from it."""
        from hodgeformer.lab.study.spread_picture import save_spread_picture
        from hodgeformer.mesh.prepare import prepare
        from hodgeformer.predict.spread import farthest_vertex, spread_from

        prepared = prepare(self.mesh, self.predictor.info.prepare)
        picked = farthest_vertex(prepared) if pick is None else pick
        found = spread_from(self.predictor.model, prepared, picked, self.layer)
        self.files.append(self.out / "spread.png")
        save_spread_picture(found, self.mesh, self.files[-1], up=self.up)
        self.content["spread"] = {"picked": found.picked, "times": found.rows()}
        self.tables[f"spreading from vertex {found.picked}"] = found.rows()

    def stars(self, time: int | None, labels: Path | None) -> None:
        """D blocks: learned diagonal stars, as a table, a picture and an HTML page."""
        from hodgeformer.data.label_files import COUNTED
        from hodgeformer.data.labels import Codes, LabelFile
        from hodgeformer.draw.page import page
        from hodgeformer.lab.study.spread_picture import save_star_picture
        from hodgeformer.lab.study.star_report import study_stars
        from hodgeformer.training.run_folder import write_csv

        truth, checkpoint = None, self.predictor.checkpoint
        if labels is not None:
            n = checkpoint.model.n_classes
            codes = Codes.counted_from(0, n + 1, checkpoint.classes)
            truth = LabelFile(labels, COUNTED.get(labels.suffix.lower(), "f"), "f", codes).read(self.mesh)
            truth = truth - 1 if truth.max() == n else truth  # counted from 1
        found = study_stars(checkpoint, self.mesh, layer=self.layer, time=time, truth=truth, up=self.up)
        table, picture, scenes = files = [self.out / name for name in ("stars.csv", "stars.png", "stars.html")]
        write_csv(table, found.rows())
        save_star_picture(found, checkpoint.colors, picture)
        write_atomically(scenes, page(found.scenes(checkpoint), title=self.mesh.name).encode())
        self.files += files
        self.arrays |= found.arrays()
        self.content["diagonal_stars"] = {"bound": found.bound, "rows": found.rows()}
        title = "log of the learned diagonal star over the textbook's; border: on edges between two parts"
        self.tables[title] = found.rows()

    def attention(self, head: int, element: Any, pick: int | None, functions: int) -> None:
        """H blocks: attention around an element, the reach of the stars, and eigenfunctions."""
        from hodgeformer.base.containers import KIND_OF
        from hodgeformer.lab.study.operator_pictures import save_operator_pictures
        from hodgeformer.lab.study.operator_report import study_operators

        report = study_operators(
            self.predictor.model,
            self.mesh,
            self.predictor.info.prepare,
            layer=self.layer,
            head=head,
            kind=None if element is None else KIND_OF[element],
            picked=pick,
            n_functions=functions,
        )
        self.content |= report.to_dict()
        self.arrays |= report.arrays()
        self.files += save_operator_pictures(report, self.mesh, self.out, up=self.up)
        self.tables |= _operator_tables(report)

    def finish(self, *, as_json: bool) -> None:
        import numpy as np

        numbers = [self.out / "operators.json"]
        write_json(numbers[0], self.content)
        if self.arrays:
            numbers.append(self.out / "operators.npz")
            np.savez_compressed(numbers[1], **self.arrays)
        conclude(self.content, self.tables, [*numbers, *self.files], as_json=as_json)


def _operator_tables(report: OperatorReport) -> dict[str, list[dict[str, Any]]]:
    rows = []
    for name, reach in report.reach.items():
        found, r = reach.summary(), report.correlations[name]
        row = {"star": name, "row sums": f"1 ± {found['largest_row_sum_error']:.0e}"}
        row |= {column: f"{found[key]:.3g}" for column, key in _REACH.items()}
        rows.append(row | {column: "-" if r[key] is None else f"{r[key]:.3f}" for column, key in _LIKENESS.items()})
    spectra = {f"L_{kind}": pairs.values for kind, pairs in report.eigen.items()}
    spectra["cotangent"] = report.cotangent.values
    eigenvalues = [
        {"operator": name, "eigenvalues": ", ".join(map(_number, values.tolist()))} for name, values in spectra.items()
    ]
    return {f"stars of layer {report.layer}, head {report.head}": rows, "spectra": eigenvalues}


def _number(value: complex) -> str:
    real, imag = round(value.real, 9) + 0.0, round(value.imag, 9)
    return f"{real:.4g}{imag:+.4g}i" if imag else f"{real:.4g}"
