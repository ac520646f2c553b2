"""Look at what a model has learned in place of the Hodge star: its stars as matrices, and the Laplacian they make.

`hodgeformer study operators MODEL MESH` writes all of it; here are the parts, to go on from.
"""

from pathlib import Path

import numpy as np

import hodgeformer as hf
from hodgeformer.data.figures import figure
from hodgeformer.draw.colormap import field_colors
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.mesh.pose import up_from_shape
from hodgeformer.predict.operators import eigenpairs, head_operators


def main(folder: Path, *, n_faces: int = 500, n_functions: int = 4) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    mesh, _ = figure(np.random.default_rng(0), n_faces=n_faces, name="figure")
    predictor = hf.Predictor.load("shrec11")
    prepared = hf.prepare(mesh, predictor.checkpoint.prepare)
    operators = head_operators(predictor.model, prepared, layer=None, head=1)  # of the last H block

    for name, star in operators.stars["v"].items():
        near = star.diagonal().mean()
        print(f"{name}: {star.nnz / star.shape[0]:.0f} entries in a row, of which an element itself has {near:.1%}")

    found = eigenpairs(operators.laplacian("v"), n_functions, "largest")
    functions = prepared.to_file_order(found.functions.real, "v")
    pictures = []
    for value, function in zip(found.values, functions.T, strict=True):
        colors = field_colors(function)
        pictures.append(
            render(mesh, vertex_colors=colors, title=f"L_v, eigenvalue {value.real:.3g}", up=up_from_shape(mesh))
        )
    save_png(stacked(pictures), folder / "eigenfunctions.png")
    return found.values


if __name__ == "__main__":
    main(Path("example-operators"))
