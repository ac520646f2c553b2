"""Propose a `dataset.toml` for a folder: its task, the place of its labels, and the classes that occur in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hodgeformer.base.containers import ELEMENT_NAMES, Element, ElementKind
from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.base.palette import hex_color
from hodgeformer.base.settings import Table, read_toml
from hodgeformer.data.dataset import SPLITS
from hodgeformer.data.folder import find_meshes, folder_class, label_targets, open_folder
from hodgeformer.data.folder_spec import FILE_NAME, FolderSpec, read_spec
from hodgeformer.data.label_files import INSIDE, RawLabels, label_files, labels_inside, read_labels
from hodgeformer.data.labels import NO_NAME, SAME_COLOR
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import Mesh

_MOST = 64  # labels of one mesh; a photographed surface has more colors
_SHADE, _TIMES = 64, 100  # of 255: a color this near to one this many times as frequent is a stray shade of it


def proposed(root: Path, progress: Callable[[float, float], None] = lambda done, total: None) -> Table | None:
    """The content of a dataset.toml for a folder without one, or without the classes of its segmentation.

    None if no task is recognized, or if nothing is missing.
    """
    has_file = (root / FILE_NAME).is_file()
    spec = read_spec(root) if has_file else recognized(root)
    if spec is None or (has_file and (spec.task != "segmentation" or spec.classes or spec.shards)):
        return None
    given = read_toml(root / FILE_NAME) if has_file else spec.model_dump(exclude_unset=True)
    if spec.task != "segmentation":
        return given
    found = _classes(root, spec, progress)
    return given | found if len(found["classes"]) > 1 else None


def recognized(root: Path) -> FolderSpec | None:
    """What a folder without dataset.toml contains, from the names of its files and its first mesh: a segmentation
    with label files or labels in the meshes, or the class folders of a classification."""
    try:
        where = "meshes" if (root / "meshes").is_dir() else "."
        meshes = find_meshes(root, where)
    except DataError:
        return None
    first_name, first = next(iter(meshes.items()))
    try:
        mesh = load_mesh(first)
    except HodgeFormerError:
        return None
    folders = [".", "labels", *sorted(path.name for path in root.iterdir() if path.is_dir())]
    names, own = {*meshes, *(Path(name).name for name in meshes)}, set(meshes.values())
    n_labeled = {
        folder: sum(name in names and path not in own for name, path in label_files(root / folder).items())
        for folder in folders
    }
    labels = max(folders, key=n_labeled.__getitem__)
    if 2 * n_labeled[labels] >= len(meshes):
        element = _element_of_file(root / labels, first_name, mesh)
    elif found := _inside(first, mesh, "ply:label"):
        labels, element = found
    elif (spec := _of_table(root, where, meshes)) is not None:
        return spec
    elif classes := _class_folders(meshes):
        return FolderSpec(task="classification", meshes=where, classes=classes)
    elif found := _inside(first, mesh, *INSIDE):
        labels, element = found
    else:
        return None
    return FolderSpec(task="segmentation", element=element, meshes=where, labels=labels)


def _of_table(root: Path, where: str, meshes: dict[str, Path]) -> FolderSpec | None:
    """A table with a line `name,class` or `name,number` for every mesh."""
    for table in sorted(root.glob("*.csv")):
        for task in ("classification", "regression"):
            spec = FolderSpec(task=task, meshes=where, labels=table.name)
            try:
                n_classes = len(open_folder(root, spec=spec).classes)
            except DataError:
                continue
            if 2 * n_classes <= len(meshes):  # more are values, not classes
                return spec
    return None


def _element_of_file(folder: Path, name: str, mesh: Mesh) -> Element:
    found = label_files(folder)
    try:
        raw = read_labels(found.get(name) or found[Path(name).name])
    except (DataError, KeyError):
        return "face"
    counts = mesh.n
    fitting: list[ElementKind] = [kind for kind in ("f", "v", "e") if counts[kind] == len(raw.values)]
    return ELEMENT_NAMES[raw.kind or (fitting[0] if fitting and raw.points is None else "f")]


def _inside(path: Path, mesh: Mesh, *places: str) -> tuple[str, Element] | None:
    """The first of the places in a mesh file that contains several labels, and their element."""
    for place in places:
        try:
            raw = labels_inside(path, mesh, place)
        except DataError:
            continue
        if 1 < len(np.unique(raw.values, axis=0)) <= _MOST:
            return place, ELEMENT_NAMES[raw.kind or "f"]
    return None


def _class_folders(meshes: dict[str, Path]) -> tuple[str, ...]:
    """The names of the folders, if every mesh is in one and each contains two meshes or more."""
    try:
        count = Counter(folder_class(name, path, (), set(SPLITS)) for name, path in meshes.items())
    except DataError:
        return ()
    return tuple(sorted(count)) if len(count) > 1 and min(count.values()) > 1 else ()


def _classes(root: Path, spec: FolderSpec, progress: Callable[[float, float], None]) -> Table:
    """The names, numbers or colors that occur in the labels."""
    meshes = find_meshes(root, spec.meshes)
    found: Counter[Any] = Counter()
    for done, target in enumerate(label_targets(root, spec, meshes).values(), 1):
        with suppress(HodgeFormerError):  # reported by the check of the data set
            found.update(_occurring(target.raw()))
        progress(done, len(meshes))
    colors = [key for key, _ in found.most_common() if isinstance(key, tuple)]
    if colors:
        colors = [color for color in colors if not _is_shade(color, found)]
        return {"classes": [f"color_{hex_color(c)[1:]}" for c in colors], "colors": [hex_color(c) for c in colors]}
    names = sorted(key for key in found if isinstance(key, str) and key.lower() not in NO_NAME)
    if names:
        return {"classes": names}
    numbers = sorted(key for key in found if key >= 0)
    written: Table = {"classes": [str(number) for number in numbers]}
    if numbers and numbers[-1] - numbers[0] + 1 == len(numbers):
        return written | {"first_label": numbers[0]}
    return written | {"numbers": numbers}


def _occurring(raw: RawLabels) -> dict[Any, int]:
    values, counts = np.unique(raw.values, axis=0, return_counts=True)
    if raw.values.ndim == 2:
        keys: list[Any] = [tuple(color) for color in values.tolist()]
    elif raw.classes and raw.values.dtype.kind != "U":
        keys = [raw.classes[i] if 0 <= i < len(raw.classes) else "" for i in values.tolist()]
    else:
        keys = values.tolist()
    return dict(zip(keys, counts.tolist(), strict=True))


def _is_shade(color: tuple[int, int, int], found: Counter[Any]) -> bool:
    """Whether a color is a more frequent one as another program writes it, or a rare mixture of colors."""
    for other, count in found.items():
        apart = max(abs(a - b) for a, b in zip(color, other, strict=True))
        if (apart <= SAME_COLOR and count > found[color]) or (apart <= _SHADE and count >= _TIMES * found[color]):
            return True
    return False
