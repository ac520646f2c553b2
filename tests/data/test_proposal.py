"""A proposed dataset.toml can be pasted: it opens, and reads the labels that were written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from hodgeformer.base.errors import DataError
from hodgeformer.data.open import open_dataset
from hodgeformer.data.proposal import proposed
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere, open_grid

BALL = icosphere(2)
HALVES = (np.arange(BALL.n_faces) < 160).astype(np.int64)
COLORS = np.array([[255, 0, 0], [0, 0, 255]])


def princeton(root: Path, name: str) -> None:
    save_mesh(BALL, root / f"{name}.off")
    faces = [" ".join(str(i + 1) for i in np.flatnonzero(label == HALVES)) for label in (0, 1)]
    (root / f"{name}_labels.txt").write_text(f"back\n{faces[0]}\nfront\n{faces[1]}\n")


def teeth(root: Path, name: str) -> None:
    (root / "lower" / name).mkdir(parents=True)
    save_mesh(BALL, root / "lower" / name / f"{name}_lower.obj")
    labels = np.where(np.arange(BALL.n_vertices) < 50, 0, 48).tolist()
    (root / "lower" / name / f"{name}_lower.json").write_text(json.dumps({"jaw": "lower", "labels": labels}))


def numbers(root: Path, name: str) -> None:
    for folder in ("meshes", "annotations"):
        (root / folder).mkdir(exist_ok=True)
    save_mesh(BALL, root / "meshes" / f"{name}.ply")
    np.savetxt(root / "annotations" / f"{name}.txt", HALVES + 1, fmt="%d")


def painted(root: Path, name: str) -> None:
    colors = COLORS[HALVES]
    colors[7] = 30, 0, 225  # once in a thousand faces
    colors[:5] = 3, 0, 252  # a difference that compression makes
    save_mesh(BALL, root / f"{name}.ply", face_colors=colors)


def groups(root: Path, name: str) -> None:
    save_mesh(BALL, root / f"{name}.obj", face_labels=HALVES)
    path = root / f"{name}.obj"
    path.write_text(path.read_text().replace("label_0", "back").replace("label_1", "front"))


def inside(root: Path, name: str) -> None:
    save_mesh(BALL, root / f"{name}.ply", face_labels=HALVES)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (princeton, {"element": "face", "labels": ".", "classes": ["back", "front"]}),
        (teeth, {"element": "vertex", "labels": ".", "classes": ["0", "48"], "numbers": [0, 48]}),
        (numbers, {"element": "face", "labels": "annotations", "classes": ["1", "2"], "first_label": 1}),
        (painted, {"labels": "ply:color", "colors": ["#ff0000", "#0000ff"]}),
        (groups, {"element": "face", "labels": "obj:group", "classes": ["back", "front"]}),
        (inside, {"element": "face", "labels": "ply:label", "classes": ["0", "1"], "first_label": 0}),
    ],
)
def test_labels_are_found(layout: Callable[[Path, str], None], expected: dict[str, object], tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        layout(tmp_path, name)
    with pytest.raises(DataError, match="hodgeformer check"):
        open_dataset(tmp_path)
    found = proposed(tmp_path)
    assert found is not None
    assert {key: found.get(key) for key in expected} == expected
    (tmp_path / "dataset.toml").write_text(tomli_w.dumps(found))
    dataset = open_dataset(tmp_path)
    assert len(dataset.samples) == 2
    for sample in dataset.samples:
        _, labels = dataset.load(sample)
        written = np.sort(HALVES) if dataset.element == "face" else np.arange(BALL.n_vertices) >= 50
        assert np.array_equal(np.sort(labels), written)
    assert proposed(tmp_path) is None


def test_only_the_classes_are_added_to_a_file_without_them(tmp_path: Path) -> None:
    painted(tmp_path, "ann")
    (tmp_path / "dataset.toml").write_text(
        'name = "mine"\ntask = "segmentation"\nmeshes = "."\nlabels = "ply:color"\n[split]\ntrain = 1.0\n'
    )
    with pytest.raises(DataError, match=r"needs `classes`.*hodgeformer check"):
        open_dataset(tmp_path)
    found = proposed(tmp_path)
    assert found is not None
    assert (found["name"], found["split"]) == ("mine", {"train": 1.0})
    assert found["colors"] == ["#ff0000", "#0000ff"]


def test_class_folders_need_no_file(tmp_path: Path) -> None:
    for folder, mesh in (("balls", BALL), ("sheets", open_grid())):
        (tmp_path / folder).mkdir()
        for i in range(5):
            save_mesh(mesh, tmp_path / folder / f"{i}.obj")
    dataset = open_dataset(tmp_path)
    assert (dataset.task, dataset.classes) == ("classification", ("balls", "sheets"))
    assert {split: len(samples) for split, samples in dataset.splits.items()} == {"train": 8, "test": 2}
    assert "no dataset.toml" in dataset.notes[0]
    assert proposed(tmp_path) == {"task": "classification", "meshes": ".", "classes": ("balls", "sheets")}


@pytest.mark.parametrize(("values", "task"), [(["cat", "dog"] * 3, "classification"), (range(6), "regression")])
def test_a_table_is_found(values: list[object], task: str, tmp_path: Path) -> None:
    for i, _ in enumerate(values):
        save_mesh(BALL, tmp_path / f"{i}.obj")
    (tmp_path / "targets.csv").write_text("".join(f"{i},{value}\n" for i, value in enumerate(values)))
    found = proposed(tmp_path)
    assert found is not None
    assert (found["task"], found["labels"]) == (task, "targets.csv")


def test_meshes_without_labels_are_no_data_set(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        save_mesh(BALL, tmp_path / f"{name}.obj")
    assert proposed(tmp_path) is None
