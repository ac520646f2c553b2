"""COSEG: vases, chairs and aliens with three or four parts, labels per edge or per face."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hodgeformer.containers import Element
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.part_labels import LabelVersion, is_part_labels, read_part_labels
from hodgeformer.data.splits import by_fractions
from hodgeformer.errors import DataError

CosegPart = Literal["vases", "chairs", "aliens"]
N_PARTS: dict[CosegPart, int] = {"vases": 4, "chairs": 3, "aliens": 4}


def open_coseg(
    root: Path,
    *,
    part: CosegPart | None = None,
    labels: LabelVersion = "face",
    element: Element = "face",
    val_fraction: float = 0.0,
    test_fraction: float = 0.15,
    seed: int = 0,
) -> DataSet:
    """One of the three sets. `root` is its folder, or the one above it (`coseg_vases`, `vases`, ...).

    A distribution without a test folder has test_fraction of its meshes drawn for it with the seed.
    """
    part = part or _part_of(root)
    folder = root if is_part_labels(root) else next((f for f in _candidates(root, part) if is_part_labels(f)), None)
    if folder is None:
        raise DataError(f"{root}: expected train/, test/ and seg/ here or in coseg_{part}/ or {part}/")
    splits = read_part_labels(folder, n_classes=N_PARTS[part], labels=labels, element=element)
    if "test" not in splits:
        splits |= by_fractions(splits["train"], {"train": 1 - test_fraction, "test": test_fraction}, seed)
    if val_fraction:
        splits |= by_fractions(splits["train"], {"train": 1 - val_fraction, "val": val_fraction}, seed)
    classes = tuple(f"part_{i + 1}" for i in range(N_PARTS[part]))
    return DataSet(f"COSEG {part}", "segmentation", element, splits, classes)


def _part_of(root: Path) -> CosegPart:
    found = next((part for part in N_PARTS if part in root.resolve().name.lower()), None)
    if found is None:
        raise DataError(f"{root}: which of {', '.join(N_PARTS)}? Set `part`, or name the folder after it")
    return found


def _candidates(root: Path, part: CosegPart) -> tuple[Path, ...]:
    return root / f"coseg_{part}", root / part, root / f"coseg-{part}"
