"""The check verb on data sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import Result

import command
from hodgeformer.data.folder import write_folder
from hodgeformer.data.synthetic import synthetic_figures


def run(*arguments: str | Path) -> Result:
    return command.run("check", *arguments)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_folder(synthetic_figures(n_train=3, n_test=1, n_faces=120), tmp_path / "data")
    return tmp_path / "data"


def mesh_of(data: Path, name: str) -> Path:
    return next(path for path in data.rglob(f"*{name}*") if path.suffix == ".ply")


def test_a_good_data_set_is_called_good(data: Path) -> None:
    result = run(data)
    assert result.exit_code == 0
    assert "3 train, 1 test" in result.stdout
    assert "head" in result.stdout
    assert "no shape is in two splits" in result.stdout


def test_a_leak_and_a_broken_mesh_are_named(data: Path) -> None:
    shutil.copy(mesh_of(data, "train_0000"), mesh_of(data, "test_0000"))
    mesh_of(data, "train_0001").write_bytes(b"ply\n")
    result = run(data, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [problem["name"] for problem in report["problems"]] or report["leaks"]
    assert "train_0001" in json.dumps(report["problems"])
    shown = run(data)
    assert shown.exit_code == 1
    assert "train_0001" in shown.stderr


def test_the_file_to_paste_is_printed(data: Path) -> None:
    text = (data / "dataset.toml").read_text()
    (data / "dataset.toml").unlink()
    shown = run(data)
    assert shown.exit_code == 0
    proposal = shown.stdout.split("run the check again:\n")[1]
    assert 'labels = "labels"' in proposal
    assert json.loads(run(data, "--json").stdout)["dataset_toml"] == proposal.strip() + "\n"
    (data / "dataset.toml").write_text(proposal)
    assert "all meshes have matching labels" in run(data).stdout
    (data / "dataset.toml").write_text(text)
    assert "run the check again" not in run(data).stdout


def test_a_guess_that_fails_does_not_stop_the_check(data: Path) -> None:
    """Two meshes of one name, and one label file for both."""
    (data / "dataset.toml").unlink()
    name = mesh_of(data, "train_0000")
    for folder in ("a", "b"):
        (data / "meshes" / folder).mkdir()
        shutil.copy(name, data / "meshes" / folder / "same.ply")
    shutil.copy(data / "labels" / f"{name.stem}.txt", data / "labels" / "same.txt")
    result = run(data)
    assert result.exit_code == 0, result.output
    assert "6 meshes" in result.stdout and "run the check again" not in result.stdout
