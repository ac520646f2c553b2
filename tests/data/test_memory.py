"""Data sets from pairs in memory, and folds: what belongs together is held out together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clock import at_most
from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import open_folder, write_folder
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from meshes import icosphere

BALL = icosphere(1, name="ball")


def pairs(n: int = 8) -> list[tuple[object, object]]:
    labels = np.arange(BALL.n_faces) % 3
    return [((BALL.vertices * (i + 1), BALL.faces), labels) for i in range(n)]


def test_arrays_and_numbers_make_a_segmentation() -> None:
    dataset = open_dataset(pairs(), classes=["a", "b", "c"])
    assert (dataset.task, dataset.element, dataset.classes) == ("segmentation", "face", ("a", "b", "c"))
    assert {split: len(samples) for split, samples in dataset.splits.items()} == {"train": 6, "test": 2}
    mesh, target = dataset.load(dataset.split("test")[0])
    assert mesh.n_faces == BALL.n_faces and target.tolist() == (np.arange(BALL.n_faces) % 3).tolist()
    assert open_dataset(pairs()).classes == ("0", "1", "2")


def test_names_files_values_and_divided_pairs(tmp_path: Path) -> None:
    save_mesh(BALL, tmp_path / "x.obj")
    named = np.array(["arm", "leg"])[np.arange(BALL.n_vertices) % 2]
    dataset = open_dataset({"train": [(tmp_path / "x.obj", named)], "val": [(BALL, named)]}, element="vertex")
    assert dataset.classes == ("arm", "leg") and [s.name for s in dataset.samples] == ["x", "ball"]
    assert dataset.load(dataset.samples[0])[1].tolist() == (np.arange(BALL.n_vertices) % 2).tolist()
    whole = open_dataset([(BALL, "ball"), (BALL, "cube"), (BALL, "ball")], split={"train": 1.0})
    assert (whole.task, whole.element) == ("classification", "mesh")
    assert [int(whole.load(s)[1][0]) for s in whole.samples] == [0, 1, 0]
    values = open_dataset([(BALL, 0.5), (BALL, 1.5)], split={"train": 0.5, "test": 0.5})
    assert (values.task, values.element, values.n_values) == ("regression", "mesh", 1)
    fields = open_dataset([(BALL, BALL.vertices[:, :2])], element="vertex", split={"train": 1.0})
    assert (fields.task, fields.n_values) == ("regression", 2)


@pytest.mark.parametrize(
    ("given", "described", "told"),
    [
        ([], {}, "no meshes"),
        ([BALL], {}, "expected pairs"),
        ([(BALL, np.zeros(3, dtype=int) + 5)], {"classes": ["a", "b"]}, "outside the 2 classes"),
        ([(BALL, np.array(["leq"] * 80))], {"classes": ["leg", "arm"]}, "did you mean 'leg'"),
        ([(BALL, np.zeros(80))], {"task": "segmentation", "classes": ["a", "b"]}, "integers or names"),
        ({"train": [(BALL, 1)]}, {"split": {"train": 1.0}}, "remove `split`"),
        ([(BALL, 1), (BALL, 0)], {"groups": ["one"]}, "1 groups for 2 meshes"),
    ],
)
def test_mistakes_are_told(given: object, described: dict[str, object], told: str) -> None:
    with pytest.raises(DataError, match=told):
        open_dataset(given, **described)  # type: ignore[arg-type]


def test_labels_that_fit_no_face_say_which_element_they_fit() -> None:
    dataset = open_dataset([(BALL, np.arange(BALL.n_vertices) % 2)], split={"train": 1.0})
    with pytest.raises(DataError, match="one per vertex, so check `element`"):
        dataset.load(dataset.samples[0])
    with pytest.raises(ConfigError, match="'classes' is only for pairs"):
        open_dataset("figures", classes=["a", "b"])


def folds_of(path: Path, n: int) -> list[DataSet]:
    return [open_dataset(DataConfig(path=path, folds=n, fold=i)) for i in range(n)]


def test_every_mesh_tests_once_and_groups_stay_together(tmp_path: Path) -> None:
    groups = ["ann", "bob", "ann", "cem", "dan", "bob", "ann", "eve"]
    write_folder(open_dataset(pairs(), groups=groups), tmp_path / "data")
    assert {s.source for s in open_folder(tmp_path / "data").samples} == set(groups)  # they survive the writing
    folds = folds_of(tmp_path / "data", 3)
    tested = [sample.name for fold in folds for sample in fold.split("test")]
    assert len(tested) == len(set(tested)) == 8
    for fold in folds:
        held = {sample.source for sample in fold.split("test")}
        assert held.isdisjoint({sample.source for sample in fold.split("train")})
        assert len(fold.split("train")) + len(fold.split("test")) == 8
    with pytest.raises(DataError, match="6 folds need meshes from at least 6 sources"):
        folds_of(tmp_path / "data", 6)


@pytest.mark.parametrize("seed", range(5))
def test_a_split_by_fractions_keeps_a_source_together(seed: int, tmp_path: Path) -> None:
    names = [f"{who}_{jaw}" for who in ("ann", "bob", "cem", "dan", "eve") for jaw in "LU"]
    write_folder(open_dataset([(icosphere(1, name=name), np.arange(80) % 2) for name in names]), tmp_path)
    text = (tmp_path / "dataset.toml").read_text().partition("[split]")[0]
    (tmp_path / "dataset.toml").write_text(
        f'groups = "^([a-z]+)_"\n{text}\n[split]\ntrain = 0.6\ntest = 0.4\nseed = {seed}'
    )
    dataset = open_folder(tmp_path)
    train, test = ({sample.source for sample in dataset.split(split)} for split in ("train", "test"))
    assert (len(train), len(test)) == (3, 2) and train.isdisjoint(test)
    assert sorted(sample.name for sample in dataset.samples) == sorted(names)
    with pytest.raises(DataError, match="3 splits need meshes from at least 3 sources"):
        open_dataset(pairs(), groups=["ann", "bob"] * 4, split={"train": 0.6, "val": 0.2, "test": 0.2})


def test_groups_by_a_pattern_of_names(tmp_path: Path) -> None:
    meshes = {f"{who}_{i}": icosphere(1, name=f"{who}_{i}") for who in ("ann", "bob") for i in range(2)}
    write_folder(open_dataset([(mesh, np.arange(80) % 2) for mesh in meshes.values()]), tmp_path)
    text = (tmp_path / "dataset.toml").read_text()
    (tmp_path / "dataset.toml").write_text('groups = "^([a-z]+)_"\n' + text)
    assert {s.name: s.source for s in open_folder(tmp_path).samples} == {name: name[:3] for name in meshes}
    (tmp_path / "dataset.toml").write_text('groups = "(("\n' + text)
    with pytest.raises(DataError, match="not a valid regular expression"):
        open_folder(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "source"),
    [
        ("(a+)+$", None),
        ("(?:a|aa){2,}b", None),
        ("a*a*a*a*a*b", None),
        (r"(a{20})\)*[)(*+{]*(!)?", "a" * 20),
        ("(z)|!", ""),
    ],
)
def test_a_pattern_of_a_stranger_takes_no_time(pattern: str, source: str | None, tmp_path: Path) -> None:
    names = [f"{'a' * 60}!{i}" for i in range(4)]
    write_folder(open_dataset([(icosphere(1, name=name), np.arange(80) % 2) for name in names]), tmp_path)
    text = (tmp_path / "dataset.toml").read_text()
    (tmp_path / "dataset.toml").write_text(f"groups = '{pattern}'\n{text}")
    if source is not None:
        assert [sample.group for sample in open_folder(tmp_path).samples] == 4 * [source]
        return
    with at_most(5), pytest.raises(DataError, match="could take forever: repeat no bracket"):
        open_folder(tmp_path)


def test_classes_are_spread_over_folds_and_people_of_a_benchmark_kept_together() -> None:
    cubes = DataConfig(name="synthetic_cubes", n_classes=2, n_train=3, n_test=1, n_faces=100, folds=4, fold=1)
    dataset = open_dataset(cubes)
    assert sorted(sample.target.value for sample in dataset.split("test")) == [0, 1]  # type: ignore[attr-defined]
    for wrong, told in (({"fold": None}, "count fold from 0"), ({"fold": 4}, "count fold from 0")):
        with pytest.raises(ConfigError, match=told):
            open_dataset(cubes.replace(**wrong))


@pytest.mark.real_data
def test_people_of_human_are_held_out_together(real_data: Path) -> None:
    human = DataConfig(name="human", path=real_data / "human_seg", folds=5, fold=0)
    fold = open_dataset(human)
    sources = {split: {sample.source for sample in samples} for split, samples in fold.splits.items()}
    assert not sources["test"] & sources["train"] and len(fold.samples) > 300
    with pytest.raises(ConfigError, match="not both"):
        open_dataset(human.replace(hold_out=("scape",)))


def test_meshes_are_named_safely() -> None:
    strange = [(Mesh(BALL.vertices, BALL.faces, name="../../etc/x"), 0), (Mesh(BALL.vertices, BALL.faces, name="y"), 1)]
    assert {s.name for s in open_dataset(strange, split={"train": 1.0}).samples} == {".._.._etc_x", "y"}
