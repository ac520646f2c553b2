"""Many meshes: which are done, here and at addresses, whichever engine made them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import command
from hodgeformer.base.files import place
from hodgeformer.cli import app
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere, open_grid, tetrahedron
from tiny_models import tiny_checkpoint, write_tiny

PAGE = Path(__file__).resolve().parents[2] / "docs" / "predicting.md"


def run(*words: object) -> Result:
    return command.run("predict", *words)


def predicted(*words: object) -> list[str]:
    """The names of the meshes that were predicted, and not left out as done before."""
    answer = run(*words, "--json")
    assert answer.exit_code == 0, answer.output
    return [Path(record["file"]).name for record in json.loads(answer.stdout)["results"]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny(tmp_path)


@pytest.fixture
def meshes(tmp_path: Path) -> Path:
    folder = tmp_path / "meshes"
    (folder / "deep").mkdir(parents=True)
    save_mesh(icosphere(1), folder / "ball.obj")
    save_mesh(open_grid(6, 5), folder / "deep" / "grid.ply")
    return folder


ALL = ["ball.obj", "grid.ply"]


def test_what_is_done_is_left_out_until_it_changes(model: Path, meshes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = (model, meshes, "--out", out)
    assert predicted(*asked) == ALL
    assert predicted(*asked) == []
    assert predicted(*asked, "--quiet", "--device", "cpu") == []  # how, not what
    assert predicted(*asked, "--memory", "2GB") == ALL  # with another limit, others are refused
    assert predicted(*asked, "--memory", "2GB") == []
    assert predicted(*asked) == ALL
    save_mesh(icosphere(2), meshes / "new.obj")
    assert predicted(*asked) == ["new.obj"]
    os.utime(meshes / "ball.obj", (1, 1))
    assert predicted(*asked) == ["ball.obj"]
    (out / "deep" / "grid.json").unlink()
    assert predicted(*asked) == ["grid.ply"]
    (out / ".done" / "new.json").write_text("{")
    assert predicted(*asked) == ["new.obj"]
    assert predicted(*asked, "--again") == ["ball.obj", "grid.ply", "new.obj"]
    assert predicted(model, meshes / "ball.obj", "--out", out) == ["ball.obj"]  # its answer is wanted
    assert predicted(*asked) == []


def test_another_model_or_option_makes_everything_anew(model: Path, meshes: Path, tmp_path: Path) -> None:
    asked = (model, meshes, "--out", tmp_path / "out")
    assert predicted(*asked) == ALL
    assert predicted(*asked, "--smooth") == predicted(*asked) == ALL  # the results of one are not those of the other
    elsewhere = shutil.copy(model, tmp_path / "moved.safetensors")
    assert predicted(elsewhere, *asked[1:]) == []
    from hodgeformer.predict.checkpoint import save_checkpoint

    save_checkpoint(model, tiny_checkpoint(temperature=2.0))
    assert predicted(*asked) == ALL


def test_both_runs_say_how_many_and_end_alike(model: Path, meshes: Path, tmp_path: Path) -> None:
    (meshes / "empty.obj").write_bytes(b"")
    save_mesh(tetrahedron(), meshes / "deep" / "grid.ply")
    asked = (model, meshes, "--out", tmp_path / "out", "--strict", "--faces", "original")
    first, second = run(*asked), run(*asked)
    assert first.exit_code == second.exit_code == 1
    assert first.stdout.splitlines()[-1].startswith("2 of 3 meshes done, 4 files in ")
    assert second.stdout.startswith("0 of 1 meshes done, 2 skipped")
    assert second.stderr == first.stderr != ""
    (meshes / "empty.obj").unlink()
    third = run(*asked)
    assert third.stdout.startswith("2 skipped") and "--again" in third.stdout
    assert third.exit_code == 1, "four faces are as unlike what the model knows as they were the first time"


def test_what_writes_nothing_is_never_done(model: Path, meshes: Path, tmp_path: Path) -> None:
    asked = (model, meshes, "--out", tmp_path / "out", "--format", "none")
    assert predicted(*asked) == predicted(*asked) == ALL
    assert not (tmp_path / "out").exists()


@pytest.fixture
def store(meshes: Path) -> Iterator[Path]:
    """The same meshes at an address."""
    folder = place("memory://many/meshes")
    for path in ("ball.obj", "deep/grid.ply"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes((meshes / path).read_bytes())
    yield folder
    folder.parent.fs.rm("/many", recursive=True)


def test_addresses_are_read_and_written_like_folders(model: Path, meshes: Path, store: Path, tmp_path: Path) -> None:
    assert predicted(model, store, "--out", "memory://many/out", "--format", "ply,json,png") == ALL
    assert predicted(model, store, "--out", "memory://many/out", "--format", "ply,json,png") == []
    assert predicted(model, meshes, "--out", tmp_path / "out", "--format", "ply,json,png") == ALL
    for name in ("ball.ply", "ball.png", "deep/grid.ply"):
        assert place(f"memory://many/out/{name}").read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert predicted(model, "memory://many/meshes/**/*.ply", "--out", "memory://many/other") == ["grid.ply"]
    (store / "ball.obj").write_bytes((meshes / "ball.obj").read_bytes() + b"\n")
    assert predicted(model, store, "--out", "memory://many/out", "--format", "ply,json,png") == ["ball.obj"]
    seen = CliRunner().invoke(app, ["check", "memory://many/meshes"])
    assert seen.exit_code == 0 and "2 meshes, 1 with problems" in seen.stdout


def test_the_commands_of_the_page_run(
    meshes: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the local engine; the store is one that is here."""
    meshes.rename(tmp_path / "scans")
    monkeypatch.chdir(tmp_path)
    (section,) = re.findall(r"## Many meshes\n\n```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    commands = [line.partition("  #")[0] for line in section.splitlines() if "--engine" not in line]
    assert len(commands) >= 3
    for line in commands:
        words = shlex.split(
            line.replace("s3://bucket/scans", str(store / "deep")).replace("s3://bucket", "memory://many")
        )
        answer = command.run(*words[1:])
        assert answer.exit_code == 0, f"{line}\n{answer.output}"
    assert (tmp_path / "out" / "deep" / "grid.ply").is_file() and place("memory://many/parts/grid.ply").is_file()


def refused(*words: object) -> str:
    answer = run(*words)
    assert answer.exit_code == 2, answer.output
    (line,) = answer.stderr.strip().splitlines()
    return line


def test_engines_that_cannot_be_had_are_one_line(
    model: Path, store: Path, meshes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "cannot read the memory" in refused(model, store, "--engine", "ray")
    assert "cannot read the memory" in refused(model, meshes, "--out", "memory://many/out", "--engine", "ray")
    assert "need --engine ray" in refused(model, meshes, "--workers", 2)
    assert "no Ray cluster answers at" in refused(model, meshes, "--engine", "ray", "--address", "127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'hodgeformer[cluster]'" in refused(model, meshes, "--engine", "ray")


def test_results_are_not_written_to_a_web_server(tmp_path: Path) -> None:
    save_mesh(tetrahedron(), tmp_path / "ball.obj")
    done = run(write_tiny(tmp_path), tmp_path / "ball.obj", "--out", "http://example.org/scans")
    assert done.exit_code == 2 and "a web server cannot store results" in done.stderr
