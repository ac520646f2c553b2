"""The check verb: tables, JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

import command
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere, open_grid, tetrahedron


def run(*arguments: str | Path) -> Result:
    return command.run("check", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two meshes in sub-folders, one of them odd, and a file that is no mesh."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    save_mesh(icosphere(1), tmp_path / "a" / "ball.ply")
    save_mesh(open_grid(), tmp_path / "b" / "sheet[1].obj")
    (tmp_path / "notes.txt").write_text("not a mesh")
    return tmp_path


def test_one_mesh_is_shown_in_full(tmp_path: Path) -> None:
    save_mesh(open_grid(), tmp_path / "m.off")
    result = run(tmp_path / "m.off")
    assert result.exit_code == 0
    for shown in ("vertices", "30", "boundary edges", "18", "Euler characteristic", "consistent"):
        assert shown in result.stdout
    assert result.stderr == ""


def test_a_folder_is_searched_and_odd_is_not_failed(folder: Path) -> None:
    result = run(folder)
    assert result.exit_code == 0
    assert str(Path("a") / "ball.ply") in result.stdout
    assert str(Path("b") / "sheet[1].obj") in result.stdout
    assert "18 boundary edges" in result.stdout
    assert "2 meshes, 1 with problems\n" in result.stdout
    assert "notes.txt" not in result.stdout


def test_a_broken_file_is_named_and_the_others_go_on(folder: Path) -> None:
    (folder / "broken.STL").write_bytes(b"")
    result = run(folder)
    assert result.exit_code == 1
    assert "1 cannot be read" in result.stdout
    assert "18 boundary edges" in result.stdout
    assert result.stderr.startswith(f"hodgeformer: {folder / 'broken.STL'}: the file is empty")


def test_json_is_all_there_is_on_standard_output(folder: Path) -> None:
    (folder / "broken.stl").write_bytes(b"x")
    result = run(folder, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [Path(mesh["path"]).name for mesh in found["meshes"]] == ["ball.ply", "sheet[1].obj"]
    assert found["meshes"][0]["n_faces"] == 80
    assert found["meshes"][0]["oddities"] == []
    assert found["meshes"][1]["n_boundary_edges"] == 18
    assert found["failed"][0]["path"] == str(folder / "broken.stl")
    assert "ends early" in found["failed"][0]["error"]


def test_json_of_one_mesh(tmp_path: Path) -> None:
    save_mesh(tetrahedron(), tmp_path / "m.glb")
    result = run(tmp_path / "m.glb", "--json")
    assert result.exit_code == 0
    (mesh,) = json.loads(result.stdout)["meshes"]
    assert (mesh["n_vertices"], mesh["n_edges"], mesh["n_faces"], mesh["euler_characteristic"]) == (4, 6, 4, 2)
    assert mesh["closed"]
    assert mesh["winding_consistent"]


@pytest.mark.parametrize("json_option", [[], ["--json"]])
def test_wrong_use_is_one_line_and_exit_code_2(json_option: list[str], tmp_path: Path) -> None:
    (tmp_path / "broken.obj").write_text("v 0 0 0\n")
    (tmp_path / "none").mkdir()
    for path, message in (
        (tmp_path / "gone", "does not exist"),
        (tmp_path / "none", "no meshes in this folder"),
        (tmp_path / "broken.obj", "no faces"),
    ):
        result = run(path, *json_option)
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
        if json_option and result.stdout:
            assert json.loads(result.stdout)["failed"]


WITHOUT_TORCH = """
import sys
from hodgeformer.cli import main
sys.argv = ["hodgeformer", "check", sys.argv[1], "--quiet"]
try:
    main()
finally:
    print("torch loaded" if "torch" in sys.modules else "without torch")
"""


def test_meshes_are_checked_without_loading_torch(folder: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "meshes, " in found.stdout and found.stdout.endswith("without torch\n"), found.stdout + found.stderr
