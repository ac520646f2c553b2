"""Fine-tune `human` to your own parts with 10 labeled meshes: here head, limbs and trunk.

The new model starts from the weights of the bundled one, with a new last layer for your classes.
"""

from pathlib import Path

import numpy as np

import hodgeformer as hf
from hodgeformer.data.figures import PARTS, figure

COARSE = ("head", "trunk", "limb")
COARSE_OF = np.array([COARSE.index({"head": "head", "torso": "trunk"}.get(part, "limb")) for part in PARTS])


def main(folder: Path, *, n_train: int = 10, n_test: int = 4, n_faces: int = 1500, **settings: object) -> hf.Outcome:
    def labeled(seed: int) -> tuple[hf.Mesh, np.ndarray]:
        mesh, labels = figure(np.random.default_rng(seed), n_faces=n_faces, name=f"body-{seed}")
        return mesh, COARSE_OF[labels]

    numbers = {"train": range(n_train), "test": range(100, 100 + n_test)}
    divided = {split: [labeled(seed) for seed in seeds] for split, seeds in numbers.items()}
    run = hf.train(hf.open_dataset(divided, classes=COARSE), folder / "run", start="human", **settings)
    print(run)
    for row in run.scores.per_class():
        print(f"{row['class']:>6}: IoU {row['iou']:.3f}")
    return run


if __name__ == "__main__":
    main(Path("example-fine-tune"), minutes=2)
