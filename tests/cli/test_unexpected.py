"""What nobody foresaw: one line with the file and how to report it, and the other files go on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from command import run
from hodgeformer.cli import app
from hodgeformer.mesh.io import save_mesh
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.result import Result as Answer
from meshes import icosphere

GOOD, BAD = ("a.obj", "c.obj"), "b.obj"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three balls; the second has a size of its own, by which the model can be made to fail at it."""
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    for name in (*GOOD, BAD):
        save_mesh(icosphere(2 if name == BAD else 1), meshes / name)
    return meshes


def stumble(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """Something that no one expects, at one stage of the work on the bad mesh."""

    def fail(*given: Any, **named: Any) -> Any:
        raise ZeroDivisionError("oh\ndear")

    if stage == "reading":
        from hodgeformer.mesh.formats import source

        real_read = source._read_bytes
        monkeypatch.setattr(source, "_read_bytes", lambda path: fail() if path.name == BAD else real_read(path))
    elif stage == "predicting":
        real_forward = HodgeFormer.forward_features
        sized = lambda model, batch: fail() if 162 in [size.v for size in batch.sizes] else real_forward(model, batch)  # noqa: E731
        monkeypatch.setattr(HodgeFormer, "forward_features", sized)
    else:
        real_save = Answer.save
        saved = lambda answer, path: fail() if Path(path).stem == "b" else real_save(answer, path)  # noqa: E731
        monkeypatch.setattr(Answer, "save", saved)


@pytest.mark.parametrize("stage", ["reading", "predicting", "writing"])
def test_one_bad_file_stops_no_folder(
    model: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    stumble(monkeypatch, stage)
    answer = run("predict", model, folder, "--out", tmp_path / "out", "--json")
    assert answer.exit_code == 1, answer.output
    told = json.loads(answer.stdout)
    assert [Path(result["file"]).name for result in told["results"]] == list(GOOD)
    (failed,) = told["failed"]
    assert Path(failed["file"]).name == BAD
    assert "unexpected ZeroDivisionError" in failed["error"] and "oh dear" in failed["error"]
    (line,) = answer.stderr.splitlines()
    assert str(folder / BAD) in line and "please report this" in line
    shown = CliRunner().invoke(app, ["--debug", "predict", str(model), str(folder), "--out", str(tmp_path / "out")])
    assert shown.exit_code == 1
    assert "Traceback" in shown.stderr


def test_one_bad_file_stops_no_check_of_a_data_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "labels").mkdir()
    for path in folder.iterdir():
        n_faces = path.read_text().count("\nf ")
        (folder.parent / "labels" / f"{path.stem}.txt").write_text("0\n1\n" * (n_faces // 2))
    text = 'task = "segmentation"\nclasses = ["x", "y"]\nlabels = "labels"\n[split]\ntrain = 1.0\n'
    (folder.parent / "dataset.toml").write_text(text)
    stumble(monkeypatch, "reading")
    answer = run("check", folder.parent, "--json")
    assert answer.exit_code == 1
    assert "unexpected ZeroDivisionError" in json.dumps(json.loads(answer.stdout))


@pytest.mark.parametrize("verb", ["predict", "check"])
def test_a_single_file_ends_with_one_line_and_code_three(
    model: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    stumble(monkeypatch, "reading")
    words = [model, folder / BAD, "--out", tmp_path / "out"] if verb == "predict" else [folder / BAD]
    answer = run(verb, *words)
    assert answer.exit_code == 3
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"hodgeformer: {folder / BAD}: unexpected ZeroDivisionError at test_unexpected.py:")
    assert "`hodgeformer --debug ...`" in line
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(app, ["--debug", verb, *map(str, words)], catch_exceptions=False)


def test_what_nobody_foresaw_in_any_verb_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from hodgeformer.predict import pretrained

    def fail(*given: object) -> None:
        raise KeyError("x" * 5000)

    monkeypatch.setattr(pretrained, "bundled_models", fail)
    for words in (["models"], ["info", "nothing"], ["study", "robustness", "nothing", "nowhere"]):
        answer = run(*words)
        assert answer.exit_code == 3, answer.output
        assert answer.stderr.count("\n") == 1
        assert "unexpected KeyError" in answer.stderr and "--debug" in answer.stderr
        assert len(answer.stderr) < 1600


STOPPED_IN_A_CALLBACK = """
import ctypes, signal, sys, time
from hodgeformer import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what runs in the background

@ctypes.CFUNCTYPE(None)
def callback():
    signal.raise_signal(NUMBER)

@cli.app.command()
def compile():
    callback()
    time.sleep(60)

sys.argv[1:] = ["compile"]
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_numba_compiles_is_not_lost(number: signal.Signals) -> None:
    """Python drops exceptions in callbacks from C, as LLVM makes when a function is compiled."""
    script = STOPPED_IN_A_CALLBACK.replace("NUMBER", str(int(number)))
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (found.returncode, found.stderr) == (130, "hodgeformer: interrupted\n")


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installation for exported models alone has no torch."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "hodgeformer.predict.checkpoint", raising=False)
    answer = run("predict", "human", tmp_path / "scan.obj")
    assert answer.exit_code == 2
    assert answer.stderr == "hodgeformer: this needs the package torch, which is not installed: pip install torch\n"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        np._core._exceptions._ArrayMemoryError((10**9,), np.dtype(float)),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    ],
)
def test_out_of_memory_is_nothing_unexpected(
    error: Exception, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setattr(HodgeFormer, "forward_features", fail)
    answer = run("predict", model, folder / BAD, "--out", folder / "out")
    assert answer.exit_code == 2 and answer.stderr.count("\n") == 1
    assert f"{folder / BAD}: out of memory; work on fewer faces" in answer.stderr


class Moody(SimpleHTTPRequestHandler):
    """A folder, in which everything below a folder with the name of a status is answered with that."""

    def send_head(self) -> Any:
        status = self.path.split("/")[1]
        return self.send_error(int(status)) if status.isdigit() else super().send_head()


def test_what_a_web_server_does_not_give_is_told_and_the_others_are_done(model: Path, folder: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs addresses: pip install 'hodgeformer[remote]' aiohttp")
    silent = "http://127.0.0.1:9/d.obj"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Moody, directory=str(folder))) as server:
        Thread(target=server.serve_forever).start()
        at = f"http://127.0.0.1:{server.server_port}"
        bad = [f"{at}/none.obj", f"{at}/403/b.obj", f"{at}/500/c.obj", silent]
        answer = run("predict", model, f"{at}/a.obj", *bad, "--out", folder / "out", "--quiet")
        alone = [run("check", address) for address in bad]
        listed = run("predict", model, f"{at}/403/*.obj", "--out", folder / "out")
        server.shutdown()
    assert answer.exit_code == 1 and "1 of 5 meshes done" in answer.stdout
    assert f"{at}/none.obj: the file does not exist" in answer.stderr
    assert f"{at}/403/b.obj: the file cannot be read (403, message='Forbidden'" in answer.stderr
    assert f"{at}/500/c.obj: the file cannot be read (500" in answer.stderr
    assert f"{silent}: the file cannot be read (" in answer.stderr
    assert all(found.exit_code == 2 and there in found.stderr for there, found in zip(bad, alone, strict=True))
    assert listed.exit_code == 2 and f"{at}/403/*.obj: the files there cannot be listed (403" in listed.stderr


def test_a_long_refusal_is_cut(tmp_path: Path) -> None:
    answer = run("info", tmp_path / ("a/" * 1500))
    assert answer.exit_code == 2
    assert len(answer.stderr) < 1600 and answer.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("predict", "human", ""), ("check", ""), ("train", " "), ("study", "operators", "")])
def test_an_empty_word_is_no_folder(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_mesh(icosphere(1), tmp_path / "ball.obj")
    answer = run(*words)
    assert answer.exit_code == 2 and answer.stdout == ""
    assert re.fullmatch(r"hodgeformer: .*empty.*'\.'.*\n", answer.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_names_of_files_need_not_be_text(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "meshes"
    folder.mkdir()
    save_mesh(icosphere(1), tmp_path / "ball.obj")
    strange = folder / os.fsdecode(b"b\xff\xe9.obj")
    strange.write_bytes((tmp_path / "ball.obj").read_bytes())
    checked = run("check", folder)
    assert checked.exit_code == 0, checked.output
    formats = "ply,glb,json,html,txt,npz,png"
    answer = run("predict", model, folder, "--out", tmp_path / "out", "--format", formats)
    assert answer.exit_code == 0, answer.output
    assert r"b\udcff\udce9.obj: " in answer.stdout
    written = {path.suffix for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert written == {f".{name}" for name in formats.split(",")}
    assert json.loads(run("check", folder, "--json").stdout)["meshes"]
    strange.write_bytes(b"no mesh")
    refused = run("check", folder)
    assert refused.exit_code == 1 and refused.stderr.count("\n") == 1
