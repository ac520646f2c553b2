"""RNA surfaces: one label per vertex, about 260 classes of which a molecule shows a part, -1 is unlabelled."""

from __future__ import annotations

from pathlib import Path

from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Codes, LabelFile, read_integers
from hodgeformer.data.splits import Splits, by_fractions
from hodgeformer.errors import DataError


def is_rna(root: Path) -> bool:
    return (root / "off").is_dir() and (root / "labels").is_dir()


def open_rna(root: Path, *, val_fraction: float = 0.0, test_fraction: float = 0.2, seed: int = 0) -> DataSet:
    """`off/*.off`, `labels/*.txt`, and the lists `train.txt` and `test.txt`.

    The classes are the numbers that occur in the label files, named by them. Without a list of test meshes,
    test_fraction of the training meshes is drawn for it with the seed.
    """
    splits_by_name = {name: _read_list(root / f"{name}.txt") for name in ("train", "test")}
    label_paths = sorted((root / "labels").glob("*.txt"))
    if not label_paths:
        raise DataError(f"{root / 'labels'}: no label files (*.txt) found")
    codes = Codes(tuple(sorted({int(c) for path in label_paths for c in set(read_integers(path).tolist()) if c >= 0})))
    splits: Splits = {}
    for split, names in splits_by_name.items():
        samples = [_sample(root, Path(name).stem, codes) for name in names]
        if samples:
            splits[split] = tuple(samples)
    if "train" not in splits and "test" not in splits:
        raise DataError(f"{root}: train.txt (one file name per line) is missing or empty")
    if "test" not in splits:
        splits |= by_fractions(splits["train"], {"train": 1 - test_fraction, "test": test_fraction}, seed)
    if val_fraction:
        splits |= by_fractions(splits["train"], {"train": 1 - val_fraction, "val": val_fraction}, seed)
    return DataSet("RNA", "segmentation", "vertex", splits, tuple(str(code) for code in codes.codes))


def _sample(root: Path, stem: str, codes: Codes) -> Sample:
    labels = LabelFile(root / "labels" / f"{stem}.txt", "v", "v", codes)
    return Sample(stem, root / "off" / f"{stem}.off", labels)


def _read_list(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split() if path.is_file() else []
