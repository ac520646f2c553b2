"""A checkpoint gives back what was saved, or says why not; the file before it survives a failed write."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hodgeformer.base.errors import CheckpointError
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    write_tensors,
)
from hodgeformer.predict.model_info import DataStatistics
from meshes import icosphere, open_grid


@pytest.fixture
def checkpoint() -> Checkpoint:
    torch.manual_seed(0)
    config = ModelConfig(task="classification", n_classes=3, blocks="HT", d_model=16, d_hidden=32, n_heads=2)
    return Checkpoint(
        model=config,
        prepare=PrepareConfig(pose="frame", seed=7, n_neighbors={"v": 5, "e": 6, "f": 7}, max_neighbors=None),
        weights=HodgeFormer(config).state_dict(),
        name="tiny",
        classes=("a", "b", "ü"),
        colors=((1, 2, 3), (4, 5, 6), (7, 8, 9)),
        metrics={"test_mesh_accuracy": 0.5},
        statistics=DataStatistics(
            n_meshes=2,
            n={"v": (1, 2, 3), "e": (1, 2, 3), "f": (1, 2, 3)},
            size=(0.1, 0.2, 0.3),
            edge_length=(0.1, 0.2, 0.3, 0.4, 0.5),
        ),
        training={"train": {"lr": 1e-3}},
    )


@pytest.fixture
def path(tmp_path: Path, checkpoint: Checkpoint) -> Path:
    save_checkpoint(tmp_path / "m.safetensors", checkpoint)
    return tmp_path / "m.safetensors"


def test_everything_comes_back(path: Path, checkpoint: Checkpoint) -> None:
    loaded = load_checkpoint(path)
    for name in ("model", "prepare", "name", "classes", "colors", "metrics", "statistics", "training", "versions"):
        assert getattr(loaded, name) == getattr(checkpoint, name), name
    assert all(torch.equal(loaded.weights[name], value) for name, value in checkpoint.weights.items())
    assert set(loaded.weights) == set(checkpoint.weights)


def test_the_same_checkpoint_makes_the_same_bytes(path: Path, checkpoint: Checkpoint) -> None:
    before = path.read_bytes()
    save_checkpoint(path, checkpoint)
    assert path.read_bytes() == before


def test_a_built_model_predicts_the_same(path: Path, checkpoint: Checkpoint) -> None:
    batch = pack([prepare(icosphere(1)), prepare(open_grid())])
    built = load_checkpoint(path).build_model()
    assert not built.training
    with torch.no_grad():
        assert torch.equal(built(batch), checkpoint.build_model()(batch))


def test_half_precision_halves_the_file_and_hardly_moves_the_answer(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path / "half.safetensors", checkpoint, half=True)
    save_checkpoint(tmp_path / "full.safetensors", checkpoint)
    loaded = load_checkpoint(tmp_path / "half.safetensors")
    assert {value.dtype for value in loaded.weights.values()} == {torch.float32, torch.int64}
    vectors = [name for name, value in checkpoint.weights.items() if value.ndim < 2]
    assert all(torch.equal(loaded.weights[name], checkpoint.weights[name]) for name in vectors)
    n_matrix = sum(4 * value.numel() for value in checkpoint.weights.values() if value.ndim > 1)
    saved = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("full", "half")]
    assert abs(saved[0] - saved[1] - n_matrix / 2) < 200
    batch = pack([prepare(icosphere(1))])
    with torch.no_grad():
        torch.testing.assert_close(loaded.build_model()(batch), checkpoint.build_model()(batch), atol=0.02, rtol=0.02)


def test_a_file_cut_off_anywhere_is_refused_in_one_line(path: Path) -> None:
    content = path.read_bytes()
    for length in (0, 4, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"m\.safetensors") as refused:
            load_checkpoint(path)
        assert "\n" not in str(refused.value)


def test_any_changed_byte_is_noticed(path: Path) -> None:
    content = path.read_bytes()
    for position in np.linspace(0, len(content) - 1, 60).astype(int):
        changed = bytearray(content)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(CheckpointError):
            load_checkpoint(path)


def test_a_newer_format_says_so(path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint) -> None:
    monkeypatch.setattr("hodgeformer.predict.checkpoint.FORMAT", 99)
    save_checkpoint(path, checkpoint)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 99 is newer"):
        load_checkpoint(path)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="not written by hodgeformer"):
        load_checkpoint(tmp_path / "other.safetensors")
    write_tensors(tmp_path / "state.safetensors", {"x": torch.zeros(2)}, {}, kind="training state")
    with pytest.raises(CheckpointError, match="expected a model file, found a training state file"):
        load_checkpoint(tmp_path / "state.safetensors")
    (tmp_path / "pickle.safetensors").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_checkpoint(tmp_path / "pickle.safetensors")
    with pytest.raises(CheckpointError, match="does not exist"):
        load_checkpoint(tmp_path / "absent.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "deep.safetensors", metadata={"hodgeformer": "[" * 100_000})
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_checkpoint(tmp_path / "deep.safetensors")
    header = json.dumps({"x": {"dtype": "a" * 5000, "shape": [], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "long.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError) as told:
        load_checkpoint(tmp_path / "long.safetensors")
    assert len(str(told.value)) < 500


def test_settings_that_make_no_sense_are_refused(tmp_path: Path, checkpoint: Checkpoint) -> None:
    header = {"model": {"task": "segmentation", "n_classes": 3, "widht": 4}}
    path = tmp_path / "m.safetensors"
    write_tensors(path, checkpoint.weights, {**header, "statistics": None, "prepare": {}}, kind="model")
    with pytest.raises(CheckpointError, match="are invalid"):
        load_checkpoint(path)


def test_weights_of_another_shape_do_not_build(path: Path, checkpoint: Checkpoint) -> None:
    weights = {**checkpoint.weights, "head.out.bias": torch.zeros(4)}
    other = Checkpoint(model=checkpoint.model, prepare=checkpoint.prepare, weights=weights)
    with pytest.raises(CheckpointError, match=r"head\.out\.bias"):
        other.build_model()
    save_checkpoint(path, checkpoint.replace(model=checkpoint.model.replace(d_model=10**6)))
    with pytest.raises(CheckpointError, match=r"m\.safetensors: the weights do not match"):
        load_checkpoint(path).build_model()


def test_the_header_is_readable_json(path: Path) -> None:
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + length])
    assert json.loads(header["__metadata__"]["hodgeformer"])["classes"] == ["a", "b", "ü"]


def test_weights_that_are_no_numbers_are_refused(path: Path, checkpoint: Checkpoint) -> None:
    weights = {**checkpoint.weights, "head.out.bias": torch.tensor([0.0, float("nan"), 0.0])}
    save_checkpoint(path, checkpoint.replace(weights=weights))
    with pytest.raises(CheckpointError, match=r"m\.safetensors: 'head\.out\.bias' contains NaN weights"):
        load_checkpoint(path)
