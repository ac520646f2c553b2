"""What verbs say where no terminal listens: lines of a log, nothing at all, or JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from command import options, run
from hodgeformer.cli import results, train_display
from tiny_sets import TINY

SETTINGS = options(*TINY, "train.epochs=2")


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def logged(eggs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A run that says something at every step."""
    out = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_display, "LOG_EVERY", 0.0)
        result = run("train", eggs, "--out", out, *SETTINGS)
    assert result.exit_code == 0, result.stderr
    return out, result


def test_a_log_has_plan_progress_evaluations_and_result(logged: tuple[Path, Result]) -> None:
    lines = logged[1].stderr.splitlines()
    assert lines[0] == "reading meshes: 1 of 8"
    assert "plan: eggs" in logged[1].stderr and "meshes: 6 train, 2 test" in logged[1].stderr
    assert any(line.startswith("training: epoch 2/2, loss ") and line.endswith(" left") for line in lines)
    assert [line.split()[:2] for line in lines if line.startswith("epoch")] == [["epoch", "1"], ["epoch", "2"]]
    assert "test face accuracy: " in logged[1].stdout and "model: " in logged[1].stdout


def test_a_resumed_run_tells_its_plan_again(logged: tuple[Path, Result]) -> None:
    result = run("train", "--resume", logged[0])
    assert result.exit_code == 0 and "plan: model HT, width 16" in result.stderr
    assert "plan" not in run("train", "--resume", logged[0], "--quiet").stderr


def test_events_are_json_from_plan_to_result(eggs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_display, "EVENT_EVERY", 0.0)
    result = run("train", eggs, "--out", tmp_path / "run", "--json", *SETTINGS)
    assert result.exit_code == 0 and result.stderr == ""
    told = events(result)
    kinds = [event["event"] for event in told]
    assert kinds.index("reading") < kinds.index("plan") < kinds.index("progress") < kinds.index("saved")
    epochs = [event for event in told if event["event"] == "epoch"]
    assert [event["epoch"] for event in epochs] == [1, 2] and 0 <= epochs[0]["test_face_accuracy"] <= 1
    last = told[-1]
    assert last["event"] == "result" and Path(last["model"]).is_file() and Path(last["report"]).is_file()
    assert last["scores"]["metrics"]["face_accuracy"] == pytest.approx(epochs[-1]["test_face_accuracy"])
    saved = {Path(event["path"]).name for event in told if event["event"] == "saved"}
    assert saved == {"last.safetensors", "best.safetensors"}


def test_an_error_is_an_event_too(eggs: Path, tmp_path: Path) -> None:
    result = run("train", eggs, "--out", tmp_path / "run", "--json", "--set", "train.freeze=soup")
    assert result.exit_code == 2
    (error,) = events(result)
    assert error["event"] == "error" and error["message"] in result.stderr


def test_a_plan_and_a_self_test_as_events(eggs: Path, tmp_path: Path) -> None:
    *plan, result = events(run("train", eggs, "--out", tmp_path / "run", "--json", "--dry-run", *SETTINGS))
    assert {event["event"] for event in plan} == {"plan"} and result["estimate"]["n_batches"] == 2
    assert result["config"]["train"]["epochs"] == 2
    (result,) = events(run("train", eggs, "--json", "--quiet", "--self-test", *SETTINGS))
    assert result["accuracy"] > 0.99 and result["steps"] > 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("check", "{data}"), "checking: 1 of 8 (12%)"),
        (("check", "{data}/meshes"), "checking: 0 of 8 (0%)"),
        (("evaluate", "{model}", "{data}"), "evaluating: 1 of 2 (50%)"),
        (("predict", "{model}", "{data}/meshes", "--out", "{out}", "--format", "none"), "predicting: 1 of 8 (12%)"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_other_verbs_log_how_far_they_are_unless_quiet(
    words: tuple[str, ...],
    line: str,
    eggs: Path,
    logged: tuple[Path, Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "LOG_EVERY", 0.0)
    said = [word.format(data=eggs, model=logged[0], out=tmp_path / "out") for word in words]
    assert line in run(*said).stderr
    assert line.split(":", maxsplit=1)[0] not in run(*said, "--quiet").stderr
