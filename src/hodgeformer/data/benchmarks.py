"""The public benchmarks, each from the folder layout in which it is distributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hodgeformer.containers import KIND_OF, Element, ElementKind
from hodgeformer.data.dataset import SPLITS, DataSet, Sample
from hodgeformer.data.labels import Codes, LabelFile, WholeMesh, read_integers
from hodgeformer.data.splits import Splits, by_folder, by_fractions, by_number
from hodgeformer.errors import DataError
from hodgeformer.mesh.io import MESH_SUFFIXES

HUMAN_PARTS = ("head", "hand", "lower_arm", "upper_arm", "torso", "upper_leg", "lower_leg", "foot")
HUMAN_FAMILIES = ("MIT_animation", "adobe", "faust", "scape", "shrec")
CosegPart = Literal["vases", "chairs", "aliens"]
COSEG_PARTS: dict[CosegPart, int] = {"vases": 4, "chairs": 3, "aliens": 4}
LabelVersion = Literal["face", "edge"]
_MESH_FOLDERS = {"shapes": "train"}  # some distributions do not split: everything is for training


def open_shrec11(root: Path, *, train_per_class: int | None = 10, val_per_class: int = 0, seed: int = 0) -> DataSet:
    """SHREC11: 30 classes of 20 shapes. Split-n: n meshes of each class, drawn with the seed, train, val_per_class
    validate and the rest tests.

    The folders train and test of the distribution are merged first; with train_per_class = None they are the splits.
    """
    classes, samples = _class_folders(root)
    if train_per_class is None:
        splits = _own_splits(samples, root)
    else:
        numbers = {"train": train_per_class} | ({"val": val_per_class} if val_per_class else {})
        splits = by_number(samples, numbers, rest="test", seed=seed)
    return DataSet("SHREC11", "classification", "mesh", splits, classes)


def open_cubes(root: Path, *, val_fraction: float = 0.0, seed: int = 0) -> DataSet:
    """Cube Engraving: cubes with one of 22 shapes pressed into a side; the splits are those of the distribution.

    `val_fraction` of the training meshes, drawn with the seed from every class, are set aside to validate.
    """
    classes, samples = _class_folders(root)
    splits = _with_validation(_own_splits(samples, root), val_fraction, seed)
    return DataSet("Cube Engraving", "classification", "mesh", splits, classes)


def open_human(
    root: Path,
    *,
    labels: LabelVersion = "face",
    element: Element = "face",
    hold_out: Sequence[str] = (),
    val_fraction: float = 0.0,
    even_people: bool = False,
    seed: int = 0,
) -> DataSet:
    """Human: bodies from several sources with eight parts, labels per edge or per face; the splits of the distribution.

    A validation split is cut from the training meshes if asked for. `hold_out` names families, or longer beginnings of
    names such as one motion, that validate; `val_fraction` draws from all of them. The first is the honest estimate:
    frames of one motion are nearly copies of each other. `even_people` repeats the training meshes of people that are
    shown rarely.
    """
    splits = _part_labels(root, n_classes=len(HUMAN_PARTS), labels=labels, element=element)
    if hold_out and val_fraction:
        raise DataError("give hold_out or val_fraction, not both")
    if hold_out:
        train = splits.get("train", ())
        held = tuple(sample for sample in train if sample.name.startswith(tuple(hold_out)))
        if not held or len(held) == len(train):
            found = sorted({human_family(sample.name) for sample in train})
            raise DataError(f"hold_out = {list(hold_out)} takes {len(held)} of {len(train)} meshes; there are {found}")
        splits |= {"train": tuple(sample for sample in train if sample not in held), "val": held}
    splits = _with_validation(splits, val_fraction, seed)
    if even_people:
        splits |= {"train": evened(splits["train"])}
    return DataSet("Human", "segmentation", element, splits, HUMAN_PARTS)


def human_family(name: str) -> str:
    """The source of a mesh, by its name: meshes of one source resemble each other far more than others."""
    found = next((family for family in HUMAN_FAMILIES if name.startswith(family)), None)
    return found or name.split("__", maxsplit=1)[0]


def human_person(name: str) -> str:
    """Who a mesh shows, by its name: FAUST has ten people in ten poses, SCAPE one, Adobe one per mesh.

    MIT has three people; a name tells its motion only, and that counts as one.
    """
    source = human_family(name)
    if source == "adobe":
        return name
    if source == "faust":
        return f"{source} {int(name.rsplit('_', maxsplit=1)[1]) // 10}"
    return name.split("__")[1] if source == "MIT_animation" else source


def evened(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Meshes of people that are shown rarely are repeated, so that a person counts by the root of their meshes."""
    meshes = Counter(human_person(sample.name) for sample in samples)
    most = max(meshes.values(), default=1)
    times = [max(round((most / meshes[human_person(sample.name)]) ** 0.5), 1) for sample in samples]
    return tuple(
        replace(sample, name=f"{sample.name}#{i}") if i else sample
        for sample, n in zip(samples, times, strict=True)
        for i in range(n)
    )


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
    """COSEG: vases, chairs or aliens with three or four parts, labels per edge or per face.

    `root` is the folder of one of them, or the one above it (`coseg_vases`, `vases`, ...). A distribution without a
    test folder has test_fraction of its meshes drawn for it with the seed.
    """
    part = part or coseg_part(root)
    if part is None:
        raise DataError(f"{root}: which of {', '.join(COSEG_PARTS)}? Set `part`, or name the folder after it")
    candidates = (root, root / f"coseg_{part}", root / part, root / f"coseg-{part}")
    folder = next((folder for folder in candidates if is_part_labels(folder)), None)
    if folder is None:
        raise DataError(f"{root}: expected train/, test/ and seg/ here or in coseg_{part}/ or {part}/")
    splits = _part_labels(folder, n_classes=COSEG_PARTS[part], labels=labels, element=element)
    splits = _with_validation(_with_test(splits, test_fraction, seed), val_fraction, seed)
    classes = tuple(f"part_{i + 1}" for i in range(COSEG_PARTS[part]))
    return DataSet(f"COSEG {part}", "segmentation", element, splits, classes)


def coseg_part(root: Path) -> CosegPart | None:
    """Which of the sets a folder is named after."""
    return next((part for part in COSEG_PARTS if part in root.resolve().name.lower()), None)


def open_rna(root: Path, *, val_fraction: float = 0.0, test_fraction: float = 0.2, seed: int = 0) -> DataSet:
    """RNA surfaces: one label per vertex, about 260 classes of which a molecule shows a part, -1 is unlabelled.

    `off/*.off`, `labels/*.txt`, and the lists `train.txt` and `test.txt`. The classes are the numbers that occur in the
    label files, named by them. Without a list of test meshes, test_fraction of the training meshes is drawn for it with
    the seed.
    """
    label_paths = sorted((root / "labels").glob("*.txt"))
    if not label_paths:
        raise DataError(f"{root / 'labels'}: no label files (*.txt) found")
    codes = Codes(tuple(sorted({int(c) for path in label_paths for c in set(read_integers(path).tolist()) if c >= 0})))
    splits: Splits = {}
    for split in ("train", "test"):
        path = root / f"{split}.txt"
        stems = [Path(name).stem for name in path.read_text(encoding="utf-8").split()] if path.is_file() else []
        if stems:
            splits[split] = tuple(_rna_sample(root, stem, codes) for stem in stems)
    if not splits:
        raise DataError(f"{root}: train.txt (one file name per line) is missing or empty")
    splits = _with_validation(_with_test(splits, test_fraction, seed), val_fraction, seed)
    return DataSet("RNA", "segmentation", "vertex", splits, tuple(str(code) for code in codes.codes))


def is_part_labels(root: Path) -> bool:
    """Whether a folder is laid out as Human and COSEG are."""
    return (root / "seg").is_dir() or (root / "fseg").is_dir()


def is_rna(root: Path) -> bool:
    return (root / "off").is_dir() and (root / "labels").is_dir()


def is_class_folders(root: Path) -> bool:
    """Whether sub-folders hold `train` or `test` folders, as SHREC11 and Cube Engraving have them."""
    return root.is_dir() and any((child / split).is_dir() for child in root.iterdir() for split in SPLITS)


def _part_labels(root: Path, *, n_classes: int, labels: LabelVersion, element: Element) -> Splits:
    """The layout of Human and COSEG: meshes in `train/` and `test/`, one label file per mesh beside them.

    Labels per edge are `seg/*.eseg`, per face `fseg/*.fseg` or any text file in `seg/`; those of version `labels` are
    carried to `element` by majority. The soft edge labels of `sseg/` are not used: they are a way to score, not a
    ground truth. Labels count from one.
    """
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


def _class_folders(root: Path) -> tuple[tuple[str, ...], list[Sample]]:
    """The layout `<class>/{train,test}/*.obj`: class names (the folders, sorted), and meshes named `<class>/<stem>`."""
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder")
    folders = [child for child in sorted(root.iterdir()) if any((child / split).is_dir() for split in SPLITS)]
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


def _own_splits(samples: list[Sample], root: Path) -> Splits:
    """The splits of the distribution, as far as they are there."""
    splits = by_folder(samples, root, {split: split for split in SPLITS})
    return {name: members for name, members in splits.items() if members}


def _with_test(splits: Splits, fraction: float, seed: int) -> Splits:
    if "test" in splits:
        return splits
    return splits | by_fractions(splits["train"], {"train": 1 - fraction, "test": fraction}, seed)


def _with_validation(splits: Splits, fraction: float, seed: int) -> Splits:
    if not fraction or "train" not in splits:
        return splits
    return splits | by_fractions(splits["train"], {"train": 1 - fraction, "val": fraction}, seed)


def _rna_sample(root: Path, stem: str, codes: Codes) -> Sample:
    labels = LabelFile(root / "labels" / f"{stem}.txt", "v", "v", codes)
    return Sample(stem, root / "off" / f"{stem}.off", labels)
