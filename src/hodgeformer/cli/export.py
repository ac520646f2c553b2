"""`hodgeformer export`: a trained model as an ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hodgeformer.cli.results import ModelArgument


def export(
    model: ModelArgument,
    to: Annotated[Literal["onnx"], typer.Option(help="The format.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The file; by default NAME.onnx in the current folder.")] = None,
) -> None:
    """Write a model as an ONNX graph.

    The graph is checked against PyTorch on meshes of three sizes.
    """
    from hodgeformer.export.export import export as write
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.predict.pretrained import SUFFIX as CHECKPOINT_SUFFIX

    checkpoint = Predictor.load(model, "cpu").checkpoint
    name = Path(model).resolve().name.removesuffix(CHECKPOINT_SUFFIX)
    path = out or Path(f"{name}.onnx")
    found = write(checkpoint, path)
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    answers = "values" if checkpoint.model.task == "regression" else "probabilities"
    for parity in found:
        print(f"{parity.n_faces:>7,} faces: {answers} differ from PyTorch by at most {parity.answer:.1e}")
    print(f"largest difference {max(parity.answer for parity in found):.1e}")
