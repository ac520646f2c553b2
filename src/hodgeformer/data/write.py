"""Write any data set as a folder with a dataset.toml, one that `open_folder` reads back unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.folder_spec import FILE_NAME
from hodgeformer.errors import DataError
from hodgeformer.mesh.io import save_mesh
from hodgeformer.palette import hex_color


def write_folder(dataset: DataSet, root: Path, *, suffix: str = ".ply") -> None:
    """Meshes below `meshes/`, targets below `labels/` (or `labels.csv` for targets of whole meshes), dataset.toml."""
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
    (root / FILE_NAME).write_text(_toml(dataset), encoding="utf-8")


def _toml(dataset: DataSet) -> str:
    # A JSON string or list of strings is also a TOML one.
    lines = [f"name = {json.dumps(dataset.name)}", f'task = "{dataset.task}"']
    if dataset.kind is not None:
        lines.append(f'element = "{dataset.element}"')
    if dataset.classes:
        lines.append(f"classes = {json.dumps(dataset.classes)}")
        lines.append(f"colors = {json.dumps([hex_color(color) for color in dataset.colors])}")
    lines += [
        'meshes = "meshes"',
        f'labels = "{"labels" if dataset.kind is not None else "labels.csv"}"',
        "",
        "[split]",
    ]
    lines += [f"{split} = {_names(samples)}" for split, samples in dataset.splits.items()]
    return "\n".join(lines) + "\n"


def _names(samples: tuple[Sample, ...]) -> str:
    return json.dumps([sample.name for sample in samples])
