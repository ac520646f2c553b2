"""Prediction and label saving killed at any moment: what is there is whole, and going on ends as if nothing was."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.mesh.io import load_mesh, save_mesh
from meshes import icosphere
from tiny_models import write_tiny

N_MESHES = 12
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meshes")
    for i in range(N_MESHES):
        save_mesh(icosphere(2, f"ball_{i:02}"), folder / f"ball_{i:02}.obj")
    return folder


# A prediction that takes a moment for each mesh, in the process that is killed.
PREDICTING = """
import time
from hodgeformer.cli import main
from hodgeformer.predict.result import Result
real = Result.save
def slow(*given):
    time.sleep(PAUSE)
    real(*given)
Result.save = slow
main()
"""


def start(model: Path, meshes: Path, out: Path, *more: str, pause: float = 0.1) -> subprocess.Popen[str]:
    words = ["predict", str(model), str(meshes), "--out", str(out), "--format", "ply,json,txt", "--quiet", *more]
    return subprocess.Popen(
        [sys.executable, "-c", PREDICTING.replace("PAUSE", str(pause)), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def content(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.suffix != ".tmp"}


def wait_for_some(out: Path, n: int, process: subprocess.Popen[str]) -> None:
    for _ in range(3000):
        if process.poll() is not None or (out.is_dir() and len(content(out)) >= n):
            return
        time.sleep(0.02)
    raise AssertionError("nothing is written")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.attack)])
def test_a_stopped_prediction_keeps_what_is_done_and_goes_on(
    model: Path, meshes: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    with start(model, meshes, out) as process:
        wait_for_some(out, 4, process)
        os.killpg(process.pid, number)  # as `timeout` and job schedulers do
        said, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert told.count("\n") == 1 and "go on with the same words" in told
    done = content(out)
    n_done = int(said.splitlines()[-1].split()[0])
    assert 1 <= n_done < N_MESHES and 3 * n_done <= len(done) < 3 * n_done + 3
    assert not list(out.rglob(".*.tmp"))  # no drafts
    with start(model, meshes, out, "--json", pause=0) as again:
        said, told = again.communicate(timeout=120)
    assert again.returncode == 0, told
    assert len(json.loads(said)["results"]) == N_MESHES - n_done
    assert len(content(out)) == 3 * N_MESHES
    assert {name: content(out)[name] for name in done} == done


def finish(process: subprocess.Popen[str]) -> None:
    with process:
        _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told


@pytest.mark.attack
def test_fifty_killed_predictions_leave_whole_files(model: Path, meshes: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments; every file that is there is whole; going on gives what an undisturbed run gives."""
    rng = random.Random(1)
    expected, out = tmp_path / "expected", tmp_path / "out"
    finish(start(model, meshes, expected, pause=0))
    whole = content(expected)
    for _ in range(50):
        with start(model, meshes, out, pause=0.02) as process:
            wait_for_some(out, rng.randrange(1, 3 * N_MESHES), process)
            time.sleep(rng.random() * 0.05)
            os.killpg(process.pid, signal.SIGKILL)
        assert all(whole[name] == data for name, data in content(out).items())
        if len(content(out)) == 3 * N_MESHES:
            shutil.rmtree(out)
    finish(start(model, meshes, out, pause=0))
    assert content(out) == whole


# Labels of one value everywhere, saved again and again.
SAVING = """
import sys
from itertools import count
from pathlib import Path
import numpy as np
from hodgeformer.mesh.io import load_mesh
from hodgeformer.viewer.open_meshes import OpenMesh
from hodgeformer.viewer.outbox import Annotation, Outbox
opened = OpenMesh(load_mesh(sys.argv[1]))
outbox = Outbox(Path(sys.argv[2]))
for i in count():
    annotation = Annotation(np.full(opened.mesh.n_faces, i % 2), ("a", "b"), ((1, 2, 3), (4, 5, 6)))
    outbox.save(opened, annotation)
    outbox.add_to_data_set(opened, annotation, "set")
    print(i, flush=True)
"""


def kill_savings(meshes: Path, tmp_path: Path, n_kills: int, seed: int) -> None:
    from hodgeformer.data.folder import open_folder

    rng, out = random.Random(seed), tmp_path / "out"
    for _ in range(n_kills):
        words = [sys.executable, "-c", SAVING, str(meshes / "ball_00.obj"), str(out)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(rng.randrange(1, 6)):
                process.stdout.readline()
            time.sleep(rng.random() * 0.03)
            process.kill()
        data = open_folder(out / "set")
        (sample,) = data.samples
        assert len(np.unique(data.load(sample)[1])) == 1  # never half of one and half of the other
        for path in out.glob("ball_00*.txt"):
            assert len(set(path.read_text().split())) == 1 and len(path.read_text().split()) == 320
        for path in out.glob("ball_00*.ply"):
            assert len(np.unique(load_mesh(path).attributes["face_labels"])) == 1
        for path in out.glob("ball_00*.json"):
            assert json.loads(path.read_text())["classes"] == ["a", "b"]


def test_killed_label_saving_leaves_whole_labels(meshes: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
    kill_savings(meshes, tmp_path, 1, seed=0)


@pytest.mark.attack
def test_fifty_killed_label_savings_leave_whole_labels(meshes: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
    kill_savings(meshes, tmp_path, 50, seed=1)
