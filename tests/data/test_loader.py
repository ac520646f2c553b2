from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock import PATIENCE
from deadly_target import KillsItsProcess
from hodgeformer.base.errors import DataError, MeshFormatError
from hodgeformer.data import worker
from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Codes, LabelFile, Values
from hodgeformer.data.loader import BatchSource, Loader, epoch_order, stream_seed
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.pack import Batch

PREPARE = PrepareConfig(n_neighbors=8)
AUGMENT = AugmentConfig(mirror=0.5, scale=0.2)


def tensors(batch: Batch) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    batch.map(note)
    return found


def same(a: Batch, b: Batch) -> bool:
    return a.names == b.names and all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


def training(dataset: DataSet, **changes: object) -> Loader:
    about = {"prepare": PREPARE, "augment": AUGMENT, "seed": 5}
    about |= {name: changes.pop(name) for name in ("prepare", "augment", "model") if name in changes}
    return Loader(BatchSource(dataset, **about), **{"batch_size": 2, **changes})


@pytest.fixture(scope="module")
def two_epochs(figures: DataSet) -> list[Batch]:
    loader = training(figures)
    return [batch for epoch in range(2) for batch in loader.batches(epoch)]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_the_stream_does_not_depend_on_the_workers(figures: DataSet, two_epochs: list[Batch], n_workers: int) -> None:
    with training(figures, n_workers=n_workers) as loader:
        torch.manual_seed(0)
        expected = torch.rand(3)
        torch.manual_seed(0)
        found = [batch for epoch in range(2) for batch in loader.batches(epoch)]
        assert torch.equal(torch.rand(3), expected), "the loader must not draw from the generator of the model"
        assert len(found) == len(two_epochs)
        assert all(same(a, b) for a, b in zip(found, two_epochs, strict=True))
        # From the middle of an epoch, after it was left in the middle.
        for _ in loader.batches(0):
            break
        again = list(loader.batches(1, start_batch=1))
        assert all(same(a, b) for a, b in zip(again, two_epochs[4:], strict=True))


def test_every_epoch_shows_every_mesh_once_and_otherwise(figures: DataSet, two_epochs: list[Batch]) -> None:
    first, second = two_epochs[:3], two_epochs[3:]
    for epoch in (first, second):
        assert sorted(name for batch in epoch for name in batch.names) == sorted(s.name for s in figures.split("train"))
    by_name = [dict(zip(b.names, b.split(b.x_in.f, "f"), strict=True)) for b in (*first, *second)]
    early, late = ({k: v for part in parts for k, v in part.items()} for parts in (by_name[:3], by_name[3:]))
    for name, features in early.items():
        assert not torch.equal(features, late[name])


def test_targets_follow_their_faces(figures: DataSet) -> None:
    """Without changes of shape, faces carry the label that the file gives to the same corners."""
    loader = training(figures, augment=None)
    by_name = {sample.name: sample for sample in figures.split("train")}
    for batch in loader.batches(0):
        for name, target in zip(batch.names, batch.split(batch.target, "f"), strict=True):
            mesh, labels = figures.load(by_name[name])
            order = prepare(mesh, PREPARE).order.f
            assert target.tolist() == labels[order].tolist()


def test_random_connections_change_with_the_epoch(figures: DataSet) -> None:
    loader = training(figures, augment=None, batch_size=5)
    (first,), (second,) = list(loader.batches(0)), list(loader.batches(1))
    by_name = [dict(zip(b.names, b.split(b.x_in.f, "f"), strict=True)) for b in (first, second)]
    assert all(torch.equal(features, by_name[1][name]) for name, features in by_name[0].items())
    indices = [sorted(b.topology.patterns.f.indices.tolist()) for b in (first, second)]
    assert indices[0] != indices[1]


def test_training_batches_carry_transposed_patterns(two_epochs: list[Batch]) -> None:
    assert "transposed" in two_epochs[0].topology.patterns.e.__dict__


def test_a_model_that_spreads_gets_the_surface_and_nothing_that_it_does_not_read(figures: DataSet) -> None:
    model = ModelConfig(task="segmentation", n_classes=8, blocks="DD", updates="v")
    with training(figures, n_workers=1, model=model) as loader:
        batch = next(iter(loader.batches(0)))
    assert batch.topology.patterns.e.nnz == 0
    assert torch.isnan(batch.x_in.e).all() and torch.isfinite(batch.x_in.v).all()
    assert {"gradient", "curl", "face_corners"} & set(batch.topology.__dict__) == {"gradient", "face_corners"}
    found, topology = batch.topology.__dict__.pop("surface"), batch.topology
    assert torch.equal(found.neighborhoods.neighbors, topology.surface.neighborhoods.neighbors)


def test_shares_of_all_ranks_are_the_batch(figures: DataSet) -> None:
    whole = list(training(figures, batch_size=4).batches(1))
    assert len(whole) == 2
    shares = [list(training(figures, batch_size=4, rank=rank, world_size=2).batches(1)) for rank in range(2)]
    for number, batch in enumerate(whole):
        features = {}
        for part in (ranks[number] for ranks in shares):
            features |= dict(zip(part.names, part.split(part.x_in.e, "e"), strict=True))
        assert set(features) == set(batch.names)
        assert sum(len(ranks[number].names) for ranks in shares) == len(batch.names)  # none twice
        for name, expected in zip(batch.names, batch.split(batch.x_in.e, "e"), strict=True):
            assert torch.equal(features[name], expected)


def test_more_processes_than_meshes_in_a_batch(figures: DataSet) -> None:
    with pytest.raises(DataError, match="cannot be shared by 3 processes"):
        list(training(figures, world_size=3).batches(0))


@pytest.mark.parametrize("pose", ["frame", "frame_average"])
def test_a_frame_is_taken_before_the_changes(figures: DataSet, pose: str) -> None:
    """In a frame a mesh and its rotated copy look alike; a tilt after it must survive."""
    config = PREPARE.replace(pose=pose)
    still, tilted = (
        next(training(figures, prepare=config, augment=AugmentConfig(rotation="none", slide=0, tilt=tilt)).batches(0))
        for tilt in (0, 20)
    )

    def corners(batch: Batch) -> np.ndarray:
        first = batch.split(batch.x_in.f, "f")[0][:, :9].reshape(-1, 3).numpy()
        return first[np.lexsort(first.round(3).T)]

    assert not np.allclose(corners(still), corners(tilted), atol=1e-3)


def test_classification_targets_are_one_per_mesh(cubes: DataSet) -> None:
    batch = next(training(cubes, batch_size=9).batches(0))
    assert batch.target.shape == (9,)
    names = [cubes.classes[label] for label in batch.target.tolist()]
    assert all(name.startswith(label) for name, label in zip(batch.names, names, strict=True))


@pytest.mark.parametrize("element", ["vertex", "edge"])
def test_targets_of_other_elements(figures: DataSet, element: str, tmp_path: Path) -> None:
    sample = figures.split("train")[0]
    mesh, labels = figures.load(sample)
    path = tmp_path / "labels.fseg"
    np.savetxt(path, labels, fmt="%d")
    kind = element[0]
    one = Sample(sample.name, mesh, LabelFile(path, "f", kind, Codes.counted_from(0, 8)))
    dataset = replace(figures, element=element, splits={"train": (one,)})
    batch = next(training(dataset).batches(0))
    assert len(batch.target) == batch.n[kind]


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_bad_mesh_is_named(figures: DataSet, tmp_path: Path, n_workers: int) -> None:
    bad = Sample("broken", tmp_path / "broken.obj", figures.samples[0].target)
    (tmp_path / "broken.obj").write_text("v 0 0 zero\n")
    dataset = figures.with_splits({"train": (bad, *figures.split("train"))})
    with (
        training(dataset, n_workers=n_workers) as loader,
        pytest.raises(MeshFormatError, match=r"broken\.obj"),
    ):
        list(loader.batches(0))


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.parametrize("forks", [True, False])
def test_a_killed_worker_ends_with_the_name_of_its_mesh(
    figures: DataSet, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_FORKS", forks)
    deadly = Sample("deadly", figures.samples[0].mesh, KillsItsProcess())
    dataset = figures.with_splits({"train": (deadly,)})
    with training(dataset, n_workers=1) as loader, pytest.raises(DataError, match="killed while preparing deadly"):
        list(loader.batches(0))


ENDLESS = """
from hodgeformer.data.loader import BatchSource, Loader
from hodgeformer.data.synthetic import synthetic_cubes
from hodgeformer.mesh.prepare import PrepareConfig

dataset = synthetic_cubes(n_classes=2, n_train=2, n_test=0, n_faces=100)
source = BatchSource(dataset, prepare=PrepareConfig())
loader = Loader(source, batch_size=8, n_workers=1)
for epoch in range(10**9):
    for _ in loader.batches(epoch):
        print("batch", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_workers_leave_stopping_to_the_main_process(figures: DataSet, two_epochs: list[Batch]) -> None:
    """A signal to the whole group, as schedulers send it, must not look like a lack of memory."""
    with training(figures, n_workers=1) as loader:
        stream = loader.batches(0)
        assert same(next(stream), two_epochs[0])
        (one,) = loader._workers
        assert one.process_id not in (None, os.getpid())
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(one.process_id, number)
        assert [same(a, b) for a, b in zip(stream, two_epochs[1:3], strict=True)] == [True, True]


def test_a_loader_that_is_not_closed_lets_its_process_end(tmp_path: Path) -> None:
    script = tmp_path / "leaving.py"
    script.write_text(ENDLESS.replace('print("batch", flush=True)', "raise SystemExit(7)"))
    assert subprocess.run([sys.executable, str(script)], timeout=PATIENCE, check=False).returncode == 7


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_workers_do_not_outlive_a_killed_process(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        # The pipe ends when the last process that holds it does, and the workers hold it.
        process.communicate(timeout=PATIENCE)


def test_finer_meshes_come_at_the_working_resolution_in_new_triangulations(figures: DataSet) -> None:
    changes = {"prepare": PREPARE.replace(faces=120), "augment": AUGMENT.replace(resolution=1.4)}
    alone = training(figures, **changes)
    first, second = (list(alone.batches(epoch)) for epoch in range(2))
    sizes = [dict(zip(b.names, map(len, b.split(b.target, "f")), strict=True)) for b in (*first, *second)]
    early, late = ({k: v for part in parts for k, v in part.items()} for parts in (sizes[:3], sizes[3:]))
    assert all(120 / 1.45 <= n <= 120 * 1.45 for n in (*early.values(), *late.values()))
    assert all(early[name] != late[name] for name in early)
    with training(figures, n_workers=2, **changes) as loader:
        assert all(same(a, b) for a, b in zip(loader.batches(1), second, strict=True)), "as if never stopped"
    for batch in first:
        assert set(batch.target.tolist()) == set(range(len(figures.classes))), "no part is lost"


def test_values_are_carried_to_the_working_resolution(figures: DataSet) -> None:
    """The height of a vertex, as a regression: at the working resolution it is near the height there."""
    samples = []
    for sample in figures.split("train")[:2]:
        mesh, _ = figures.load(sample)
        samples.append(Sample(sample.name, mesh, Values(mesh.vertices[:, 1:2].astype(np.float32))))
    heights = DataSet("heights", "regression", "vertex", {"train": tuple(samples)})
    (batch,) = training(heights, prepare=PREPARE.replace(faces=150), augment=None).batches(0)
    for name, target, features in zip(
        batch.names, batch.split(batch.target, "v"), batch.split(batch.x_in.v, "v"), strict=True
    ):
        correlation = np.corrcoef(target[:, 0], features[:, 1])[0, 1]
        assert correlation > 0.95, name


@given(st.integers(1, 200), st.integers(1, 40))
def test_batches_contain_every_mesh_once_and_are_even(n: int, size: int) -> None:
    keys = Loader(SimpleNamespace(samples=range(n), seed=1), batch_size=size).keys(2)
    assert [i for key in keys for i in key.members] == epoch_order(n, 1, 2).tolist()
    lengths = [len(key.members) for key in keys]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


def test_orders_differ_by_epoch_and_seed_only() -> None:
    orders = [tuple(epoch_order(50, seed, epoch).tolist()) for seed in range(3) for epoch in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len(set(orders)) == 9


def test_streams_of_one_place_differ_by_purpose() -> None:
    states = {tuple(stream_seed(purpose, 0, 1, 2).generate_state(2)) for purpose in ("order", "shape", "connections")}
    assert len(states) == 3
