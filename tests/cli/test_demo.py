"""hodgeformer demo: everything it says it writes is there and opens."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import run
from hodgeformer.data.open import open_dataset
from hodgeformer.mesh.io import load_mesh
from hodgeformer.predict.predictor import Predictor


@pytest.fixture(scope="module")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo with little data and few epochs, which are enough to learn most of it."""
    # The package's name `demo` is the verb, so the module is asked for by its full name.
    module = importlib.import_module("hodgeformer.cli.demo")
    out = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "N_TRAIN", 12)
        patch.setattr(module, "N_TEST", 2)
        answer = run("demo", "--out", out, "--epochs", 12)
    assert answer.exit_code == 0, answer.output
    return out, answer.stdout


def test_meshes_reopen_with_the_colors_of_the_prediction(small_demo: tuple[Path, str]) -> None:
    out, _ = small_demo
    predictor = Predictor.load(out / "run")
    dataset = open_dataset(out / "data")
    for sample in dataset.split("test"):
        result = predictor.predict(sample.mesh)
        expected = np.array(result.colors)[result.labels]
        for suffix in (".ply", ".glb"):
            read = load_mesh(out / "results" / f"{sample.name}{suffix}")
            np.testing.assert_array_equal(read.attributes["face_colors"][:, :3], expected)
        picture = np.asarray(Image.open(out / "results" / f"{sample.name}.png")).reshape(-1, 3)
        present = {tuple(map(int, color)) for color in np.unique(picture, axis=0)}
        assert {result.colors[label] for label in np.unique(result.labels)} <= present
        assert len(present) > 20


def test_what_is_said_is_there(small_demo: tuple[Path, str]) -> None:
    out, said = small_demo
    for name in ("page.html", "results", "run", "data"):
        assert str(out / name) in said
        assert (out / name).exists()
    report = (out / "run" / "report.html").read_text()
    assert "<iframe" in report
    assert "ground truth" in report
    assert "face accuracy on 2 unseen meshes" in said
    assert "ground truth" in (out / "page.html").read_text()


def test_a_full_folder_is_left_alone(small_demo: tuple[Path, str]) -> None:
    answer = run("demo", "--out", small_demo[0])
    assert answer.exit_code == 2
    assert "not empty" in answer.stderr


def test_demo_learns(small_demo: tuple[Path, str]) -> None:
    """After one epoch it is 0.23."""
    assert Predictor.load(small_demo[0] / "run").checkpoint.metrics["test_face_accuracy"] > 0.75


@pytest.mark.attack(minutes=1)
def test_the_whole_demo_learns(tmp_path: Path) -> None:
    answer = run("demo", "--out", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    assert Predictor.load(tmp_path / "out" / "run").checkpoint.metrics["test_face_accuracy"] >= 0.9


def test_a_second_demo_finds_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("hodgeformer.cli.demo")
    monkeypatch.chdir(tmp_path)
    assert module._free_folder() == Path("demo")
    for name in ("demo", "demo-2"):
        (tmp_path / name).mkdir()
    assert module._free_folder() == Path("demo-3")
