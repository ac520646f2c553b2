from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.containers import KINDS
from hodgeformer.data.cache import Cache, load_cached, prepared_arrays, prepared_from_arrays, prepared_key
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import open_folder
from hodgeformer.errors import DataError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare

ARRAYS = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.array([0.5])}


def test_there_and_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get("ab12") is None
    cache.put("ab12", ARRAYS)
    found = cache.get("ab12")
    assert found is not None
    assert all(
        np.array_equal(found[name], array) and found[name].dtype == array.dtype for name, array in ARRAYS.items()
    )
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"\xff" * 100])
def test_a_damaged_file_counts_as_absent(tmp_path: Path, damage) -> None:
    cache = Cache(tmp_path)
    cache.put("ab12", ARRAYS)
    (path,) = tmp_path.rglob("*.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("ab12") is None
    cache.put("ab12", ARRAYS)
    assert cache.get("ab12") is not None


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for number in range(4):
        cache.put(f"0{number}", ARRAYS)
        (path,) = tmp_path.glob(f"0{number}/*")
        os.utime(path, (number, number))
    cache.get("00")
    size = path.stat().st_size
    Cache(tmp_path, max_bytes=3 * size).put("99", ARRAYS)
    assert [key for key in ("00", "01", "02", "03", "99") if cache.get(key)] == ["00", "03", "99"]


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file")
    cache.put("ab12", ARRAYS)
    assert cache.get("ab12") is None


def test_what_is_read_from_the_cache_follows_the_files(figure_folder: Path, tmp_path: Path) -> None:
    dataset, cache = open_folder(figure_folder), Cache(tmp_path / "cache")
    sample = dataset.samples[0]
    for _ in range(2):
        mesh, target = load_cached(cache, dataset, sample)
        expected, expected_target = dataset.load(sample)
        assert np.array_equal(mesh.vertices, expected.vertices)
        assert np.array_equal(target, expected_target)
        assert mesh.name == expected.name
    path = figure_folder / "labels" / f"{sample.name}.txt"
    labels = path.read_text().split()
    path.write_text(" ".join(["7", *labels[1:]]))
    assert load_cached(cache, dataset, sample)[1][0] == 7
    path.unlink()
    with pytest.raises(DataError, match="missing"):
        load_cached(cache, dataset, sample)


def test_a_prepared_mesh_survives(figures: DataSet) -> None:
    mesh, _ = figures.load(figures.samples[0])
    prepared = prepare(mesh, PrepareConfig())
    again = prepared_from_arrays(prepared_arrays(prepared), mesh.name)
    assert again.n == prepared.n
    assert again.name == prepared.name
    for kind in KINDS:
        assert np.array_equal(again.x_in[kind], prepared.x_in[kind])
        assert np.array_equal(again.patterns[kind].indices, prepared.patterns[kind].indices)
        values = np.arange(prepared.n[kind])
        assert np.array_equal(again.to_file_order(values, kind), prepared.to_file_order(values, kind))


def test_keys_see_everything_that_matters(octahedron: Mesh) -> None:
    config = PrepareConfig()
    moved = octahedron.with_vertices(octahedron.vertices * 1.5)
    keys = {
        prepared_key(octahedron, config, 0),
        prepared_key(octahedron, config, 1),
        prepared_key(moved, config, 0),
        prepared_key(octahedron, config.replace(seed=1), 0),
        prepared_key(octahedron, config.replace(pose="frame"), 0),
    }
    assert len(keys) == 5
