"""`hodgeformer serve` from the command line, where it does not come to serving."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")

from command import run
from tiny_models import write_tiny


def refused(*words: str | Path) -> str:
    found = run("serve", *words)
    assert found.exit_code == 2
    assert found.stderr.count("\n") == 1
    return found.stderr


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    assert "no-such-model: no file, folder or bundled model" in refused("no-such-model")
    assert "no file, folder" in refused("none.onnx")
    (tmp_path / "tiny.onnx").touch()
    assert "exported models run on the CPU" in refused(tmp_path / "tiny.onnx", "--device", "cuda")
    assert "printable ASCII" in refused("human", "--token", "schlüssel")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "try another --port" in refused(write_tiny(tmp_path), "--port", str(taken.getsockname()[1]))


def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hodgeformer.web.server.service", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert "pip install 'hodgeformer[serve]'" in refused("human")
