"""The layout `<class>/{train,test}/*.obj`, in which SHREC11 and Cube Engraving are distributed."""

from __future__ import annotations

from pathlib import Path

from hodgeformer.data.dataset import SPLITS, Sample
from hodgeformer.data.labels import WholeMesh
from hodgeformer.data.splits import Splits, by_folder
from hodgeformer.errors import DataError
from hodgeformer.mesh.io import MESH_SUFFIXES


def is_class_folders(root: Path) -> bool:
    """Whether sub-folders hold `train` or `test` folders."""
    return root.is_dir() and any((child / split).is_dir() for child in root.iterdir() for split in SPLITS)


def read_class_folders(root: Path) -> tuple[tuple[str, ...], list[Sample]]:
    """Class names (the folders, sorted) and all meshes of all their splits, named `<class>/<stem>`."""
    folders = [root / name for name in sorted(_sub_folders(root)) if is_class_folder(root / name)]
    if not folders:
        raise DataError(
            f"{root}: expected folders <class>/train and <class>/test with meshes; give the folder above them"
        )
    samples = []
    for label, folder in enumerate(folders):
        for split in SPLITS:
            for path in sorted((folder / split).glob("*")):
                if path.suffix.lower() in MESH_SUFFIXES:
                    samples.append(Sample(f"{folder.name}/{path.stem}", path, WholeMesh(label)))
    return tuple(folder.name for folder in folders), samples


def is_class_folder(folder: Path) -> bool:
    return any((folder / split).is_dir() for split in SPLITS)


def own_splits(samples: list[Sample], root: Path) -> Splits:
    """The splits of the distribution, as far as they are there."""
    splits = by_folder(samples, root, {split: split for split in SPLITS})
    return {name: members for name, members in splits.items() if members}


def _sub_folders(root: Path) -> list[str]:
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder")
    return [child.name for child in root.iterdir() if child.is_dir()]
