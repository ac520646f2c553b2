"""Every script of examples/ runs, in shortened form, and does what it says."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hodgeformer as hf

FOLDER = Path(__file__).resolve().parents[1] / "examples"
TESTED = ("fine_tune", "lightning_loop", "match_bodies", "operators", "own_data", "own_loop")
SHORT = {"blocks": "D", "d_model": 16, "workers": 0, "epochs": 1}


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))  # one of them takes a class from another
    spec = importlib.util.spec_from_file_location(request.param, FOLDER / f"{request.param}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example_named(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [name], indirect=True)


def test_every_example_is_run_here_and_named_in_the_documentation() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(TESTED)
    page = (FOLDER.parent / "docs" / "python.md").read_text()
    assert [name for name in TESTED if f"examples/{name}.py" not in page] == []


@example_named("own_data")
def test_own_data(example: ModuleType, tmp_path: Path) -> None:
    run = example.main(tmp_path, n_meshes=10, **SHORT)
    assert run.scores.classes == example.PARTS and (tmp_path / "new.png").is_file()


@example_named("fine_tune")
def test_fine_tune(example: ModuleType, tmp_path: Path) -> None:
    run = example.main(tmp_path, n_train=2, n_test=1, n_faces=300, epochs=1, workers=0)
    assert run.predictor().names == example.COARSE


@example_named("own_loop")
def test_own_loop(example: ModuleType, tmp_path: Path) -> None:
    assert 0 < example.main(tmp_path, n_train=8, epochs=2) <= 1
    assert hf.Predictor.load(tmp_path).names[0] == "head"
    body = (FOLDER / "own_loop.py").read_text().split("def main", 1)[1].split("if __name__")[0]
    assert len(body.splitlines()) <= 25


@example_named("match_bodies")
def test_match_bodies(example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    match = example.main(tmp_path, n_faces=600)
    assert len(np.unique(match)) > 50
    assert float(capsys.readouterr().out.split("%")[0]) > 75
    assert {path.suffix for path in tmp_path.iterdir()} == {".ply", ".png"}


@example_named("operators")
def test_operators(example: ModuleType, tmp_path: Path) -> None:
    assert len(example.main(tmp_path, n_faces=300, n_functions=2)) == 2
    assert (tmp_path / "eigenfunctions.png").stat().st_size > 10_000


def test_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Lightning are its own
        pytest.importorskip("lightning", reason="the example of Lightning needs it: pip install lightning")
        example = importlib.import_module("lightning_loop")
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        predictor = example.main(tmp_path, n_train=4, max_epochs=1, accelerator="cpu", **quiet)
    sys.modules.pop("lightning_loop")
    assert predictor.names[0] == "head"
