"""Every script and notebook of examples/ runs, in shortened form, and does what it says."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hodgeformer as hf

FOLDER = Path(__file__).resolve().parents[1] / "examples"
TESTED = ("fine_tune", "lightning_loop", "match_bodies", "own_loop")
NOTEBOOKS = ("own_data", "what_it_learned")


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
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NOTEBOOKS)
    page = (FOLDER.parent / "docs" / "python.md").read_text()
    names = [*(f"{name}.py" for name in TESTED), *(f"{name}.ipynb" for name in NOTEBOOKS)]
    assert [name for name in names if f"examples/{name}" not in page] == []


def run_notebook(name: str, shorter: dict[str, str]) -> dict[str, Any]:
    """What the code of a notebook leaves behind, run from top to bottom with other numbers."""
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for given, short in shorter.items():
        assert given in code
        code = code.replace(given, short)
    names: dict[str, Any] = {}
    exec(compile(code, name, "exec"), names)
    return names


def test_the_notebook_on_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = '{"epochs": 10, "blocks": "D", "d_model": 16, "workers": 0}'
    found = run_notebook("own_data", {'{"epochs": 30}': settings, "N_MESHES, SETTINGS = 20": "N_MESHES, SETTINGS = 8"})
    assert found["run"].scores.classes == found["PARTS"]
    assert found["strange"].familiarity < 0.5
    assert {path.suffix for path in tmp_path.glob("new.*")} == {".png", ".ply", ".glb", ".json"}


def test_the_notebook_on_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_notebook("what_it_learned", {"N_FACES, N_FUNCTIONS = 1500, 3": "N_FACES, N_FUNCTIONS = 400, 2"})
    assert len(found["found"].values) == 2
    assert (tmp_path / "stars.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_shown_with_their_output(name: str) -> None:
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)


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
