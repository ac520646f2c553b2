"""`hodgeformer study operators`: numbers about the operators that a trained model has learned, on one mesh."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.base.errors import ConfigError
from hodgeformer.cli.results import JsonOption, ModelArgument, conclude, write_json

if TYPE_CHECKING:
    from hodgeformer.mesh.mesh import Mesh
    from hodgeformer.predict.predictor import Predictor


def operators(
    model: ModelArgument,
    mesh: Annotated[Path, typer.Argument(metavar="MESH", help="The mesh to inspect.")],
    layer: Annotated[
        int | None, typer.Option(min=1, help="The block, counted from 1; by default the last H and all D.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            help="The head of the H block or the time of D blocks, counted from 1; by default the first head and all "
            "times."
        ),
    ] = None,
    element: Annotated[
        Literal["vertex", "edge", "face"] | None,
        typer.Option(help="The kind of the picked element; by default the one the model updates."),
    ] = None,
    pick: Annotated[
        int | None, typer.Option(help="The number of the picked element in the file, counted from 0.")
    ] = None,
    functions: Annotated[int, typer.Option(min=1, help="The number of eigenfunctions per operator.")] = 6,
    labels: Annotated[Path | None, typer.Option(help="The true labels of the faces, to compare stars with.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the tables.")] = Path("operators"),
    as_json: JsonOption = False,
) -> None:
    """Measure what a model has learned, on one mesh.

    For H blocks: the reach of the stars, attention around an element, and eigenfunctions of L_v, L_e and L_f.

    For D blocks: how far a vertex reads at each diffusion time, what each block uses of it, and the learned diagonal
    stars: by which factor they differ from the textbook's, and whether they differ on the borders of parts.
    `hodgeformer view` shows attention, spreading and learned stars on the mesh.
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
    study = _Study(predictor, load_mesh(mesh), layer, {"model": str(checkpoint.path), "mesh": str(mesh)})
    spreads = diffuses and element in (None, "vertex")
    if spreads:
        study.spread(pick)
    if learned:
        study.stars(head, labels)
    if ("H" in blocks and not (diffuses and layer)) or not (spreads or learned):
        study.attention(head or 1, element, pick, functions)
    study.write(out, as_json=as_json)


@dataclass
class _Study:
    """What was found: `content` for JSON, arrays for NPZ, and tables by title."""

    predictor: Predictor
    mesh: Mesh
    layer: int | None
    content: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def spread(self, pick: int | None) -> None:
        """D blocks: how far a vertex reads at each time, and what each block takes from it."""
        import numpy as np

        from hodgeformer.kernels.elimination import TIMES
        from hodgeformer.mesh.prepare import prepare
        from hodgeformer.predict.operators import spread_from

        prepared = prepare(self.mesh, self.predictor.info.prepare)
        farthest = int(prepared.order.v[np.linalg.norm(prepared.positions, axis=1).argmax()])
        picked = farthest if pick is None else pick
        rows: list[dict[str, Any]] = []
        for block, read in spread_from(self.predictor.model, prepared, picked, self.layer).items():
            for i, time in enumerate(TIMES):
                percent = {"area_percent": 100 * read.area[i], "block_takes_percent": 100 * read.share[i]}
                row = {"time": time, "distance": read.distance[i], **percent}
                rows.append({"block": block, **{name: float(f"{value:.4g}") for name, value in row.items()}})
        self.content["spread"] = {"picked": picked, "times": rows}
        self.tables[f"spreading from vertex {picked}"] = rows

    def stars(self, time: int | None, labels: Path | None) -> None:
        """D blocks: learned diagonal stars."""
        from hodgeformer.data.label_files import COUNTED
        from hodgeformer.data.labels import Codes, LabelFile
        from hodgeformer.lab.study.star_report import study_stars

        truth, checkpoint = None, self.predictor.checkpoint
        if labels is not None:
            n = checkpoint.model.n_classes
            codes = Codes.counted_from(0, n + 1, checkpoint.classes)
            truth = LabelFile(labels, COUNTED.get(labels.suffix.lower(), "f"), "f", codes).read(self.mesh)
            truth = truth - 1 if truth.max() == n else truth  # counted from 1
        found = study_stars(checkpoint, self.mesh, layer=self.layer, time=time, truth=truth)
        self.arrays |= found.arrays()
        self.content["diagonal_stars"] = {"bound": found.bound, "rows": found.rows()}
        title = "log of the learned diagonal star over the textbook's; border: on edges between two parts"
        self.tables[title] = found.rows()

    def attention(self, head: int, element: Any, pick: int | None, functions: int) -> None:
        """H blocks: attention around an element, the reach of the stars, and eigenfunctions."""
        from hodgeformer.base.containers import ELEMENT_NAMES, KIND_OF
        from hodgeformer.lab.study.operator_report import study_operators

        found = study_operators(
            self.predictor.model,
            self.mesh,
            self.predictor.info.prepare,
            layer=self.layer,
            head=head,
            kind=None if element is None else KIND_OF[element],
            picked=pick,
            n_functions=functions,
        )
        stars, eigenvalues = found.star_rows(), found.eigenvalue_rows()
        about = {"layer": found.layer, "head": head, "element": ELEMENT_NAMES[found.kind], "picked": found.picked}
        self.content |= {**about, "stars": stars, "eigenvalues": eigenvalues}
        self.arrays |= found.arrays()
        self.tables |= {f"stars of layer {found.layer}, head {head}": stars, "eigenvalues": eigenvalues}

    def write(self, out: Path, *, as_json: bool) -> None:
        import numpy as np

        files = [out / "operators.json"]
        write_json(files[0], self.content)
        if self.arrays:
            files.append(out / "operators.npz")
            np.savez_compressed(files[1], **self.arrays)
        conclude(self.content, self.tables, files, as_json=as_json)
