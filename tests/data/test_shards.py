"""Shards: a few archives hold what many files held, to the bit."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hodgeformer.base.errors import DataError, MeshError
from hodgeformer.base.files import place
from hodgeformer.cli import app
from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import write_folder
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.data.shards import write_shards
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.training.run import train
from tiny_sets import TINY, heights, parts, shapes

SMALL = 20_000  # bytes, so that there are several


def weights_after(data: Path, run: Path, *settings: str) -> dict[str, torch.Tensor]:
    train(data, run, overrides=[*TINY, "train.epochs=2", *settings])
    return load_checkpoint(run / "last.safetensors").weights


@pytest.mark.parametrize("make", [parts, shapes, heights])
def test_training_from_shards_is_training_from_the_folder(make: Callable[[], DataSet], tmp_path: Path) -> None:
    write_folder(make(), tmp_path / "folder")
    folder = open_dataset(tmp_path / "folder")
    written = write_shards(folder, tmp_path / "packed", most_bytes=SMALL)
    assert len(list((tmp_path / "packed" / "shards").iterdir())) > 1
    packed = open_dataset(tmp_path / "packed")
    assert {split: [s.name for s in samples] for split, samples in packed.splits.items()} == {
        split: [s.name for s in samples] for split, samples in folder.splits.items()
    }
    read = take_census(packed.with_splits(packed.splits))
    assert read.fingerprint == take_census(folder).fingerprint == written.fingerprint
    one = weights_after(tmp_path / "folder", tmp_path / "one")
    two = weights_after(tmp_path / "packed", tmp_path / "two", "train.workers=1")
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_opening_reads_the_index_alone_and_a_lost_shard_is_named(tmp_path: Path) -> None:
    write_shards(parts(), tmp_path, most_bytes=SMALL)
    with tarfile.open(tmp_path / "shards" / "00000.tar") as archive:
        assert archive.getnames()[:2] == ["train_0.ply", "train_0.npy"]
    shutil.rmtree(tmp_path / "shards")
    dataset = open_dataset(tmp_path)
    assert len(take_census(dataset).meshes) == 8
    with pytest.raises(MeshError, match="no such file") as told:
        dataset.load(dataset.split("train")[0])
    assert "00000.tar: train_0.ply" in str(told.value)


def test_shards_may_lie_at_an_address(tmp_path: Path) -> None:
    at = "memory://shards-of-eggs"
    write_shards(parts(), tmp_path, shards=at, most_bytes=SMALL)
    assert not (tmp_path / "shards").exists() and len(list(place(at).iterdir())) > 1
    dataset = open_dataset(tmp_path)
    samples = dataset.split("train")
    mesh, target = dataset.load(samples[1])
    np.testing.assert_array_equal(mesh.vertices, parts().load(parts().split("train")[1])[0].vertices)
    assert mesh.name == samples[1].name and len(samples) == 6
    assert len(target) == mesh.n_faces


def test_a_mesh_that_cannot_be_used_is_left_out_and_named(tmp_path: Path) -> None:
    write_folder(parts(), tmp_path / "folder")
    (tmp_path / "folder" / "labels" / "train_2.txt").write_text("0 1 2")
    result = CliRunner().invoke(app, ["shard", str(tmp_path / "folder"), "--out", str(tmp_path / "packed"), "--quiet"])
    assert result.exit_code == 1 and "train_2" in result.output and "7 meshes" in result.output
    assert "train_2" not in {sample.name for sample in open_dataset(tmp_path / "packed").samples}
    again = CliRunner().invoke(app, ["shard", str(tmp_path / "folder"), "--out", str(tmp_path / "packed")])
    assert again.exit_code == 2 and "already holds a data set" in again.output


def folds_of(path: Path, n: int) -> list[list[str]]:
    folds = [open_dataset(DataConfig(path=path, folds=n, fold=i)) for i in range(n)]
    return [[sample.name for sample in fold.split("test")] for fold in folds]


def people() -> DataSet:
    """Four people in two poses each."""
    eggs = parts(n_train=6, n_test=2)
    grouped = {sample.name: f"person {i // 2}" for i, sample in enumerate(eggs.samples)}
    return eggs.with_splits(
        {split: [replace(s, group=grouped[s.name]) for s in members] for split, members in eggs.splits.items()}
    )


@pytest.mark.parametrize("make", [people, shapes, heights])
def test_folds_of_shards_are_those_of_the_folder(make: Callable[[], DataSet], tmp_path: Path) -> None:
    """Sources stay together, and classes are spread alike."""
    write_folder(make(), tmp_path / "folder")
    write_shards(open_dataset(tmp_path / "folder"), tmp_path / "packed", most_bytes=SMALL)
    assert folds_of(tmp_path / "packed", 2) == folds_of(tmp_path / "folder", 2)
    assert not open_dataset(tmp_path / "packed").notes


def test_shards_without_groups_open_and_say_what_folds_cannot_do(tmp_path: Path) -> None:
    write_shards(people(), tmp_path)
    with np.load(tmp_path / "index.npz") as stored:
        columns = {key: stored[key] for key in stored if key != "group"}
    np.savez_compressed(tmp_path / "index.npz", **columns)
    (note,) = open_dataset(tmp_path).notes
    assert "folds may divide meshes of one source" in note
    assert sum(map(len, folds_of(tmp_path, 2))) == 8


def test_what_contradicts_shards_or_is_damaged_is_refused(tmp_path: Path) -> None:
    write_shards(parts(), tmp_path)
    spec = tmp_path / "dataset.toml"
    said = spec.read_text()
    spec.write_text(said + 'meshes = "meshes"\n')
    with pytest.raises(DataError, match="`meshes` has no meaning beside `shards`"):
        open_dataset(tmp_path)
    spec.write_text(said)
    (tmp_path / "index.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="index of the shards cannot be read"):
        open_dataset(tmp_path)
