from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hodgeformer.data.download import data_folder, fetch, home
from hodgeformer.errors import DataError

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT at /good (with ranges), /plain (without), half of it at /cut, and rubbish at /wrong."""

    ranges: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.ranges.append(self.headers.get("Range"))
        if self.path == "/missing":
            self.send_error(404)
            return
        body, start = (b"rubbish" if self.path == "/wrong" else CONTENT), 0
        if self.path == "/good" and self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start : len(body) // 2] if self.path == "/cut" else body[start:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def online(monkeypatch) -> None:
    monkeypatch.delenv("HODGEFORMER_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Server.ranges.clear()


def test_the_first_source_that_works(server: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.bin"
    sources = [f"{server}/missing", f"{server}/wrong", "http://127.0.0.1:9/closed", "no address", f"{server}/good"]
    seen: list[tuple[int, int | None]] = []
    assert fetch(sources, path, sha256=SHA256, progress=lambda *at: seen.append(at)) == path
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_file_that_is_there_is_not_fetched(server: str, tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    fetch([f"{server}/good"], path, sha256=SHA256)
    assert Server.ranges == []
    path.write_bytes(b"damaged")
    fetch([f"{server}/good"], path, sha256=SHA256)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("then", ["good", "plain"])
def test_a_broken_download_goes_on(server: str, tmp_path: Path, then: str) -> None:
    path = tmp_path / "file.bin"
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch([f"{server}/cut"], path, sha256=SHA256)
    assert not path.exists()
    assert (tmp_path / "file.bin.part").stat().st_size == len(CONTENT) // 2
    fetch([f"{server}/{then}"], path, sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert Server.ranges == [None, f"bytes={len(CONTENT) // 2}-"]


def test_a_part_of_another_file_is_thrown_away(server: str, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * (len(CONTENT) + 1))
    path = fetch([f"{server}/good", f"{server}/good"], tmp_path / "file.bin", sha256=SHA256)
    assert path.read_bytes() == CONTENT


def test_what_to_do_by_hand(server: str, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file.bin"
    with pytest.raises(DataError, match=rf"checksum.*by hand from {server}/wrong and put it at {path}"):
        fetch([f"{server}/wrong"], path, sha256=SHA256)
    monkeypatch.setenv("HODGEFORMER_OFFLINE", "1")
    Server.ranges.clear()
    with pytest.raises(DataError, match="HODGEFORMER_OFFLINE is set"):
        fetch([f"{server}/good"], path, sha256=SHA256)
    assert Server.ranges == []


def test_folders_follow_the_environment(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HODGEFORMER_HOME", str(tmp_path))
    monkeypatch.delenv("HODGEFORMER_DATA", raising=False)
    assert (home(), data_folder()) == (tmp_path, tmp_path / "data")
    monkeypatch.setenv("HODGEFORMER_DATA", str(tmp_path / "d"))
    assert data_folder() == tmp_path / "d"
