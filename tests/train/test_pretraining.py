"""Pre-training without labels is a run like any other, and any task begins with what it learned."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from hodgeformer.checkpoint import load_checkpoint
from hodgeformer.cli import app
from hodgeformer.data.folder import write_folder
from hodgeformer.train.fit import fit
from hodgeformer.train.learner import SquaredError
from hodgeformer.train.loop import Stopped
from hodgeformer.train.setup import set_up
from tiny_sets import TINY, parts, shapes
from train.test_fit import Interrupting

SETTINGS = [*TINY, "train.epochs=3"]


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("meshes")
    write_folder(parts(), root)
    return root


@pytest.fixture(scope="module")
def pretrained(meshes: Path) -> Path:
    run = meshes.parent / "pretrained"
    said = [word for setting in SETTINGS for word in ("--set", setting)]
    result = CliRunner().invoke(app, ["pretrain", str(meshes), "--out", str(run), *said])
    assert result.exit_code == 0, result.output
    assert f"--from {run}" in result.output and "no labels are read" in result.output
    return run


def test_the_loss_falls(pretrained: Path) -> None:
    losses = [float(line.split(",")[3]) for line in (pretrained / "metrics.csv").read_text().splitlines()[1:]]
    assert losses[-1] < losses[0]


def test_a_stopped_run_goes_on_to_the_same_weights(meshes: Path, pretrained: Path, tmp_path: Path) -> None:
    source = {"data": {"name": "unlabelled", "path": meshes}, "train": {"skip_bad": True}}
    with pytest.raises(Stopped):
        fit(source, tmp_path / "run", settings=SETTINGS, listener=Interrupting(at=4))
    again = fit(None, tmp_path / "run")
    first, second = (load_checkpoint(path).weights for path in (pretrained / "best.safetensors", again.chosen))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("task", ["parts", "shapes"])
def test_every_task_begins_with_its_encoder_and_a_new_head(pretrained: Path, tmp_path: Path, task: str) -> None:
    write_folder(parts() if task == "parts" else shapes(), tmp_path / "data")
    start = load_checkpoint(pretrained / "best.safetensors")
    setup = set_up(tmp_path / "data", tmp_path / "run", settings=["train.epochs=1"], start=start)
    weights = setup.learner(start).model.state_dict()
    same = {name for name, value in start.weights.items() if name in weights and torch.equal(value, weights[name])}
    assert same == {name for name in start.weights if not name.startswith("head.")}
    assert setup.config.model["blocks"] == "HT" and "a new output layer" in " ".join(setup.reasons(start))


def test_rows_that_are_seen_do_not_count() -> None:
    output = torch.randn(4, 2, requires_grad=True)
    target = torch.tensor([[1.0, 2.0], [torch.nan, torch.nan], [0.0, 0.0], [torch.nan, torch.nan]])
    loss = SquaredError(torch.zeros(2), torch.ones(2))(output, target)
    expected = ((output - target)[[0, 2]] ** 2).sum()
    assert float(loss.weight) == 4 and torch.equal(loss.total, expected)
    loss.total.backward()  # type: ignore[no-untyped-call]
    assert output.grad is not None and not output.grad[[1, 3]].any()
