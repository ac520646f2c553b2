"""hodgeformer models, info and doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from command import run
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.pretrained import bundled_models
from meshes import icosphere
from tiny_models import PARTS, write_tiny


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One bundled model with a card."""
    write_tiny(tmp_path, "body.safetensors")
    (tmp_path / "body.md").write_text("# body: four parts of a body\n\nTrained on nothing, fails at everything.\n")
    monkeypatch.setattr(bundled_models, "__defaults__", (tmp_path,))
    return tmp_path


def test_models_are_listed(shelf: Path) -> None:
    answer = run("models")
    assert answer.exit_code == 0
    assert "body" in answer.stdout
    assert "four parts of a body" in answer.stdout
    (row,) = json.loads(run("models", "--json").stdout)
    assert row["name"] == "body"


def test_a_model_of_the_package_is_not_calibrated_in_place(shelf: Path, tmp_path: Path) -> None:
    before = (shelf / "body.safetensors").read_bytes()
    answer = run("evaluate", "body", tmp_path, "--calibrate")
    assert answer.exit_code == 2
    assert "is part of the package" in answer.stderr
    assert (shelf / "body.safetensors").read_bytes() == before


def test_no_models_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_models, "__defaults__", (tmp_path,))
    assert "no bundled models" in run("models").stdout


def test_info_of_a_bundled_name_shows_the_card(shelf: Path) -> None:
    answer = run("info", "body")
    assert answer.exit_code == 0
    assert "segmentation" in answer.stdout
    assert ", ".join(PARTS) in answer.stdout
    assert "fails at everything" in answer.stdout


def test_info_as_json(shelf: Path) -> None:
    facts = json.loads(run("info", shelf / "body.safetensors", "--json").stdout)
    assert facts["classes"] == list(PARTS)
    assert facts["metrics"] == {"test_face_accuracy": 0.5}
    assert facts["training_faces"] == {"minimum": 60.0, "median": 200.0, "maximum": 400.0}
    assert facts["parameters"] > 0


@pytest.mark.parametrize(
    ("given", "shown", "said"),
    [
        ({"blocks": "HHT"}, {"n_heads", "stars", "signed_stars", "n_neighbors"},
         "2 HodgeFormer blocks (H), whose attention is a learned Hodge star; 1 Transformer block (T) with linear "
         "attention"),
        ({"blocks": "DDT"}, {"n_heads", "star_bound"},
         "1 Transformer block (T) with linear attention; 2 diffusion blocks (D) with learned diagonal Hodge stars"),
        ({"blocks": "DD"}, {"star_bound"}, "2 diffusion blocks (D) with learned diagonal Hodge stars"),
        ({"blocks": "DD", "star_bound": 0.0}, set(),
         "2 diffusion blocks (D) with fixed cotangent stars; no learned star"),
        ({"blocks": "T"}, {"n_heads"}, "1 Transformer block (T) with linear attention; no learned star"),
    ],
)  # fmt: skip
def test_info_shows_only_what_a_model_has(tmp_path: Path, given: dict[str, Any], shown: set[str], said: str) -> None:
    path = write_tiny(tmp_path, **given)
    facts = json.loads(run("info", path, "--json").stdout)
    assert set(facts) & {"n_heads", "stars", "signed_stars", "star_bound", "n_neighbors"} == shown
    assert facts["made_of"] == said
    assert f"made of          {said}\n" in run("info", path).stdout


@pytest.mark.parametrize("name", ["human", "shrec11"])
def test_cards_of_bundled_models_name_only_what_they_have(name: str) -> None:
    facts = json.loads(run("info", name, "--json").stdout)
    assert ("No learned Hodge star" in run("info", name).stdout) == ("no learned star" in facts["made_of"])


def test_info_of_nothing(shelf: Path) -> None:
    answer = run("info", "bdy")
    assert answer.exit_code == 2
    assert "did you mean 'body'?" in answer.stderr


COMPILED = """
import sys
from numba.core import event
from hodgeformer.cli import main
class Listener(event.Listener):
    def on_start(self, event):
        print("compiled", event.data["dispatcher"].py_func, file=sys.stderr)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
main()
"""


@pytest.mark.attack
def test_after_doctor_warm_predicting_compiles_nothing(tmp_path: Path) -> None:
    cache = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    warm = [sys.executable, "-m", "hodgeformer", "doctor", "--warm"]
    said = subprocess.run(warm, env=cache, capture_output=True, text=True, check=True).stderr
    assert [name for name in ("human", "shrec11") if f"predicting with {name}" in said] == ["human", "shrec11"]
    save_mesh(icosphere(4), tmp_path / "ball.obj")
    for name in ("human", "shrec11"):
        words = ["predict", name, str(tmp_path / "ball.obj"), "--out", str(tmp_path / name)]
        command = [sys.executable, "-c", COMPILED, *words]
        found = subprocess.run(command, env=cache, capture_output=True, text=True, check=True)
        assert "compil" not in found.stderr


def test_doctor_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hodgeformer.base.machine.free_memory", lambda: 3 * 2**30)
    answer = run("doctor")
    assert answer.exit_code == 0, answer.output
    assert "kernels  agree" in answer.stdout
    report = json.loads(run("doctor", "--json").stdout)
    assert report["versions"]["torch"] != "missing"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(report["extras"]) == set(project["optional-dependencies"])
    assert len(report["versions"]) == 2 + len(project["dependencies"])
    assert "threads" in report["machine"]
    assert report["machine"]["free memory"] == "3.0 GB"
    assert "faces to predict" in report["machine"]["largest mesh"]


def test_training_starts_from_one_model(shelf: Path, tmp_path: Path) -> None:
    answer = run("train", tmp_path, "--out", tmp_path / "run", "--from", "body,body")
    assert answer.exit_code == 2
    assert "not an ensemble of 2; name one of them" in answer.stderr
