"""The public benchmarks, each in the folder layout and the splits of its distribution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import SPLITS, DataSet, Sample
from hodgeformer.data.label_files import COUNTED, read_labels
from hodgeformer.data.labels import Codes, LabelFile, WholeMesh
from hodgeformer.mesh.io import MESH_SUFFIXES

HUMAN_PARTS = ("head", "hand", "lower_arm", "upper_arm", "torso", "upper_leg", "lower_leg", "foot")
HUMAN_FAMILIES = ("MIT_animation", "adobe", "faust", "scape", "shrec")
CosegPart = Literal["vases", "chairs", "aliens"]
COSEG_PARTS: dict[CosegPart, int] = {"vases": 4, "chairs": 3, "aliens": 4}
# Per-face labels first; .eseg files of the same archive contain them per edge, in some archives also per face.
_LABEL_FILES = ("fseg/{}.fseg", "seg/{}.seg", "seg/{}.txt", "seg/{}.fseg", "seg/{}.eseg")


def open_coseg(root: Path, *, part: CosegPart | None = None) -> DataSet:
    """COSEG: vases, chairs or aliens with three or four parts.

    `root` is the folder of one of them (`coseg_vases`, `vases`, ...), or its parent.
    """
    part = part or coseg_part(root)
    if part is None:
        raise DataError(f"{root}: set `part` to one of {', '.join(COSEG_PARTS)}, or name the folder after it")
    candidates = (root, root / f"coseg_{part}", root / part, root / f"coseg-{part}")
    folder = next((folder for folder in candidates if is_part_labels(folder)), None)
    if folder is None:
        raise DataError(f"{root}: expected train/, test/ and seg/ in this folder or in coseg_{part}/ or {part}/")
    classes = tuple(f"part_{i + 1}" for i in range(COSEG_PARTS[part]))
    return open_parts(folder, f"COSEG {part}", classes)


def coseg_part(root: Path) -> CosegPart | None:
    """The set that a folder is named after."""
    return next((part for part in COSEG_PARTS if part in root.resolve().name.lower()), None)


def open_rna(root: Path) -> DataSet:
    """RNA surfaces: one label per vertex, about 260 classes of which a molecule contains some, -1 is unlabeled.

    The files are `off/*.off`, `labels/*.txt`, and the lists `train.txt` and `test.txt`. The classes are the numbers
    that occur in the label files.
    """
    label_paths = sorted((root / "labels").glob("*.txt"))
    if not label_paths:
        raise DataError(f"{root / 'labels'}: no label files (*.txt)")
    numbers = {int(number) for path in label_paths for number in set(read_labels(path).values.tolist())}
    codes = Codes(tuple(sorted(number for number in numbers if number >= 0)))

    def sample(stem: str) -> Sample:
        return Sample(stem, root / "off" / f"{stem}.off", LabelFile(root / "labels" / f"{stem}.txt", "v", "v", codes))

    lists = {split: root / f"{split}.txt" for split in ("train", "test")}
    stems = {split: path.read_text(encoding="utf-8").split() for split, path in lists.items() if path.is_file()}
    splits = {split: tuple(sample(Path(name).stem) for name in names) for split, names in stems.items() if names}
    if not splits:
        raise DataError(f"{root}: train.txt (one file name per line) is missing or empty")
    return DataSet("RNA", "segmentation", "vertex", splits, tuple(str(code) for code in codes.codes))


def human_family(name: str) -> str:
    """The source of a mesh, from its name: meshes of one source are far more similar to each other than to others."""
    found = next((family for family in HUMAN_FAMILIES if name.startswith(family)), None)
    return found or name.split("__", maxsplit=1)[0]


def human_person(name: str) -> str:
    """The person in a mesh, from its name: FAUST has ten people in ten poses, SCAPE one, Adobe one per mesh.

    MIT has three people, but names only contain the motion; each motion counts as a person.
    """
    source = human_family(name)
    if source == "adobe":
        return name
    if source == "faust":
        number = name.rsplit("_", maxsplit=1)[-1]
        return f"{source} {int(number) // 10}" if number.isdigit() else source
    return name.split("__")[1] if source == "MIT_animation" else source


def is_part_labels(root: Path) -> bool:
    """Whether a folder has the layout of Human and COSEG."""
    return (root / "seg").is_dir() or (root / "fseg").is_dir()


def open_parts(
    root: Path, name: str, classes: tuple[str, ...], *, group: Callable[[str], str] = lambda name: ""
) -> DataSet:
    """The layout of Human and COSEG: meshes in `train/` and `test/`, one label file per mesh beside them.

    Labels of edges are transferred to faces by majority. The soft edge labels of `sseg/` are not used: they are a way
    to score, not a ground truth. Labels count from one, or from zero if a zero occurs. `group` returns the source of a
    mesh from its name.
    """
    # Some distributions have no splits: everything is for training.
    meshes = [(folder, path) for folder in (*SPLITS, "shapes") for path in _meshes(root / folder)]
    if not meshes:
        raise DataError(f"{root}: no meshes in {', '.join(SPLITS)} or shapes; pass the folder that contains these")
    files = [_label_file(root, path.stem) for _, path in meshes]
    codes = Codes.counted_from(0 if any(map(_has_zero, files)) else 1, len(classes))
    splits: dict[str, list[Sample]] = {}
    for (folder, path), file in zip(meshes, files, strict=True):
        target = LabelFile(file, COUNTED.get(file.suffix, "f"), "f", codes)
        sample = Sample(path.stem, path, target, group(path.stem))
        splits.setdefault(folder if folder in SPLITS else "train", []).append(sample)
    divided = {split: tuple(samples) for split, samples in splits.items()}
    return DataSet(name, "segmentation", "face", divided, classes)


def _label_file(root: Path, stem: str) -> Path:
    """The label file, or if it is missing the expected name, which is reported when it is read."""
    candidates = [root / name.format(stem) for name in _LABEL_FILES]
    return next((path for path in candidates if path.is_file()), candidates[0])


def _has_zero(path: Path) -> bool:
    try:
        return bool((read_labels(path).values == 0).any())
    except DataError:  # reported later with its mesh
        return False


def open_classes(root: Path, name: str, n_classes: int) -> DataSet:
    """The layout `<class>/{train,test}/*.obj`: classes are the folders, sorted, and meshes are `<class>/<stem>`."""
    if not root.is_dir():
        raise DataError(f"{root}: the folder does not exist")
    folders = [child for child in sorted(root.iterdir()) if any((child / split).is_dir() for split in SPLITS)]
    if not folders:
        raise DataError(
            f"{root}: expected folders <class>/train and <class>/test with meshes; pass the folder that contains them"
        )
    splits = {
        split: tuple(
            Sample(f"{folder.name}/{path.stem}", path, WholeMesh(label))
            for label, folder in enumerate(folders)
            for path in _meshes(folder / split)
        )
        for split in SPLITS
    }
    found = {split: samples for split, samples in splits.items() if samples}
    few = f"found {len(folders)} of the {n_classes} classes of {name} in {root}"
    notes = (few,) if len(folders) < n_classes else ()
    return DataSet(name, "classification", "mesh", found, tuple(folder.name for folder in folders), notes=notes)


def _meshes(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if path.suffix.lower() in MESH_SUFFIXES]
