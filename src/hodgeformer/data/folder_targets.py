"""The targets of a folder data set: class by sub-folder or table, label files, labels in mesh files, numbers."""

from __future__ import annotations

import csv
from pathlib import Path

from hodgeformer.containers import KIND_OF, ElementKind
from hodgeformer.data.dataset import SPLITS
from hodgeformer.data.folder_spec import FILE_NAME, FolderSpec, TableValue
from hodgeformer.data.labels import (
    Codes,
    FileAttribute,
    LabelFile,
    Target,
    ValueFile,
    WholeMesh,
    label_file,
    read_numbers,
)
from hodgeformer.errors import DataError
from hodgeformer.mesh.io import MESH_SUFFIXES


def class_targets(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> tuple[tuple[str, ...], dict[str, Target]]:
    """Classes, and the class of every mesh: from a table, or from the sub-folder that is named like a class."""
    if spec.labels is not None:
        table = _table(root, spec)
        class_of = {name: str(_look_up(table, name, root)) for name in meshes}
    else:
        split_names = {rule for rule in spec.split.given.values() if isinstance(rule, str)} | set(SPLITS)
        class_of = {name: _folder_class(name, path, spec.classes, split_names) for name, path in meshes.items()}
    classes = spec.classes or tuple(sorted(set(class_of.values())))
    for name, found in class_of.items():
        if found not in classes:
            raise DataError(
                f"{meshes[name]}: class '{found}' is not one of {', '.join(classes)}; add it to `classes` or correct it"
            )
    return classes, {name: WholeMesh(classes.index(found)) for name, found in class_of.items()}


def _folder_class(name: str, path: Path, classes: tuple[str, ...], split_names: set[str]) -> str:
    parts = [part for part in name.split("/")[:-1] if part not in split_names or part in classes]
    known = [part for part in parts if part in classes]
    if not parts:
        raise DataError(
            f"{path}: the class of a mesh is the name of its sub-folder, but this one is in none; move it, or give a "
            'table with `labels = "labels.csv"` (lines: name,class)'
        )
    return known[0] if known else parts[0]


def label_targets(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> dict[str, Target]:
    if not spec.classes:
        raise DataError(f"{root / FILE_NAME}: a segmentation needs `classes`, the names in label order")
    kind = _kind(root, spec)
    codes = Codes.counted_from(spec.first_label, len(spec.classes))
    if spec.labels == "ply:label":
        return dict.fromkeys(meshes, FileAttribute(kind, codes))
    return {
        name: LabelFile(path, stored_kind(path, kind), kind, codes)
        for name, path in _label_files(root, spec, meshes).items()
    }


def value_targets(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> dict[str, Target]:
    is_table = isinstance(spec.labels, dict) or str(spec.labels).endswith((".csv", ".tsv"))
    if spec.target_element != "mesh":
        kind = _kind(root, spec)
        return {name: ValueFile(path, kind) for name, path in _label_files(root, spec, meshes).items()}
    if is_table:
        table = _table(root, spec)
        return {name: WholeMesh(_numbers(_look_up(table, name, root), name)) for name in meshes}
    files = _label_files(root, spec, meshes)
    return {name: WholeMesh(tuple(read_numbers(path).ravel().tolist())) for name, path in files.items()}


def _label_files(root: Path, spec: FolderSpec, meshes: dict[str, Path]) -> dict[str, Path]:
    folder = root / (spec.labels if isinstance(spec.labels, str) else "labels")
    if not folder.is_dir():
        raise DataError(f"{root / FILE_NAME}: there is no folder of labels {folder}; set `labels`")
    files: dict[str, Path] = {}
    for name in meshes:
        # A missing file is reported when the mesh is read, so that a check can list all of them at once.
        files[name] = label_file(folder, name) or folder / f"{name}.txt"
    owners: dict[Path, str] = {}
    for name, path in files.items():
        if owners.setdefault(path, name) != name:
            raise DataError(
                f"{path} would label both '{owners[path]}' and '{name}'; use the same sub-folders as the meshes"
            )
    return files


def stored_kind(path: Path, kind: ElementKind) -> ElementKind:
    """What a label file counts: edges in .eseg and faces in .fseg, else what the data set says."""
    by_suffix: dict[str, ElementKind] = {".eseg": "e", ".fseg": "f"}
    return by_suffix.get(path.suffix, kind)


def _kind(root: Path, spec: FolderSpec) -> ElementKind:
    kind = KIND_OF.get(spec.target_element)
    if kind is None:
        raise DataError(f"{root / FILE_NAME}: in a {spec.task} `element` is face, vertex or edge")
    return kind


def _table(root: Path, spec: FolderSpec) -> dict[str, TableValue]:
    """Name -> class or numbers, from the file `labels` points at (lines: name,value...) or written in place."""
    if isinstance(spec.labels, dict):
        return spec.labels
    path = root / str(spec.labels)
    if not path.is_file():
        raise DataError(f"{root / FILE_NAME}: labels = '{spec.labels}', but there is no file {path}")
    with path.open(encoding="utf-8", newline="") as stream:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        rows = [[cell.strip() for cell in row] for row in csv.reader(stream, delimiter=delimiter) if row]
    short = next((i for i, row in enumerate(rows) if len(row) < 2), None)
    if short is not None:
        raise DataError(f"{path}: row {short + 1} has no value; every line is name,value")
    return {row[0]: row[1] if len(row) == 2 else [_number(cell, row[0]) for cell in row[1:]] for row in rows}


def _look_up(table: dict[str, TableValue], name: str, root: Path) -> TableValue:
    for key in (
        name,
        Path(name).name,
        *(f"{name}{s}" for s in MESH_SUFFIXES),
        *(f"{Path(name).name}{s}" for s in MESH_SUFFIXES),
    ):
        if key in table:
            return table[key]
    raise DataError(f"{root}: the table of labels has no line for mesh '{name}'")


def _numbers(value: TableValue, name: str) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_number(item, name) for item in values)


def _number(value: str | float, name: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise DataError(f"the target of '{name}' is not a number: {value!r}") from None


def n_values(targets: dict[str, Target]) -> int:
    for target in targets.values():
        if isinstance(target, WholeMesh) and isinstance(target.value, tuple):
            return len(target.value)
        if isinstance(target, ValueFile) and target.path.is_file():
            return int(read_numbers(target.path).shape[1])
    return 1
