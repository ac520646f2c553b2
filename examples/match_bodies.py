"""Match two bodies by the features of `human`: each vertex to its nearest neighbor in feature space.

Each vertex of the second body takes the color of its match on the first. Where the matching is correct, the same place
has the same color on both.
"""

from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

import hodgeformer as hf
from hodgeformer.data.figures import figure
from hodgeformer.draw.render import render, save_png


def main(folder: Path, *, n_faces: int = 3000) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    bodies = [figure(np.random.default_rng(seed), n_faces=n_faces, name=f"body-{seed}")[0] for seed in (3, 8)]
    predictor = hf.Predictor.load("human")
    features = [predictor.features(body, "vertex") for body in bodies]

    # Columns differ in scale, so each is standardized within its body.
    features = [(x - x.mean(axis=0)) / x.std(axis=0) for x in features]
    _, match = cKDTree(features[0]).query(features[1])

    first = bodies[0].vertices
    low, high = first.min(axis=0), first.max(axis=0)
    colors = (55 + 200 * (first - low) / (high - low)).astype(np.uint8)
    for body, painted in zip(bodies, (colors, colors[match]), strict=True):
        hf.save_mesh(body, folder / f"{body.name}.ply", vertex_colors=painted)
        save_png(render(body, vertex_colors=painted, title=body.name), folder / f"{body.name}.png")

    parts = [predictor.predict(body, element="vertex").labels for body in bodies]
    print(f"{np.mean(parts[0][match] == parts[1]):.1%} of the vertices are matched within their part")
    return match


if __name__ == "__main__":
    main(Path("example-match"))
