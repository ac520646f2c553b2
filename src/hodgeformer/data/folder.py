"""Anyone's data set: a folder with meshes, labels and a `dataset.toml` that says how they belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tomli_w

from hodgeformer.data.dataset import SPLITS, DataSet, Sample
from hodgeformer.data.folder_spec import FILE_NAME, SplitRules, read_spec
from hodgeformer.data.folder_targets import class_targets, label_targets, n_values, value_targets
from hodgeformer.data.labels import WholeMesh
from hodgeformer.data.splits import Splits, by_folder, by_fractions, by_name
from hodgeformer.errors import DataError
from hodgeformer.mesh.io import MESH_SUFFIXES, save_mesh
from hodgeformer.palette import hex_color
from hodgeformer.settings import Table

_ENOUGH = 30  # training meshes, to spare some for validation


def open_folder(root: Path) -> DataSet:
    """The data set described by `root/dataset.toml`."""
    spec = read_spec(root)
    meshes = _find_meshes(root, spec.meshes)
    if spec.task == "classification":
        classes, targets = class_targets(root, spec, meshes)
    elif spec.task == "segmentation":
        classes, targets = spec.classes, label_targets(root, spec, meshes)
    else:
        classes, targets = (), value_targets(root, spec, meshes)
    samples = [Sample(name, path, targets[name]) for name, path in meshes.items()]
    return DataSet(
        name=spec.name or root.resolve().name,
        task=spec.task,
        element=spec.target_element,
        classes=classes,
        colors=spec.colors,
        n_values=n_values(targets) if spec.task == "regression" else 1,
        splits=_with_validation(_split(samples, spec.split, root), spec.split),
    )


def _find_meshes(root: Path, where: str) -> dict[str, Path]:
    """Name -> file. A name is the path below the folder (or the fixed part of the glob) without the suffix."""
    is_glob = any(sign in where for sign in "*?[")
    base, pattern = root / where, "**/*"
    if is_glob:
        parts = Path(where).parts
        fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
        base, pattern = root.joinpath(*parts[:fixed]), "/".join(parts[fixed:])
    if not base.is_dir():
        raise DataError(f"{root / FILE_NAME}: meshes = '{where}', but there is no folder {base}")
    meshes: dict[str, Path] = {}
    for path in sorted(base.glob(pattern)):
        if path.suffix.lower() not in MESH_SUFFIXES or not path.is_file():
            continue
        name = path.relative_to(base).with_suffix("").as_posix()
        if name in meshes:
            raise DataError(f"{path} and {meshes[name].name} would share one name; keep only one of them")
        meshes[name] = path
    if not meshes:
        raise DataError(f"{base}: no meshes found ({', '.join(MESH_SUFFIXES)})")
    return meshes


def _split(samples: list[Sample], rules: SplitRules, root: Path) -> Splits:
    given = rules.given
    if not given:
        found = by_folder(samples, root, {name: name for name in SPLITS})
        if any(found.values()):
            return {name: members for name, members in found.items() if members}
        given = {"train": 0.8, "test": 0.2}
    fractions = {name: float(rule) for name, rule in given.items() if isinstance(rule, (int, float))}
    folders = {name: rule for name, rule in given.items() if isinstance(rule, str)}
    splits = by_folder(samples, root, folders) if folders else {}
    splits |= {name: by_name(samples, rule) for name, rule in given.items() if isinstance(rule, list)}
    taken = {sample.name for members in splits.values() for sample in members}
    if fractions:
        splits |= by_fractions([s for s in samples if s.name not in taken], fractions, rules.seed)
    if given.get("val") == 0:
        splits.pop("val")
    for name, members in splits.items():
        if not members:
            raise DataError(f"{root / FILE_NAME}: split '{name}' = {given[name]!r} is empty; it has no meshes")
    return {name: splits[name] for name in SPLITS if name in splits}


def _with_validation(splits: Splits, rules: SplitRules) -> Splits:
    """Where enough meshes train and nothing else was said, a tenth of them validates and calibrates.

    Of every class alike; without classes a run of neighbors by name: these are often of one source, such as the frames
    of one motion, and divided they would flatter. `val = 0` leaves all meshes to training.
    """
    train = splits.get("train", ())
    if rules.val is not None or "val" in splits or len(train) < _ENOUGH:
        return splits
    if isinstance(train[0].target, WholeMesh) and isinstance(train[0].target.value, int):
        return splits | by_fractions(train, {"train": 0.9, "val": 0.1}, rules.seed)
    n = len(train) // 10
    first = n * int(np.random.default_rng(rules.seed).integers(10))
    ordered = sorted(train, key=lambda sample: sample.name)
    held, names = tuple(ordered[first : first + n]), {sample.name for sample in ordered[first : first + n]}
    divided = {**splits, "train": tuple(s for s in train if s.name not in names), "val": held}
    return {name: divided[name] for name in SPLITS if name in divided}


def write_folder(dataset: DataSet, root: Path, *, suffix: str = ".ply") -> None:
    """Any data set as a folder that `open_folder` reads back unchanged.

    Meshes below `meshes/`, targets below `labels/` (or `labels.csv` for targets of whole meshes), dataset.toml.
    """
    if (root / FILE_NAME).exists():
        raise DataError(f"{root} already holds a data set; give an empty folder")
    rows = []
    for sample in dataset.samples:
        mesh, target = dataset.load(sample)
        path = root / "meshes" / f"{sample.name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_mesh(mesh, path)
        if dataset.kind is None:
            values = [dataset.classes[int(target[0])]] if dataset.classes else [repr(float(x)) for x in target[0]]
            rows.append(",".join([sample.name, *values]))
            continue
        label_path = root / "labels" / f"{sample.name}.txt"
        label_path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(label_path, target, fmt="%d" if dataset.classes else "%.9g")
    if rows:
        (root / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (root / FILE_NAME).write_text(tomli_w.dumps(_spec_of(dataset)), encoding="utf-8")


def _spec_of(dataset: DataSet) -> Table:
    spec: Table = {"name": dataset.name, "task": dataset.task}
    if dataset.kind is not None:
        spec["element"] = dataset.element
    if dataset.classes:
        spec["classes"] = dataset.classes
        spec["colors"] = [hex_color(color) for color in dataset.colors]
    spec["meshes"] = "meshes"
    spec["labels"] = "labels" if dataset.kind is not None else "labels.csv"
    named = {split: [sample.name for sample in samples] for split, samples in dataset.splits.items()}
    spec["split"] = named if "val" in named else {**named, "val": 0.0}
    return spec
