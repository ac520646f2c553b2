"""No way to run code from data, and no network where none is needed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hodgeformer.mesh.io import save_mesh
from house import FILES, SOURCE
from meshes import icosphere
from tiny_models import write_tiny

RUNS_CODE = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads",
    "shelve.open", "torch.load", "joblib.load", "dill.load", "dill.loads", "yaml.load", "runpy.run_path",
}  # fmt: skip
OTHER_VERBS = ("check", "info", "models", "doctor", "train")
MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal", "joblib", "cloudpickle", "imp"}


def violations(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func) in RUNS_CODE:
                yield ast.unparse(node.func)
            for word in node.keywords:
                value = word.value
                if word.arg in ("shell", "allow_pickle") and not (
                    isinstance(value, ast.Constant) and value.value is False
                ):
                    yield f"{word.arg}={ast.unparse(value)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_source_runs_code_from_data(path: Path) -> None:
    assert list(violations(path)) == []


# Every way out of the process is closed; a closed door is told apart from all other errors.
OFFLINE = """
import socket, sys

class Closed(BaseException):
    pass

def closed(*given, **named):
    raise Closed(f"a socket was opened: {given}")

for name in ("connect", "connect_ex", "bind", "sendto"):
    setattr(socket.socket, name, closed)
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = closed
from hodgeformer.cli import main
main()
"""


def run_offline(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OFFLINE, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize(
    "verb",
    [
        "predict",
        *(pytest.param(verb, marks=pytest.mark.attack) for verb in ("check", "info", "models", "doctor", "train")),
    ],
)
def test_verbs_need_no_network(verb: str, tmp_path: Path) -> None:
    model = write_tiny(tmp_path)
    save_mesh(icosphere(1), tmp_path / "ball.obj")
    words: dict[str, list[object]] = {
        "predict": [model, tmp_path / "ball.obj", "--out", tmp_path / "out", "--format", "ply,json,html,png"],
        "check": [tmp_path / "ball.obj"],
        "info": [model],
        "models": [],
        "doctor": [],
        "train": ["figures", "--out", tmp_path / "run", "--set", "train.epochs=1", "--set", "data.n_train=2"],
    }
    if verb == "train":
        words["train"] += ["--set", "data.n_test=1", "--set", "train.workers=0", "--set", 'model.blocks="HT"']
        words["train"] += ["--set", "model.d_model=16", "--set", "data.n_faces=200"]
    done = run_offline(verb, *words[verb])
    assert done.returncode == 0, done.stderr


def test_the_closed_door_is_noticed(tmp_path: Path) -> None:
    """The viewer does open a socket, so the test above would fail for it."""
    done = run_offline("view", "--no-browser", "--port", "0", "--out", tmp_path / "out")
    assert "a socket was opened" in done.stderr
