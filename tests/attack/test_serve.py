"""`hodgeformer serve` under load, with strangers who send too much, too slowly, or nonsense."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

import httpx2

from attack.mutate import tally
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.predictor import Predictor
from meshes import icosphere, open_grid
from tiny_models import write_tiny

N_CLIENTS = 8


@contextmanager
def serving(
    model: str | Path, *options: str, before: Sequence[str] = ()
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of its own on a free port; its address."""
    words = [*before, sys.executable, "-m", "hodgeformer", "serve", str(model), "--port", "0", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield re.findall(r"http://[\d.:]+", process.stdout.readline())[0], process
        finally:
            process.kill()


def resident(root: str) -> float:
    numbers = httpx2.get(f"{root}/metrics", timeout=100).text
    return float(re.findall(r"^process_resident_memory_bytes (\S+)", numbers, re.M)[0])


def flood(root: str, n_bytes: int) -> int:
    """The status for an upload that never announces its size."""
    block = bytes(2**20)
    answer = httpx2.post(f"{root}/predict", content=(block for _ in range(n_bytes // len(block))), timeout=100)
    return int(answer.status_code)


def announce(root: str, n_bytes: int) -> int:
    """The status for an upload whose announced size is too much: it comes before the upload."""
    host, port = root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=100) as stream:
        stream.sendall(f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n_bytes}\r\n\r\n".encode())
        return int(stream.recv(100).split()[1])


def drip(root: str) -> int:
    """The status for a sender of a byte now and then."""
    host, port = root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=0.2) as stream:
        stream.sendall(f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10000\r\n\r\n".encode())
        while True:
            stream.sendall(b"v")
            try:
                return int(stream.recv(100).split()[1])
            except TimeoutError:
                continue


def nonsense(root: str) -> int:
    answer = httpx2.post(f"{root}/predict", params={"name": "a.ply"}, content=b"ply\nnonsense", timeout=100)
    return int(answer.status_code)


def visit(root: str, answers: dict[Path, dict[str, Any]], end: float, first: int) -> list[float]:
    """Ask for one mesh after another and compare; the seconds of each request."""
    seconds, paths = [], list(answers)
    contents = {path: path.read_bytes() for path in paths}
    with httpx2.Client(base_url=root, timeout=100) as client:
        while time.monotonic() < end:
            path = paths[(first + len(seconds)) % len(paths)]
            begun = time.perf_counter()
            answer = client.post("/predict", params={"name": path.name}, content=contents[path])
            seconds.append(time.perf_counter() - begun)
            assert answer.status_code == 200, answer.text
            assert answer.json() == answers[path]
    return seconds


def load(root: str, answers: dict[Path, dict[str, Any]], seconds: float, n_bytes: int) -> list[float]:
    """Eight clients, and strangers all the while. The memory of the server after each third."""
    end, marks = time.monotonic() + seconds, []
    with ThreadPoolExecutor(N_CLIENTS + 4) as pool:
        clients = [pool.submit(visit, root, answers, end, first) for first in range(N_CLIENTS)]
        strangers: dict[str, Future[int]] = {}
        statuses: dict[str, set[int]] = {"flood": set(), "announce": set(), "drip": set(), "nonsense": set()}
        acts = {"flood": (flood, root, n_bytes), "announce": (announce, root, n_bytes), "drip": (drip, root)}
        acts["nonsense"] = (nonsense, root)
        thirds = [end - seconds * share for share in (2 / 3, 1 / 3, 0)]
        while time.monotonic() < end:
            for name, (act, *words) in acts.items():
                if name in strangers and strangers[name].done():
                    statuses[name].add(strangers.pop(name).result())
                if name not in strangers and (name != "flood" or not statuses["flood"]):
                    strangers[name] = pool.submit(act, *words)
            if time.monotonic() > thirds[len(marks)]:
                marks.append(resident(root))
            time.sleep(0.1)
        marks.append(resident(root))
        for name, stranger in strangers.items():
            statuses[name].add(stranger.result())
        taken = np.concatenate([client.result() for client in clients])
    assert statuses == {"flood": {413}, "announce": {413}, "drip": {408}, "nonsense": {422}}
    p50, p99 = np.percentile(taken, [50, 99])
    memory = " ".join(f"{mark / 2**20:.0f}" for mark in marks)
    sys.stdout.write(
        f"{len(taken)} requests of {N_CLIENTS} clients in {seconds:.0f} s, all answers right; "
        f"p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms; resident MB at thirds: {memory}\n"
    )
    tally("requests to serve", len(taken), f"all right, p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
    return marks


def expected(predictor: Predictor, paths: list[Path]) -> dict[Path, dict[str, Any]]:
    return {path: predictor.predict(path).to_dict() | {"file": path.name} for path in paths}


def end_in_the_middle(root: str, process: subprocess.Popen[str], path: Path) -> None:
    """SIGTERM while a request is worked on: it is answered, others are refused, and nothing is said."""

    def ask() -> Any:
        return httpx2.post(f"{root}/predict", params={"tta": 100}, content=path.read_bytes(), timeout=100)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask)
        while "hodgeformer_working 1.0" not in httpx2.get(f"{root}/metrics", timeout=20).text:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(httpx2.TransportError):
            for _ in range(500):
                httpx2.get(f"{root}/health", timeout=20)
                time.sleep(0.02)
        assert not slow.done()
        assert slow.result().status_code == 200
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


def test_strangers_hurt_nobody_and_what_has_begun_ends(tmp_path: Path) -> None:
    paths = [tmp_path / "ball.ply", tmp_path / "grid.obj"]
    for path, mesh in zip(paths, (icosphere(3), open_grid(6, 6)), strict=True):
        save_mesh(mesh, path)
    model = write_tiny(tmp_path)
    answers = expected(Predictor.load(model), paths)
    with serving(model, "--max-upload", "4", "--upload-seconds", "1") as (root, process):
        load(root, answers, 2, 64 * 2**20)
        end_in_the_middle(root, process, paths[0])


@pytest.mark.skipif(sys.platform == "win32", reason="no ulimit there")
def test_half_sent_headers_keep_nobody_out_and_fill_no_log(tmp_path: Path) -> None:
    """More connections than the server may have open files."""
    few = ("sh", "-c", 'ulimit -n 512 && exec "$@"', "sh")
    with serving(write_tiny(tmp_path), before=few) as (root, process), contextlib.ExitStack() as held:
        host, port = root.removeprefix("http://").split(":")
        for _ in range(700):
            stream = held.enter_context(socket.create_connection((host, int(port)), timeout=20))
            stream.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        for _ in range(3):
            assert httpx2.get(f"{root}/health", timeout=10).status_code == 200
        for _ in range(100):
            with socket.create_connection((host, int(port)), timeout=20) as stream:
                stream.sendall(b"nonsense\r\n\r\n")
                assert b" 400 " in stream.recv(100)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert said.count("out of system resource") <= 1 and said.count("Invalid HTTP request") == 1
    assert len(said) < 4000


@pytest.mark.attack(minutes=1)
@pytest.mark.real_data
def test_a_minute_of_load_and_strangers(real_data: Path) -> None:
    paths = sorted((real_data / "human_seg" / "train").glob("*.obj"))[::80]
    assert len(paths) >= 4
    answers = expected(Predictor.load("human"), paths)
    with serving("human", "--upload-seconds", "60") as (root, process):
        begun = resident(root)
        marks = load(root, answers, 60, 2 * 2**30)
        sys.stdout.write(f"resident MB before: {begun / 2**20:.0f}\n")
        end_in_the_middle(root, process, paths[0])
    assert marks[-1] - marks[0] < 60 * 2**20
