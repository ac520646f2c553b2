"""`hodgeformer view` from the command line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

import httpx2

from clock import PATIENCE
from command import run
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere
from tiny_models import write_tiny


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["no-such-model"], "no-such-model: no file, folder or bundled model"),
        (["no-such-mesh.ply"], "does not exist"),
        (["--host", "256.1.1.1"], "this machine has no such address"),
        (["--out", __file__], "this is a file"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], expected: str) -> None:
    found = run("view", "--no-browser", *arguments)
    assert found.exit_code == 2
    assert expected in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hodgeformer.web.viewer.app")
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    found = run("view", "--no-browser")
    assert found.exit_code == 2
    assert "pip install 'hodgeformer[view]'" in found.stderr


def test_the_command_serves_and_ends_quietly(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path)
    save_mesh(icosphere(1), tmp_path / "scan.obj")
    words = ["view", tiny, tmp_path / "scan.obj", "--no-browser", "--port", "0", "--out", tmp_path / "out"]
    with subprocess.Popen(
        [sys.executable, "-m", "hodgeformer", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = re.findall(r"http://\S+", process.stdout.readline())[0]
        assert str(tmp_path / "out") in process.stdout.readline()
        root = address.partition("?")[0]
        strangers = [
            httpx2.get(f"{root}{path}", timeout=PATIENCE).status_code for path in ("", "?token=no", "api/session")
        ]
        with httpx2.Client(follow_redirects=True, timeout=PATIENCE) as browser:
            assert browser.get(address).status_code == 200
            session = browser.get(f"{root}api/session").json()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
    assert strangers == [403, 403, 403]
    assert session["preferred"] == "tiny"
    assert session["opened"]["name"] == "scan"
    assert told == ""
    assert process.returncode == 0
    assert not (tmp_path / "out").exists()  # nothing was saved, so nothing was made
