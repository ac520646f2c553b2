"""The layout of Human and COSEG: meshes in `train/` and `test/`, one label file per mesh beside them.

Labels per edge are `seg/*.eseg`, per face `fseg/*.fseg` or any text file in `seg/`. The soft edge labels of `sseg/` are
not used: they are a way to score, not a ground truth. Labels count from one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hodgeformer.containers import KIND_OF, Element, ElementKind
from hodgeformer.data.dataset import SPLITS, Sample
from hodgeformer.data.labels import Codes, LabelFile
from hodgeformer.data.splits import Splits
from hodgeformer.errors import DataError
from hodgeformer.mesh.io import MESH_SUFFIXES

LabelVersion = Literal["face", "edge"]
_MESH_FOLDERS = {"shapes": "train"}  # some distributions do not split: everything is for training


def is_part_labels(root: Path) -> bool:
    return (root / "seg").is_dir() or (root / "fseg").is_dir()


def read_part_labels(root: Path, *, n_classes: int, labels: LabelVersion, element: Element) -> Splits:
    """The splits of the distribution. Labels of version `labels` are carried to `element` by majority."""
    codes = Codes.counted_from(1, n_classes)
    splits: Splits = {}
    for folder, split in ({name: name for name in SPLITS} | _MESH_FOLDERS).items():
        paths = [path for path in sorted((root / folder).glob("*")) if path.suffix.lower() in MESH_SUFFIXES]
        samples = []
        for path in paths:
            file, stored = _label_file(root, path.stem, labels)
            samples.append(Sample(path.stem, path, LabelFile(file, stored, KIND_OF[element], codes)))
        if samples:
            splits[split] = (*splits.get(split, ()), *samples)
    if not splits:
        raise DataError(f"{root}: no meshes in {', '.join([*SPLITS, *_MESH_FOLDERS])}; give the folder above them")
    return splits


def _label_file(root: Path, stem: str, labels: LabelVersion) -> tuple[Path, ElementKind]:
    """The file and what it counts. Where it is missing, the name it should have: reading it says so."""
    edges = root / "seg" / f"{stem}.eseg"
    if labels == "edge":
        return edges, "e"
    candidates = [root / "fseg" / f"{stem}.fseg", *(root / "seg" / f"{stem}{end}" for end in (".seg", ".txt", ".fseg"))]
    found = next((path for path in candidates if path.is_file()), None)
    if found is not None:
        return found, "f"
    return (edges, "e") if edges.is_file() else (candidates[0], "f")
