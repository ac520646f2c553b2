"""Your own data set: a folder with meshes, labels and a `dataset.toml` that describes them."""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from hodgeformer.base.containers import KIND_OF, ElementKind
from hodgeformer.base.errors import DataError
from hodgeformer.base.files import files_below
from hodgeformer.base.settings import Table
from hodgeformer.data.dataset import SPLITS, DataSet, Sample
from hodgeformer.data.folder_spec import FILE_NAME, FolderSpec, TableValue, described, read_spec
from hodgeformer.data.label_files import COUNTED, INSIDE, LABEL_SUFFIXES, label_files, read_numbers, read_text
from hodgeformer.data.labels import Codes, LabelFile, Target, ValueFile, WholeMesh
from hodgeformer.data.numbers import table_rows
from hodgeformer.data.shards import open_shards
from hodgeformer.data.splits import by_rules, with_validation
from hodgeformer.mesh.io import MESH_SUFFIXES, save_mesh

_MOST_REPEATS = 4  # of a pattern from a stranger: each multiplies the time by the length of a name
_LONGEST = 1000  # letters of an error: names may be of any length


def open_folder(root: Path, *, spec: FolderSpec | None = None, allow_remote: bool = False) -> DataSet:
    """The data set described by `root/dataset.toml` or by `spec`; shards at a URL only where that is allowed."""
    spec = spec or read_spec(root)
    try:
        return _described(root, spec) if spec.shards is None else open_shards(root, spec, allow_remote=allow_remote)
    except (DataError, OSError) as error:  # of a name that no file system takes
        text = (error.strerror or str(error) if isinstance(error, OSError) else str(error))[:_LONGEST]
        raise DataError(text if str(root) in text else f"{root / FILE_NAME}: {text}") from None


def _described(root: Path, spec: FolderSpec) -> DataSet:
    meshes = find_meshes(root, spec.meshes)
    classes, n_values = spec.classes, 1
    targets: Mapping[str, Target]
    if spec.task == "classification":
        classes, targets = _class_targets(root, spec, meshes)
    elif spec.task == "segmentation":
        if not spec.classes:
            raise DataError(
                f"a segmentation needs `classes`, the names in label order; `hodgeformer check {root}` proposes them"
            )
        targets = label_targets(root, spec, meshes)
    else:
        classes, targets = (), _value_targets(root, spec, meshes)
        n_values = _n_values(targets)
    groups = _groups(spec, meshes)
    samples = [Sample(name, path, targets[name], groups.get(name, "")) for name, path in meshes.items()]
    splits = with_validation(by_rules(samples, spec.split, root), spec.split)
    name = spec.name or root.resolve().name
    return DataSet(name, spec.task, spec.target_element, splits, classes, spec.colors, n_values)


def find_meshes(root: Path, where: str) -> dict[str, Path]:
    """Name -> file. A name is the path relative to the folder (or the fixed part of the glob) without the suffix."""
    parts = Path(where).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    base, pattern = root.joinpath(*parts[:fixed]), "/".join(parts[fixed:])
    if not base.is_dir():
        raise DataError(f"meshes = '{where}', but the folder {base} does not exist")
    meshes: dict[str, Path] = {}
    try:
        found = sorted(base.glob(pattern)) if pattern else files_below(base)
    except (ValueError, NotImplementedError) as error:
        raise DataError(f"meshes = '{where}' is not a valid pattern ({error})") from None
    for path in found:
        if path.suffix.lower() not in MESH_SUFFIXES or not path.is_file():
            continue
        name = path.relative_to(base).with_suffix("").as_posix()
        if name in meshes:
            raise DataError(f"{path} and {meshes[name].name} would have the same name; keep only one of them")
        meshes[name] = path
    if not meshes:
        raise DataError(f"{base}: no meshes in this folder (looked for {', '.join(MESH_SUFFIXES)})")
    return meshes


def _class_targets(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> tuple[tuple[str, ...], dict[str, Target]]:
    """Classes, and the class of every mesh: from a table, or from its subfolder."""
    if spec.labels is not None:
        table = _table(root, spec)
        class_of = {name: str(_look_up(table, name)) for name in meshes}
    else:
        split_names = {rule for rule in spec.split.given.values() if isinstance(rule, str)} | set(SPLITS)
        class_of = {name: folder_class(name, path, spec.classes, split_names) for name, path in meshes.items()}
    classes = spec.classes or tuple(sorted(set(class_of.values())))
    for name, found in class_of.items():
        if found not in classes:
            raise DataError(
                f"{meshes[name]}: class '{found}' is not one of {', '.join(classes)}; add it to `classes`, or fix it"
            )
    return classes, {name: WholeMesh(classes.index(found)) for name, found in class_of.items()}


def folder_class(name: str, path: Path, classes: tuple[str, ...], split_names: set[str]) -> str:
    parts = [part for part in name.split("/")[:-1] if part not in split_names or part in classes]
    known = [part for part in parts if part in classes]
    if not parts:
        raise DataError(
            f"{path}: the class of a mesh is the name of its subfolder, but this mesh is in none; move it, or set a "
            'table with `labels = "labels.csv"` (lines: name,class)'
        )
    return known[0] if known else parts[0]


def label_targets(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> Mapping[str, LabelFile]:
    """The sources of the labels of a segmentation, whether or not its classes are known."""
    kind = _kind(spec)
    codes = Codes.counted_from(spec.first_label, len(spec.classes), spec.classes, spec.colors)
    if spec.numbers and spec.classes:
        if not len(set(spec.numbers)) == len(spec.numbers) == len(spec.classes) or min(spec.numbers) < 0:
            raise DataError(f"`numbers` needs {len(spec.classes)} different numbers from 0 up, one for each class")
        codes = replace(codes, codes=spec.numbers)
    if isinstance(spec.labels, str) and spec.labels in INSIDE:
        return {name: LabelFile(path, "f", kind, codes, spec.labels) for name, path in meshes.items()}
    return {
        name: LabelFile(path, COUNTED.get(path.suffix.lower(), kind), kind, codes)
        for name, path in _label_files(root, spec, meshes).items()
    }


def _value_targets(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> dict[str, Target]:
    if spec.target_element != "mesh":
        kind = _kind(spec)
        return {name: ValueFile(path, kind) for name, path in _label_files(root, spec, meshes).items()}
    if isinstance(spec.labels, dict) or str(spec.labels).endswith((".csv", ".tsv")):
        table = _table(root, spec)
        return {name: WholeMesh(_numbers(_look_up(table, name), name)) for name in meshes}
    files = _label_files(root, spec, meshes)
    return {name: WholeMesh(tuple(read_numbers(path).ravel().tolist())) for name, path in files.items()}


def _label_files(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> dict[str, Path]:
    folder = root / (spec.labels if isinstance(spec.labels, str) else "labels")
    if not folder.is_dir():
        raise DataError(f"the folder of labels {folder} does not exist; set `labels`")
    # A missing file is reported when the mesh is read, so that a check lists all of them.
    found = label_files(folder)
    files = {name: found.get(name) or found.get(Path(name).name) or _other_file(folder / name) for name in meshes}
    owners: dict[Path, str] = {}
    for name, path in files.items():
        if owners.setdefault(path, name) != name:
            raise DataError(
                f"{path} would label both '{owners[path]}' and '{name}'; use the same subfolders as for the meshes"
            )
    return files


def _other_file(path: Path) -> Path:
    """A file in an unsupported format, which is reported when it is read; or the expected name."""
    beside = sorted(path.parent.glob(f"{glob.escape(path.name)}.*"))
    known = (*MESH_SUFFIXES, *LABEL_SUFFIXES)
    return next((file for file in beside if file.suffix.lower() not in known), Path(f"{path}.txt"))


def _kind(spec: FolderSpec) -> ElementKind:
    if spec.target_element not in KIND_OF:
        raise DataError(f"set `element` to face, vertex or edge for a {spec.task}")
    return KIND_OF[spec.target_element]


def _table(root: Path, spec: FolderSpec) -> dict[str, TableValue]:
    """Name -> class or numbers, from the file that `labels` names (lines: name,value...) or from the table itself."""
    if isinstance(spec.labels, dict):
        return spec.labels
    path = root / str(spec.labels)
    rows = list(table_rows(read_text(path), path))
    short = next((i for i, row in enumerate(rows) if len(row) < 2), None)
    if short is not None:
        raise DataError(f"{path}: row {short + 1} has no value; write every line as name,value")
    return {row[0]: row[1] if len(row) == 2 else [_number(cell, row[0]) for cell in row[1:]] for row in rows}


def _look_up(table: Mapping[str, TableValue], name: str) -> TableValue:
    names = name, Path(name).name
    for key in (*names, *(f"{own}{suffix}" for own in names for suffix in MESH_SUFFIXES)):
        if key in table:
            return table[key]
    raise DataError(f"the table of labels or groups has no entry for mesh '{name}'")


def _numbers(value: TableValue, name: str) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_number(item, name) for item in values)


def _number(value: str | float, name: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"the target of '{name}' is not a finite number: {value!r}")
    return number


def _n_values(targets: dict[str, Target]) -> int:
    for target in targets.values():
        if isinstance(target, WholeMesh) and isinstance(target.value, tuple):
            return len(target.value)
        if isinstance(target, ValueFile) and target.path.is_file():
            return int(read_numbers(target.path).shape[1])
    return 1


def _groups(spec: FolderSpec, meshes: dict[str, Path]) -> dict[str, str]:
    """The source of each mesh that has one, from the table or the regular expression `groups`."""
    if not isinstance(spec.groups, str):
        return {name: str(_look_up(spec.groups, name)) for name in meshes} if spec.groups else {}
    try:
        pattern = re.compile(spec.groups)
    except re.error as error:
        raise DataError(f"groups = '{spec.groups}' is not a valid regular expression ({error})") from None
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", spec.groups)  # without escapes and sets of characters
    if re.search(r"\)[*+{]", bare) or len(re.findall(r"[*+{]", bare)) > _MOST_REPEATS:
        raise DataError(
            f"groups = '{spec.groups}' could take forever: repeat no bracket, and use at most {_MOST_REPEATS} "
            "of *, + and {}"
        )
    found = {name: pattern.search(name) for name in meshes}
    return {name: match[min(1, pattern.groups)] or "" for name, match in found.items() if match}


def write_folder(dataset: DataSet, root: Path) -> None:
    """Write any data set as a folder that `open_folder` reads back unchanged.

    Meshes in `meshes/`, targets in `labels/` (or `labels.csv` for targets of whole meshes), dataset.toml.
    """
    if (root / FILE_NAME).exists():
        raise DataError(f"{root} already contains a data set; use an empty folder")
    rows = []
    for sample in dataset.samples:
        mesh, target = dataset.load(sample)
        path = root / "meshes" / f"{sample.name}.ply"
        path.parent.mkdir(parents=True, exist_ok=True)
        colors: Any = mesh.own_colors  # a model may read them
        save_mesh(mesh, path, **colors)
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
    spec = described(dataset)
    spec["meshes"] = "meshes"
    spec["labels"] = "labels" if dataset.kind is not None else "labels.csv"
    if any(sample.group for sample in dataset.samples):
        spec["groups"] = {sample.name: sample.source for sample in dataset.samples}
    named = {split: [sample.name for sample in samples] for split, samples in dataset.splits.items()}
    spec["split"] = named if "val" in named else {**named, "val": 0.0}
    return spec
