"""Your own meshes and labels, as arrays in memory, to a trained model and a colored prediction.

Here the "own" meshes are figures that the package makes; put your arrays, trimesh or files in their place.
"""

from pathlib import Path

import numpy as np

import hodgeformer as hf
from hodgeformer.data.figures import PARTS, figure


def main(folder: Path, *, n_meshes: int = 40, **settings: object) -> hf.Outcome:
    pairs = []
    for seed in range(n_meshes):
        mesh, labels = figure(np.random.default_rng(seed), n_faces=500, name=f"figure-{seed}")
        pairs.append(((mesh.vertices, mesh.faces), labels))  # (vertices, faces), and a class number for each face

    dataset = hf.open_dataset(pairs, classes=PARTS, split={"train": 0.8, "val": 0.1, "test": 0.1})
    run = hf.train(dataset, folder / "run", callbacks=[print], **settings)
    print(run)

    new_mesh, _ = figure(np.random.default_rng(1000), n_faces=900, name="new")
    result = run.predictor().predict(new_mesh, smooth=True)
    result.save(folder / "new.ply")
    result.save(folder / "new.png")
    print(result)
    return run


if __name__ == "__main__":
    main(Path("example-own-data"), minutes=2)
