"""Prediction and label saving killed at any moment: what is there is whole, and going on ends as if nothing was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attack.kills import told_by
from attack.mutate import tally
from clock import PATIENCE
from command import run
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere

N_MESHES = 12
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meshes")
    for i in range(N_MESHES):
        save_mesh(icosphere(2, f"ball_{i:02}"), folder / f"ball_{i:02}.obj")
    return folder


# A prediction that takes a moment for each mesh, in the process that is killed.
PREDICTING = """
import signal, time
from hodgeformer.cli import main
from hodgeformer.predict.result import Result
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what runs in the background
real = Result.save
def slow(*given):
    time.sleep(0.1)
    real(*given)
Result.save = slow
main()
"""


def start(model: Path, meshes: Path, out: Path) -> subprocess.Popen[str]:
    words = ["predict", str(model), str(meshes), "--out", str(out), "--format", "ply,json,txt", "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-c", PREDICTING, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def content(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.suffix != ".tmp"}


def wait_for_some(out: Path, n: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and not (out.is_dir() and len(content(out)) >= n):
        assert time.monotonic() < deadline, "nothing is written"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.attack)])
def test_a_stopped_prediction_keeps_what_is_done_and_goes_on(
    model: Path, meshes: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    with start(model, meshes, out) as process:
        wait_for_some(out, 4, process)
        os.killpg(process.pid, number)  # as `timeout` and job schedulers do
        said, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, told
    assert told.count("\n") == 1 and "run the same command to continue" in told
    done = content(out)
    n_done = int(said.splitlines()[-1].split()[0])
    assert 1 <= n_done < N_MESHES and 3 * n_done <= len(done) < 3 * n_done + 3
    assert not list(out.rglob(".*.tmp"))  # no drafts
    again = run("predict", model, meshes, "--out", out, "--format", "ply,json,txt", "--quiet", "--json")
    assert again.exit_code == 0, again.output
    assert len(json.loads(again.stdout)["results"]) == N_MESHES - n_done
    assert len(content(out)) == 3 * N_MESHES
    assert {name: content(out)[name] for name in done} == done


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.attack(minutes=2))])
def test_killed_predictions_and_label_savings_lose_nothing(kills: int, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
    told = told_by("kill_saving.py", kills, tmp_path)
    sys.stdout.write(f"{json.dumps(told)}\n")
    for what, of in told.items():
        tally(f"kills while saving {what}", of["kills"], f"{of['inside']} inside the work, nothing lost")
    assert all(of["kills"] == kills for of in told.values())
    assert kills < 10 or all(of["inside"] > kills // 2 for of in told.values())
