"""Workers do not depend on what the program is that trains, nor on how it was started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from clock import PATIENCE
from hodgeformer.base.errors import DataError
from hodgeformer.data import worker
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.labels import Values
from hodgeformer.data.loader import BatchSource, Loader
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.pack import Batch


def first_batch(dataset: DataSet, n_workers: int) -> Batch:
    source = BatchSource(dataset, prepare=PrepareConfig(n_neighbors=8))
    with Loader(source, batch_size=2, n_workers=n_workers) as loader:
        return next(loader.batches(0))


def same(a: Batch, b: Batch) -> bool:
    return a.names == b.names and torch.equal(a.x_in.f, b.x_in.f) and torch.equal(a.target, b.target)


def with_targets(dataset: DataSet, kind: type) -> DataSet:
    """The labels in memory, held by a class of another maker."""
    samples = (replace(s, target=kind(dataset.load(s)[1])) for s in dataset.split("train"))
    return dataset.with_splits({"train": tuple(samples)})


SCRIPT = """
import sys
from hodgeformer.data.loader import BatchSource, Loader
from hodgeformer.data.synthetic import synthetic_cubes
from hodgeformer.mesh.prepare import PrepareConfig

sys.path.insert(0, "shadows")
dataset = synthetic_cubes(n_classes=2, n_train=2, n_test=0, n_faces=100)
source = BatchSource(dataset, prepare=PrepareConfig())
with Loader(source, batch_size=1, n_workers=2) as loader:
    print([len(batch.names) for batch in loader.batches(0)])
"""


@pytest.mark.parametrize("how", ["command", "standard input"])
def test_any_start_of_the_program_will_do_beside_files_named_like_modules(tmp_path: Path, how: str) -> None:
    """Neither is a file that a worker could import, and both look for modules in the current folder."""
    (tmp_path / "shadows").mkdir()
    for name in ("random.py", "math.py", "socket.py"):
        (tmp_path / "shadows" / name).write_text("raise SystemExit('imported')")
    words = ["-c", SCRIPT] if how == "command" else ["-"]
    run = subprocess.run(
        [sys.executable, *words],
        input=SCRIPT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "[1, 1, 1, 1]\n", "")


def test_without_fork_workers_are_processes_that_answer_on_their_standard_output(
    figures: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_FORKS", False)
    assert same(first_batch(figures, 2), first_batch(figures, 0))


def defined_in(module: str) -> type:
    class Own(Values):
        pass

    Own.__qualname__, Own.__module__ = "Own", module
    return Own


@pytest.mark.parametrize("module", ["__main__", "tests_of_nobody"])
def test_classes_of_the_script_are_used_where_they_are(
    figures: DataSet, module: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kind = defined_in(module)
    monkeypatch.setattr(sys.modules["__main__"], "Own", kind, raising=False)
    assert same(first_batch(with_targets(figures, kind), 1), first_batch(figures, 0))
    assert "without data workers" in caplog.text and "define its class in a module" in caplog.text


def test_a_class_that_a_worker_cannot_import_is_named(figures: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.ModuleType("made_in_memory")
    made.Own = defined_in("made_in_memory")
    monkeypatch.setitem(sys.modules, "made_in_memory", made)
    with pytest.raises(RuntimeError, match=r"train\.workers=0(.|\n)*No module named 'made_in_memory'"):
        first_batch(with_targets(figures, made.Own), 1)


def test_a_worker_is_where_the_program_is_now(
    figures: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = []
    for sample in figures.split("train"):
        mesh, labels = figures.load(sample)
        save_mesh(mesh, tmp_path / f"{len(samples)}.obj")
        samples.append(replace(sample, mesh=Path(f"{len(samples)}.obj"), target=Values(labels)))
    first_batch(figures, 1)  # the first start is elsewhere
    monkeypatch.chdir(tmp_path)
    assert len(first_batch(figures.with_splits({"train": samples}), 1).names) == 2


@pytest.mark.skipif(os.name == "nt", reason="has no fork")
def test_a_killed_forker_is_replaced(figures: DataSet) -> None:
    first_batch(figures, 1)
    forker, _ = worker._forker(os.getpid())
    forker.kill()
    forker.wait()
    assert same(first_batch(figures, 1), first_batch(figures, 0))


def test_a_worker_that_cannot_start_says_so(figures: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_FORKS", False)
    monkeypatch.setattr(worker, "get_executable", lambda: shutil.which("false") or sys.executable + "w")
    with pytest.raises(DataError, match="could not start"):
        first_batch(figures, 1)


def test_only_what_is_read_is_sent(figures: DataSet) -> None:
    """A class of the script in a split that is not trained on does not keep workers away."""
    kind = defined_in("__main__")
    others = with_targets(figures.with_splits({"train": figures.split("test")}), kind).split("train")
    dataset = figures.with_splits({"train": figures.split("train"), "test": others})
    source = BatchSource(dataset, prepare=PrepareConfig(n_neighbors=8))
    with Loader(source, batch_size=2, n_workers=1) as loader:
        next(loader.batches(0))
        assert len(loader._workers) == 1
