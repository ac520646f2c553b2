"""The viewer's routes under whatever a stranger sends: always an answer, never 500, and it goes on serving."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

import httpx2
import numpy as np
import psutil
from starlette.testclient import TestClient

from attack.mutate import ALL, SEED, tally
from clock import PATIENCE
from hodgeformer.web.server import listening
from hodgeformer.web.viewer.app import create_app
from meshes import icosphere
from viewer_parts import BASE, annotation, answering, file_bytes, make_viewer, predicted, running, upload

ROUTES = (
    ("GET", "session"), ("POST", "meshes"), ("GET", "meshes/{}/geometry"), ("POST", "meshes/{}/predict"),
    ("GET", "meshes/{}/progress"), ("GET", "meshes/{}/prediction"), ("GET", "meshes/{}/fields"),
    ("GET", "meshes/{}/fields/attention"), ("POST", "meshes/{}/labels"), ("POST", "meshes/{}/save"),
    ("POST", "meshes/{}/data-set"), ("POST", "series/0"), ("GET", "learning"), ("POST", "learning"),
    ("DELETE", "learning"),
)  # fmt: skip
WORDS = (
    "", "auto", "sided", "../..", "10" * 40, "\x00", "ü", "1,1,1", "nan", "-1", "1e999", "ball.ply", "ball.obj",
    "l.npy",
)  # fmt: skip
SECONDS_OF_LOAD = float(os.environ.get("HODGEFORMER_ATTACK_SECONDS", "120"))
LARGE = 32 * 2**20  # bytes, more than the system keeps for a connection


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(make_viewer(tmp_path / "out")), base_url=BASE, raise_server_exceptions=False) as opened:
        yield opened


def framed(header: object) -> bytes:
    """A message as safetensors begins it, with any header."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * 64


@pytest.mark.parametrize(
    "header",
    [
        {"labels": {"dtype": "I32", "shape": [10**30], "data_offsets": [0, 64]}},
        {"labels": {"dtype": "I32", "shape": [2**62, 4], "data_offsets": [0, 64]}},
        {"labels": {"dtype": "BF16", "shape": [32], "data_offsets": [0, 64]}},
        {"labels": {"dtype": "I32", "shape": [16], "data_offsets": [0, 64]}, "__metadata__": {"about": "[" * 10**5}},
        {"labels": {"dtype": "F64", "shape": [8], "data_offsets": [0, 64]}, "__metadata__": {"about": "{}"}},
        [],
    ],
)
def test_frames_that_lie_are_refused(client: TestClient, tmp_path: Path, header: object) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    for route in ("save", "data-set"):
        assert client.post(f"/api/meshes/{scene}/{route}", content=framed(header)).status_code == 400


def mutated(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        choice = rng.random()
        if choice < 0.5 and at < len(data):
            data[at] = rng.randrange(256)
        elif choice < 0.75:
            data[at:at] = rng.randbytes(rng.randint(1, 9))
        else:
            del data[at : at + rng.randint(1, 40)]
    return bytes(data)


def attack(client: TestClient, tmp_path: Path, n: int, seed: int) -> None:
    rng = random.Random(seed)
    ball = icosphere(1)
    scene = upload(client, ball, tmp_path)
    predicted(client, scene)
    bodies = [file_bytes(ball, tmp_path, suffix) for suffix in (".ply", ".obj", ".glb")]
    bodies += [annotation(np.arange(80) % 2), annotation(np.arange(80) % 2, data_set="d"), b"0\n" * 80, b""]
    counts: dict[int, int] = {}
    for _ in range(n):
        method, route = rng.choice(ROUTES)
        names = ("name", "model", "face", "weights", "up", "index", "layer", "faces", "minutes")
        query = {rng.choice(names): rng.choice(WORDS) for _ in range(rng.randint(0, 3))}
        mesh = scene if rng.random() < 0.9 else rng.choice(("none", "..", "a" * 300))
        body = mutated(rng.choice(bodies), rng) if method == "POST" else b""
        answer = client.request(method, f"/api/{route.format(mesh)}", params=query, content=body)
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (method, route, query, answer.text)
        if answer.status_code >= 400:
            assert len(answer.json()["error"]) < 2000
    sys.stdout.write(f"{n} requests, answers by status: {dict(sorted(counts.items()))}\n")
    tally("requests to the viewer", n, ", ".join(f"{n} x {status}" for status, n in sorted(counts.items())))
    assert client.get("/api/session").status_code == 200


def test_strange_requests_get_an_answer(client: TestClient, tmp_path: Path) -> None:
    attack(client, tmp_path, 120, seed=0)


@pytest.mark.attack(minutes=1)
def test_many_strange_requests_get_an_answer(client: TestClient, tmp_path: Path) -> None:
    attack(client, tmp_path, ALL // 10, SEED)


def test_half_sent_headers_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEADER_PATIENCE", 1.0)
    with running(make_viewer(tmp_path / "out"), token="secret") as port:
        silent, half = (socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(2))
        half.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        for open_one in (silent, half):
            assert open_one.recv(100) == b""  # closed by the server
            open_one.close()
        assert httpx2.get(f"http://127.0.0.1:{port}/", timeout=PATIENCE).status_code == 403


async def large_answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
        await send({"type": "http.response.body", "body": bytes(LARGE)})


def test_an_answer_that_nobody_reads_is_given_up_and_a_slow_reader_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEADER_PATIENCE", 0.5)

    def asking(port: int) -> socket.socket:
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        stream.settimeout(20)
        stream.connect(("127.0.0.1", port))
        stream.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return stream

    def taken(stream: socket.socket, pause: float) -> int:
        n = 0
        with stream, contextlib.suppress(ConnectionResetError):
            while n < LARGE and (got := stream.recv(2**19)):
                n += len(got)
                time.sleep(pause)
        return n

    with answering(large_answer) as port:
        deaf, slow = asking(port), asking(port)
        assert taken(slow, 0.01) >= LARGE  # takes longer than the deaf one is waited for
        time.sleep(1.5)
        assert taken(deaf, 0) < LARGE // 2
        monkeypatch.setattr(listening, "MOST_CHECKS", 2)
        assert taken(asking(port), 0.1) < LARGE  # steadily, but for ever


def test_only_who_knows_the_token_comes_in(tmp_path: Path) -> None:
    with running(make_viewer(tmp_path / "out"), token="secret") as port:
        root = f"http://127.0.0.1:{port}"
        for path in ("/", "/?token=", "/?token=wrong", "/?token=secre", "/api/session", "/api/session?token=secret"):
            assert httpx2.get(root + path, timeout=PATIENCE).status_code == 403, path
        for cookie in (f"hodgeformer-{port}=wrong", "token=secret", "\xff", f'hodgeformer-{port}="'):
            refused = httpx2.get(f"{root}/api/session", headers={"cookie": cookie.encode("latin-1")}, timeout=PATIENCE)
            assert refused.status_code == 403
        with httpx2.Client(base_url=root, timeout=PATIENCE) as browser:
            shown = browser.get("/?token=secret")
            assert shown.status_code == 303 and shown.headers["location"] == "/"
            assert "HttpOnly" in shown.headers["set-cookie"] and "SameSite=strict" in shown.headers["set-cookie"]
            assert browser.get("/").status_code == 200
            assert browser.get("/api/session").status_code == 200


@pytest.mark.attack(minutes=2)
def test_minutes_of_load_leave_memory_and_descriptors_as_they_were(tmp_path: Path) -> None:
    """Two sittings that open, predict, look and save in turn."""
    process, began, marks = psutil.Process(), time.monotonic(), []
    ball = icosphere(2)
    with (
        running(make_viewer(tmp_path / "out")) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as one,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as two,
    ):
        content = file_bytes(ball, tmp_path)
        while time.monotonic() - began < SECONDS_OF_LOAD:
            for client in (one, two):
                scene = client.post("/api/meshes", params={"name": "ball.ply"}, content=content).json()["id"]
                client.post(f"/api/meshes/{scene}/predict", params={"model": "sided"})
                while client.get(f"/api/meshes/{scene}/progress").json()["stage"] != "done":
                    pass
                for route in ("geometry", "prediction", "fields"):
                    assert client.get(f"/api/meshes/{scene}/{route}").status_code == 200
                body = annotation(np.arange(ball.n_faces) % 2, data_set="d")
                assert client.post(f"/api/meshes/{scene}/data-set", content=body).status_code == 200
            marks.append((process.memory_info().rss, process.num_fds()))
    quarter = len(marks) // 4
    first, last = np.median(marks[quarter : 2 * quarter], axis=0), np.median(marks[-quarter:], axis=0)
    memory, files = (f"{before:,.0f} -> {after:,.0f}" for before, after in zip(first, last, strict=True))
    sys.stdout.write(f"{len(marks)} rounds: bytes of memory {memory}, open files {files}\n")
    tally("rounds of two sittings in the viewer", len(marks), f"bytes of memory {memory}, open files {files}")
    assert last[0] - first[0] < 20 * 2**20 and last[1] - first[1] < 5
