"""hodgeformer predict as it is typed: files, folders, globs, bad input, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import Result

from command import run
from hodgeformer.mesh.io import load_mesh, save_mesh
from meshes import icosphere, open_grid
from tiny_models import PARTS, write_tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three good meshes, one of them deeper down."""
    meshes = tmp_path / "meshes"
    (meshes / "deep").mkdir(parents=True)
    save_mesh(icosphere(2), meshes / "ball.obj")
    save_mesh(open_grid(8, 9), meshes / "grid.off")
    save_mesh(icosphere(1), meshes / "deep" / "ball.ply")
    return meshes


BAD = {
    "empty.obj": b"",
    "blank.ply": b"  \n\n",
    "words.off": b"this is not a mesh at all\n",
    "cut.ply": b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    b"end_header\n0 0",
    "no_faces.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\n",
    "out_of_range.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n",
    "not_finite.obj": b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "picture.stl": b"\x89PNG\r\n\x1a\n",
    "archive.glb": b"PK\x03\x04rest",
    "short.stl": b"\0" * 80 + struct.pack("<I", 1000) + b"\0" * 50,
    "collapsed.obj": b"v 0 0 0\nv 1 0 0\nf 1 1 2\n",
}


def test_folder_keeps_its_shape_and_the_meshes_their_order(model: Path, folder: Path, tmp_path: Path) -> None:
    answer = run("predict", model, folder, "--out", tmp_path / "out", "--format", "ply,json")
    assert answer.exit_code == 0, answer.output
    written = sorted(
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    results = ["ball.json", "ball.ply", "deep/ball.json", "deep/ball.ply", "grid.json", "grid.ply"]
    assert written == [".done/ball.json", ".done/deep/ball.json", ".done/grid.json", *results]
    content = json.loads((tmp_path / "out" / "ball.json").read_text())
    colored = load_mesh(tmp_path / "out" / "ball.ply")
    np.testing.assert_array_equal(colored.faces, icosphere(2).faces)
    np.testing.assert_array_equal(colored.attributes["face_labels"], content["labels"])
    expected = np.array(content["colors"])[content["labels"]]
    np.testing.assert_array_equal(colored.attributes["face_colors"][:, :3], expected)
    assert "3 of 3 meshes done, 6 files" in answer.stdout


def test_alone_in_a_folder_and_by_glob_is_the_same(model: Path, folder: Path, tmp_path: Path) -> None:
    run("predict", model, folder, "--out", tmp_path / "a", "--format", "txt")
    run("predict", model, folder / "ball.obj", "--out", tmp_path / "b", "--format", "txt")
    run("predict", model, str(folder / "*.obj"), "--out", tmp_path / "c", "--format", "txt")
    texts = {(tmp_path / name / "ball.txt").read_text() for name in "abc"}
    assert len(texts) == 1
    assert len(texts.pop().split()) == icosphere(2).n_faces


def test_bad_files_are_named_and_the_good_ones_done(model: Path, folder: Path, tmp_path: Path) -> None:
    for name, content in BAD.items():
        (folder / name).write_bytes(content)
    answer = run("predict", model, folder, folder / "missing.obj", "--out", tmp_path / "out")
    assert answer.exit_code == 1
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.ply")) == ["ball.ply", "ball.ply", "grid.ply"]
    complaints = [line for line in answer.stderr.splitlines() if line.startswith("hodgeformer: ")]
    for name in [*BAD, "missing.obj"]:
        assert sum(name in line for line in complaints) == 1, name
    assert len(complaints) == len(BAD) + 1
    assert f"3 of {3 + len(BAD) + 1} meshes done" in answer.stdout


def test_json_is_all_that_is_printed(model: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "empty.obj").write_bytes(b"")
    answer = run("predict", model, folder, "--out", tmp_path / "out", "--format", "none", "--json")
    assert answer.exit_code == 1
    content = json.loads(answer.stdout)
    assert [Path(record["file"]).name for record in content["results"]] == ["ball.obj", "ball.ply", "grid.off"]
    assert len(content["results"][0]["labels"]) == icosphere(2).n_faces
    assert [Path(record["file"]).name for record in content["failed"]] == ["empty.obj"]
    assert not (tmp_path / "out").exists()


def test_every_option_at_once(model: Path, folder: Path, tmp_path: Path) -> None:
    options = ["--faces", 100, "--smooth", "--tta", 2, "--element", "vertex", "--split-parts"]
    answer = run("predict", model, folder / "ball.obj", "--out", tmp_path, "--format", "glb,png,html", *options)
    assert answer.exit_code == 0, answer.output
    colored = load_mesh(tmp_path / "ball.glb")
    assert len(colored.attributes["vertex_labels"]) == icosphere(2).n_vertices
    parts = sorted(path.name for path in tmp_path.glob("ball_*.ply"))
    assert parts
    assert set(parts) <= {"ball_head.ply", "ball_torso.ply", "ball_arm.ply", "ball_leg___foot.ply"}
    assert sum(load_mesh(tmp_path / part).n_faces for part in parts) == icosphere(2).n_faces
    assert len(np.unique(np.asarray(Image.open(tmp_path / "ball.png")).reshape(-1, 3), axis=0)) > 10
    assert "<canvas" in (tmp_path / "ball.html").read_text()


def test_classification_writes_json(folder: Path, tmp_path: Path) -> None:
    model = write_tiny(tmp_path, task="classification")
    answer = run("predict", model, folder, "--out", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    content = json.loads((tmp_path / "out" / "grid.json").read_text())
    assert content["label"] in PARTS
    assert f"{folder / 'grid.off'}: {content['label']}" in answer.stdout
    refused = run("predict", model, folder, "--split-parts")
    assert refused.exit_code == 2
    assert "needs a segmentation" in refused.stderr


def test_same_names_do_not_collide_and_nothing_is_overwritten(model: Path, folder: Path, tmp_path: Path) -> None:
    save_mesh(icosphere(1), folder / "ball.stl")
    answer = run("predict", model, folder, "--out", tmp_path / "out", "--format", "ply")
    assert answer.exit_code == 0, answer.output
    assert sorted(path.name for path in (tmp_path / "out").glob("*.ply")) == [
        "ball.obj.ply",
        "ball.stl.ply",
        "grid.ply",
    ]
    before = (folder / "deep" / "ball.ply").read_bytes()
    refused = run("predict", model, folder / "deep" / "ball.ply", "--out", folder / "deep")
    assert refused.exit_code == 2
    assert "overwritten" in refused.stderr
    assert (folder / "deep" / "ball.ply").read_bytes() == before


def one_line(answer: Result) -> str:
    assert answer.exit_code == 2, answer.output
    (line,) = answer.stderr.strip().splitlines()
    return line


def test_wrong_use_is_one_line(model: Path, folder: Path, tmp_path: Path) -> None:
    assert "no file, folder or bundled model" in one_line(run("predict", "humn", folder))
    assert "does not exist" in one_line(run("predict", model, tmp_path / "none.obj"))
    assert "no file matches" in one_line(run("predict", model, str(tmp_path / "*.obj")))
    assert "unsupported format '.docx'" in one_line(run("predict", model, folder, "--format", "docx"))
    assert "device 'abacus'" in one_line(run("predict", model, folder, "--device", "abacus"))
    assert "this is a file; --out needs a folder" in one_line(run("predict", model, folder, "--out", model))
    (tmp_path / "nothing").mkdir()
    assert "no meshes in this folder" in one_line(run("predict", model, tmp_path / "nothing"))


def test_runs_are_models(model: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(model, tmp_path / "run" / "best.safetensors")
    assert run("predict", tmp_path / "run", folder / "grid.off", "--out", tmp_path / "out").exit_code == 0


# Predictions of a file that is not there, before and after the first function of any prediction is compiled.
TWICE = """
import contextlib, io, sys
import numpy as np
from hodgeformer.cli import main
from hodgeformer.mesh.topology import sorted_by

def said(*options):
    sys.argv[1:] = [*words, *options]
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.suppress(SystemExit):
        main()
    return "compiling for this processor" in told.getvalue()

words = sys.argv[1:]
before = [said("--quiet"), said()]
sorted_by(np.array([0]), 1)
print(before, said())
"""


def test_the_first_prediction_says_that_it_compiles(model: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", TWICE, "predict", model, tmp_path / "missing.obj", "--out", tmp_path]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    found = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == "[False, True] False\n"


@pytest.mark.attack
def test_a_first_prediction_compiles_and_a_second_one_does_not(model: Path, tmp_path: Path) -> None:
    save_mesh(icosphere(1), tmp_path / "ball.obj")
    words = [sys.executable, "-m", "hodgeformer", "predict", model, tmp_path / "ball.obj", "--out", tmp_path]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for first in (True, False):
        found = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        assert ("compiling for this processor" in found.stderr) == first
