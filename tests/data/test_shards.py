"""Shards: a few archives hold what many files held, to the bit."""

from __future__ import annotations

import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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
    with pytest.raises(MeshError, match="does not exist") as told:
        dataset.load(dataset.split("train")[0])
    assert "00000.tar: train_0.ply" in str(told.value)


def test_shards_may_lie_at_an_address(tmp_path: Path) -> None:
    at = "memory://shards-of-eggs"
    write_shards(parts(), tmp_path, shards=at, most_bytes=SMALL)
    assert not (tmp_path / "shards").exists() and len(list(place(at).iterdir())) > 1
    with pytest.raises(DataError, match="at memory://shards-of-eggs, and a data set may not choose a URL"):
        open_dataset(tmp_path)
    words = ["check", str(tmp_path), "--quiet"]
    assert [CliRunner().invoke(app, [*words, *more]).exit_code for more in ([], ["--allow-remote"])] == [2, 0]
    assert open_dataset(DataConfig(path=tmp_path, allow_remote=True)).samples
    dataset = open_dataset(tmp_path, allow_remote=True)
    samples = dataset.split("train")
    mesh, target = dataset.load(samples[1])
    np.testing.assert_array_equal(mesh.vertices, parts().load(parts().split("train")[1])[0].vertices)
    assert mesh.name == samples[1].name and len(samples) == 6
    assert len(target) == mesh.n_faces


def test_a_server_that_sends_whole_files_only_is_told(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs addresses: pip install 'hodgeformer[remote]' aiohttp")
    write_shards(parts(), tmp_path, most_bytes=SMALL)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever).start()
        spec = tmp_path / "dataset.toml"
        address = f"http://127.0.0.1:{server.server_port}/shards"
        spec.write_text(spec.read_text().replace('shards = "shards"', f'shards = "{address}"'))
        dataset = open_dataset(tmp_path, allow_remote=True)
        with pytest.raises(DataError, match="sends whole files only, not ranges of bytes"):
            dataset.load(dataset.split("train")[1])
        server.shutdown()


def test_a_mesh_that_cannot_be_used_is_left_out_and_named(tmp_path: Path) -> None:
    write_folder(parts(), tmp_path / "folder")
    (tmp_path / "folder" / "labels" / "train_2.txt").write_text("0 1 2")
    result = CliRunner().invoke(app, ["shard", str(tmp_path / "folder"), "--out", str(tmp_path / "packed"), "--quiet"])
    assert result.exit_code == 1 and "train_2" in result.output and "7 meshes" in result.output
    assert "train_2" not in {sample.name for sample in open_dataset(tmp_path / "packed").samples}
    again = CliRunner().invoke(app, ["shard", str(tmp_path / "folder"), "--out", str(tmp_path / "packed")])
    assert again.exit_code == 2 and "already contains a data set" in again.output


def test_two_that_write_shards_into_one_folder_do_not_mix_them(tmp_path: Path) -> None:
    def write_another(done: int, total: int) -> None:
        with pytest.raises(DataError, match="another process is writing shards there"):
            write_shards(shapes(), tmp_path)

    write_shards(parts(), tmp_path, progress=write_another)
    assert take_census(open_dataset(tmp_path), again=True).problems == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.toml", "index.npz", "shards"]


def test_shards_of_shards_are_the_same(tmp_path: Path) -> None:
    write_shards(parts(), tmp_path / "one", most_bytes=SMALL)
    write_shards(open_dataset(tmp_path / "one"), tmp_path / "two", most_bytes=SMALL)
    one, two = ((tmp_path / name / "shards" / "00001.tar").read_bytes() for name in ("one", "two"))
    assert one == two


def written_again(root: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """The index with a lie in it."""
    with np.load(root / "index.npz") as stored:
        columns = {key: stored[key].copy() for key in stored}
    change(columns)
    np.savez_compressed(root / "index.npz", **columns)


def swapped(columns: dict[str, np.ndarray]) -> None:
    """The first two meshes, with all that is stated of them, have each other's place."""
    columns["place"][[0, 1]] = columns["place"][[1, 0]]


def renamed(columns: dict[str, np.ndarray]) -> None:
    columns["name"] = np.frombuffer(columns["name"].tobytes().replace(b"train_0", b"train_X"), dtype=np.uint8)


def other_label(columns: dict[str, np.ndarray]) -> None:
    columns["labels"][0] = np.roll(columns["labels"][0], 1)


def more_faces(columns: dict[str, np.ndarray]) -> None:
    columns["n"][0, 2] += 1


def beyond(columns: dict[str, np.ndarray]) -> None:
    columns["place"][0, 2] = 1 << 47


@pytest.mark.parametrize("make", [parts, shapes, heights])
@pytest.mark.parametrize("lie", [swapped, renamed, other_label, more_faces, beyond])
def test_check_reads_the_archives_and_tells_where_the_index_lies(
    make: Callable[[], DataSet], lie: Callable[[dict[str, np.ndarray]], None], tmp_path: Path
) -> None:
    write_shards(make(), tmp_path, most_bytes=SMALL)
    words = ["check", str(tmp_path), "--quiet"]
    assert CliRunner().invoke(app, words).exit_code == 0
    written_again(tmp_path, lie)
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 1, told.output
    assert "write the shards again" in told.stderr and "unexpected" not in told.stderr


def test_check_tells_of_an_archive_that_was_written_since_or_is_cut(tmp_path: Path) -> None:
    write_shards(parts(), tmp_path / "one", most_bytes=SMALL)
    write_shards(shapes(), tmp_path / "two", most_bytes=SMALL)
    first, archive = tmp_path / "one" / "shards" / "00000.tar", tmp_path / "one" / "shards" / "00001.tar"
    shutil.copy(tmp_path / "two" / "shards" / "00000.tar", first)
    archive.write_bytes(archive.read_bytes()[:2000])
    told = CliRunner().invoke(app, ["check", str(tmp_path / "one"), "--quiet"])
    assert told.exit_code == 1
    for name in ("00000.tar: train_0", "00001.tar"):
        assert f"{name}" in told.stderr, told.stderr
    assert "unexpected" not in told.stderr


LIES: dict[str, Callable[[dict[str, np.ndarray]], None]] = {
    "split": lambda columns: columns["split"].__setitem__(0, -1),
    "splits": lambda columns: columns["split"].__setitem__(0, 3),
    "before": lambda columns: columns["place"].__setitem__((0, 1), 0),
    "far": lambda columns: columns["place"].__setitem__((0, 1), 1 << 62),
    "nan": lambda columns: columns["radius"].__setitem__(0, np.nan),
    "rows": lambda columns: columns.update(n=columns["n"][:-1]),
    "classes": lambda columns: columns.update(labels=columns["labels"][:, :-1]),
    "kind": lambda columns: columns.update(place=columns["place"].astype(float)),
    "words": lambda columns: columns.update(shape=columns["n"][:, 0]),
    "names": lambda columns: columns.update(name=np.zeros(10**6, dtype=np.uint8)),
    "text": lambda columns: columns["name"].__setitem__(0, 255),
    "none": lambda columns: columns.update({key: column[:0] for key, column in columns.items()}),
    "packed": lambda columns: columns.update(place=np.zeros((10**6, 5), dtype=np.int64)),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_index_with_nonsense_in_it_is_refused(lie: str, tmp_path: Path) -> None:
    write_shards(parts(), tmp_path)
    written_again(tmp_path, LIES[lie])
    with pytest.raises(DataError, match=r"index.npz: the index of the shards cannot be read"):
        open_dataset(tmp_path)


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
    with pytest.raises(DataError, match="remove `meshes`: `shards` contain"):
        open_dataset(tmp_path)
    spec.write_text(said)
    (tmp_path / "index.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="index of the shards cannot be read"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("bomb", ["packed", "numbers"])
def test_an_index_of_shards_takes_no_more_than_its_bytes_allow(bomb: str, tmp_path: Path) -> None:
    write_shards(parts(), tmp_path)
    with np.load(tmp_path / "index.npz") as stored:
        columns = dict(stored)
    if bomb == "packed":
        columns["shares"] = np.zeros(300 << 20, dtype=np.uint8)
    else:
        columns["place"][-1, 0] = 10**7  # archives, each of which would be named
    np.savez_compressed(tmp_path / "index.npz", **columns)
    tracemalloc.start()
    try:
        opened = open_dataset(tmp_path)
        assert bomb == "numbers" and len(opened.split("train")) > 1
    except DataError as error:
        assert bomb == "packed" and "unpack to" in str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100 << 20
