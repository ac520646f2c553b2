"""Real processes: killed without warning and resumed, interrupted, and two that train as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from clock import PATIENCE
from command import options, run
from hodgeformer.base.errors import ConfigError
from hodgeformer.data.folder import open_folder, write_folder
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.training.calibration import calibrated
from hodgeformer.training.distributed import interleaved, joined
from hodgeformer.training.evaluate import Evaluator
from hodgeformer.training.run import train
from hodgeformer.training.run_folder import RunFolder
from tiny_sets import TINY, shapes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL and no torchrun over gloo there")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shapes")
    write_folder(shapes(), root)
    return root


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """In a process group of its own."""
    command = [sys.executable, "-m", "hodgeformer", "train", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe, start_new_session=True)


def wait_for_progress(process: subprocess.Popen[str], state: Path, since: int) -> None:
    """Until this process has saved a state, or ended."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        if state.exists() and state.stat().st_mtime_ns > since:
            return
        time.sleep(0.01)


def same_weights(first: Path, second: Path) -> bool:
    one, two = (load_checkpoint(path).weights for path in (first, second))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_a_killed_command_is_resumed_to_the_same_weights(folder: Path, tmp_path: Path) -> None:
    """Once; tests/attack/test_training.py kills at many moments."""
    settings = [*TINY, "train.epochs=30", "train.save_every=0.002", "train.calibrate=false"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(folder, whole, overrides=settings)
    process = start(folder, "--out", killed, *options(*settings))
    wait_for_progress(process, killed / "state.safetensors", 0)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    resumed = run("train", "--resume", killed)
    assert resumed.exit_code == 0 and "continuing at epoch" in resumed.stderr
    for name in ("best.safetensors", "last.safetensors"):
        assert same_weights(whole / name, killed / name)
    losses = [[row["train_loss"] for row in RunFolder(root).rows()[0]] for root in (whole, killed)]
    assert losses[0] == losses[1] and len(losses[0]) == 30


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.attack)])
def test_an_interrupt_of_the_group_saves_and_says_how_to_go_on(folder: Path, tmp_path: Path, number: int) -> None:
    """Terminals send Ctrl-C to the whole group of processes, job schedulers SIGTERM: workers leave it to the parent."""
    out = tmp_path / "run"
    many = ("train.epochs=5000", "train.eval_every=5000", "train.workers=2")
    process = start(folder, "--out", out, *options(*TINY, *many))
    wait_for_progress(process, out / "state.safetensors", 0)
    first = out.joinpath("state.safetensors").stat().st_mtime_ns
    wait_for_progress(process, out / "state.safetensors", first)  # the end of the first epoch: workers are at it
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"continue with: hodgeformer train --resume {out}" in errors and "Traceback" not in errors


def torchrun(*arguments: str | Path, restarts: int = 0) -> subprocess.Popen[str]:
    """Two processes that train together."""
    agent = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    command = [sys.executable, "-m", *agent, "--monitor-interval", "0.1", "-m", "hodgeformer", "train"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *map(str, arguments)], env=environment, text=True, stdout=pipe, stderr=pipe)


SHARED = [*TINY, "train.epochs=8", "model.dropout=0.0", "train.batch_size=4"]


@pytest.mark.slow
def test_two_processes_train_as_one_even_if_one_is_killed(tmp_path: Path) -> None:
    data, alone, killed = tmp_path / "data", tmp_path / "alone", tmp_path / "killed"
    write_folder(shapes(n_val=3), data)
    train(data, alone, overrides=SHARED)
    assert "continuing at epoch" in trained_although_one_is_killed(data, killed)
    same_to_rounding(alone, killed)
    calibrated_on_all(killed / "best.safetensors", data)


@pytest.mark.attack
def test_two_processes_of_which_one_is_killed_end_with_the_weights_of_two_that_are_left_alone(tmp_path: Path) -> None:
    data, whole, killed = tmp_path / "data", tmp_path / "whole", tmp_path / "killed"
    write_folder(shapes(n_val=3), data)
    both = torchrun(data, "--out", whole, *options(*SHARED))
    told, errors = both.communicate(timeout=PATIENCE)
    assert both.returncode == 0, errors
    assert told.count("model: ") == 1
    trained_although_one_is_killed(data, killed)
    assert same_weights(killed / "last.safetensors", whole / "last.safetensors")


def trained_although_one_is_killed(data: Path, out: Path) -> str:
    """The first of them, which owns the folder and writes; torchrun starts both again with the same command."""
    both = torchrun(data, "--out", out, *options(*SHARED), restarts=1)
    wait_for_progress(both, out / "metrics.csv", 0)  # an epoch lies behind them
    listed = subprocess.run(["pgrep", "-P", str(both.pid)], capture_output=True, text=True, check=True)
    os.kill(min(map(int, listed.stdout.split())), signal.SIGKILL)
    _, errors = both.communicate(timeout=PATIENCE)
    assert both.returncode == 0, errors
    return errors


def same_to_rounding(first: Path, second: Path) -> None:
    """Although meshes are shared out and the head must see the statistics of all."""
    for one, two in zip(*(RunFolder(root).rows()[0] for root in (first, second)), strict=True):
        assert float(one["train_loss"]) == pytest.approx(float(two["train_loss"]), rel=2e-4)
    expected, found = (load_checkpoint(root / "last.safetensors").weights for root in (first, second))
    for name, value in expected.items():
        torch.testing.assert_close(found[name].float(), value.float(), rtol=0.02, atol=2e-3, msg=name)


def calibrated_on_all(model: Path, data: Path) -> None:
    """With three of the six validation meshes each there would be too few to tell what is familiar."""
    chosen, dataset = load_checkpoint(model), open_folder(data)
    evaluator = Evaluator(dataset, dataset.split("val"), chosen.prepare)
    alone = calibrated(chosen, evaluator.answers(chosen.build_model()))
    assert alone.familiarity is not None and chosen.familiarity is not None
    assert (chosen.temperature, chosen.heights) == (alone.temperature, alone.heights)
    fitted, expected = (model.familiarity.model_dump() for model in (chosen, alone))
    torch.testing.assert_close(fitted, expected, rtol=1e-4, atol=1e-5)


def test_restarts_that_torchrun_could_not_do_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"WORLD_SIZE": "2", "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"), joined():
        pass


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_of_shares_are_gathered_completely_and_in_order(count: int) -> None:
    """A rehearsal shares its meshes, and several follow each other: processes then differ by more than one item."""
    some, others, last = [0, 1, 2], [3, 4, 5, 6, 7], [8]
    assert interleaved([others[rank::count] for rank in range(count)]) == others
    shares = [[x for each in (some, others, last) for x in each[rank::count]] for rank in range(count)]
    assert sorted(interleaved(shares)) == [*some, *others, *last]
