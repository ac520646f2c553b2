"""No way to run code from data, and no network where none is needed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import FILES, SOURCE

from clock import PATIENCE
from hodgeformer.data.folder import write_folder
from hodgeformer.data.shards import write_shards
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere
from tiny_models import write_tiny
from tiny_sets import TINY, parts

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


# Whoever looks for another machine, or speaks to one, is written down.
WATCHED = """
import os, socket, sys

def watched(ask):
    def asked(*given, **named):
        host = next((str(part) for part in given if isinstance(part, (str, bytes, tuple)) and part), "")
        if not any(name in host for name in ("127.0.0.1", "localhost", "::1", "/")):
            with open(os.environ["ASKED"], "a") as stream:
                stream.write(f"{ask.__name__} {host}\\n")
            raise OSError("nobody answers")
        return ask(*given, **named)
    return asked

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, watched(getattr(socket.socket, name)))
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, watched(getattr(socket, name)))
import hodgeformer as hf
from hodgeformer.cli import main
from hodgeformer.base.errors import HodgeFormerError
try:
    if sys.argv[1] == "from_pretrained":
        hf.Predictor.from_pretrained(sys.argv[2])
    elif sys.argv[1] == "load_mesh":
        from upath import UPath
        hf.load_mesh(UPath(sys.argv[2]))
    else:
        main()
except HodgeFormerError as error:
    sys.exit(str(error))
"""
STAND_INS = {
    "huggingface_hub": "import socket\ndef hf_hub_download(*given): socket.getaddrinfo('hub.example.org', 443)\n",
    "wandb": "import socket\ndef init(**given): socket.getaddrinfo('wandb.example.org', 443)\n",
}
ADDRESS = "http://example.org/scans"


def asked_for(folder: Path, offline: str, *words: object) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Who was asked for on the network while a verb ran."""
    for name, content in STAND_INS.items():
        (folder / f"{name}.py").write_text(content)
    asked = folder / "asked.txt"
    asked.write_text("")
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HODGEFORMER_OFFLINE": offline,
            "ASKED": str(asked),
            "PYTHONPATH": paths,
        },
    )
    return asked.read_text(), done


@pytest.mark.parametrize(
    "case",
    [
        *("mesh", "place", "out", "shards", "hub", "wandb", "ray"),
        *(pytest.param(case, marks=pytest.mark.attack) for case in ("pattern", "check", "ray by itself")),
    ],
)
def test_offline_forbids_every_way_out(case: str, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs addresses: pip install 'hodgeformer[remote]' aiohttp")
    model, ball, out = write_tiny(tmp_path), tmp_path / "ball.obj", tmp_path / "out"
    save_mesh(icosphere(1), ball)
    write_shards(parts(), tmp_path / "packed")
    spec = tmp_path / "packed" / "dataset.toml"
    write_folder(parts(), tmp_path / "folder")
    spec.write_text(spec.read_text().replace('shards = "shards"', f'shards = "{ADDRESS}"'))
    learning = ["--out", tmp_path / "run", *(word for setting in TINY for word in ("--set", setting))]
    words: dict[str, list[object]] = {
        "mesh": ["predict", model, f"{ADDRESS}/a.ply", "--out", out],
        "pattern": ["predict", model, f"{ADDRESS}/*.ply", "--out", out],
        "out": ["predict", model, ball, "--out", ADDRESS],
        "place": ["load_mesh", f"{ADDRESS}/a.ply"],
        "check": ["check", f"{ADDRESS}/a.ply"],
        "shards": ["train", tmp_path / "packed", *learning, "--allow-remote"],
        "hub": ["from_pretrained", "someone/bodies"],
        "wandb": ["train", tmp_path / "folder", *learning, "--set", "train.track=wandb"],
        "ray": ["predict", model, ball, "--out", out, "--engine", "ray", "--address", "example.org:6379"],
        "ray by itself": ["predict", model, ball, "--out", out, "--engine", "ray", "--workers", "1"],
    }
    asked, done = asked_for(tmp_path, "1", *words[case])
    assert asked == "", f"{asked}\n{done.stderr}"
    if case == "ray by itself":
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode != 0
    assert "HODGEFORMER_OFFLINE is set" in done.stderr and "Traceback" not in done.stderr
    asked, _ = asked_for(tmp_path, "0", *words[case])
    assert "example.org" in asked  # else nothing was forbidden above


def test_the_closed_door_is_noticed(tmp_path: Path) -> None:
    """The viewer does open a socket, so the test above would fail for it."""
    done = run_offline("view", "--no-browser", "--port", "0", "--out", tmp_path / "out")
    assert "a socket was opened" in done.stderr
