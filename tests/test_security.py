"""No way to run code from data, and no network where none is needed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_map import FILES, SOURCE

from clock import PATIENCE
from command import options
from hodgeformer.data.shards import write_shards
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere
from tiny_models import write_tiny
from tiny_sets import TINY, parts

RUNS_CODE = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads",
    "shelve.open", "torch.load", "joblib.load", "dill.load", "dill.loads", "yaml.load", "runpy.run_path",
}  # fmt: skip
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
    allowed = {"pickle", "pickle.load"} if path.relative_to(SOURCE).as_posix() == "data/worker.py" else set()
    assert set(violations(path)) <= allowed


def test_workers_unpickle_only_what_their_own_parent_sends() -> None:
    """Through ends of a pipe that are inherited: no file is opened and no address is listened at or called."""
    calls = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse((SOURCE / "data" / "worker.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    refused = ("connect", "bind", "listen", "create_connection", "read_bytes")
    assert "pickle.load" in calls and "open" not in calls and not any(call.endswith(refused) for call in calls)


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


# Whoever looks for another machine, or speaks to one, is written down. One process for all cases, each by its words.
WATCHED = """
import contextlib, io, json, socket, sys, traceback

asked = []

def watched(ask):
    def heard(*given, **named):
        host = next((str(part) for part in given if isinstance(part, (str, bytes, tuple)) and part), "")
        if not any(name in host for name in ("127.0.0.1", "localhost", "::1", "/")):
            asked.append(f"{ask.__name__} {host}")
            raise OSError("nobody answers")
        return ask(*given, **named)
    return heard

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, watched(getattr(socket.socket, name)))
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, watched(getattr(socket, name)))
import hodgeformer as hf
from hodgeformer.cli import main
from hodgeformer.base.errors import HodgeFormerError
from upath import UPath

def act(words):
    if words[0] == "from_pretrained":
        hf.Predictor.from_pretrained(words[1])
    elif words[0] == "load_mesh":
        hf.load_mesh(UPath(words[1]))
    else:
        sys.argv[1:] = words
        main()

found = {}
for case, words in json.loads(sys.argv[1]).items():
    asked.clear()
    code = 0
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
        try:
            act(words)
        except SystemExit as end:
            code = end.code or 0
        except HodgeFormerError as error:
            code = str(error)
        except Exception:
            code = traceback.format_exc()
    found[case] = {"asked": list(asked), "code": code, "told": f"{told.getvalue()}{code}"}
print(json.dumps(found))
"""
STAND_INS = {
    "huggingface_hub": "import socket\ndef hf_hub_download(*given): socket.getaddrinfo('hub.example.org', 443)\n",
}
ADDRESS = "http://example.org/scans"


def watched(folder: Path, offline: str, cases: dict[str, list[object]]) -> dict[str, dict[str, Any]]:
    """Who was asked for on the network in each case, how it ended, and what was said."""
    for name, content in STAND_INS.items():
        (folder / f"{name}.py").write_text(content)
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HODGEFORMER_OFFLINE": offline, "PYTHONPATH": paths}
    command = [sys.executable, "-c", WATCHED, json.dumps({case: list(map(str, cases[case])) for case in cases})]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.attack)])
def test_offline_forbids_every_way_out(more: bool, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs addresses: pip install 'hodgeformer[remote]' aiohttp")
    model, ball, out = write_tiny(tmp_path), tmp_path / "ball.obj", tmp_path / "out"
    save_mesh(icosphere(1), ball)
    write_shards(parts(), tmp_path / "packed")
    spec = tmp_path / "packed" / "dataset.toml"
    spec.write_text(spec.read_text().replace('shards = "shards"', f'shards = "{ADDRESS}"'))
    learning = options(*TINY, "train.epochs=1")
    cases: dict[str, list[object]] = {
        "mesh": ["predict", model, f"{ADDRESS}/a.ply", "--out", out],
        "out": ["predict", model, ball, "--out", "ftp://example.org/scans"],
        "place": ["load_mesh", f"{ADDRESS}/a.ply"],
        "shards": ["train", tmp_path / "packed", "--out", tmp_path / "shards", *learning, "--allow-remote"],
        "hub": ["from_pretrained", "someone/bodies"],
        "ray": ["predict", model, ball, "--out", out, "--engine", "ray", "--address", "example.org:6379"],
    }
    if more:
        cases = {
            "pattern": ["predict", model, f"{ADDRESS}/*.ply", "--out", out],
            "check": ["check", f"{ADDRESS}/a.ply"],
        }
        alone = {"ray": ["predict", model, ball, "--out", out, "--engine", "ray", "--workers", "1"]}
        found = watched(tmp_path, "1", alone)["ray"]
        assert found["asked"] == [] and found["code"] == 0, found
    for case, found in watched(tmp_path, "1", cases).items():
        assert found["asked"] == [] and found["code"] != 0, f"{case}: {found}"
        assert "HODGEFORMER_OFFLINE is set" in found["told"] and "Traceback" not in found["told"], f"{case}: {found}"
    for case, found in watched(tmp_path, "0", cases).items():
        assert "example.org" in str(found["asked"]), f"{case}: nothing was forbidden above; {found}"


def test_the_closed_door_is_noticed(tmp_path: Path) -> None:
    """The viewer does open a socket, so the test above would fail for it."""
    done = run_offline("view", "--no-browser", "--port", "0", "--out", tmp_path / "out")
    assert "a socket was opened" in done.stderr
