"""How fast a server answers one client and eight, compared with the same meshes in one call without a server."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hodgeformer.lab.bench.yardsticks import human_sized_mesh
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.predictor import Predictor

_MANY = 8  # clients


def serving_costs(quick: bool) -> list[dict[str, Any]]:
    """Answers per second, and the milliseconds a client waits, with `human` on meshes of Human size.

    `share` compares with `predict_many` on the same files in this process, which is measured before and after the
    server's turns.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scan.ply"
        save_mesh(human_sized_mesh(), file)
        predictor, n = Predictor.load("human"), 16 if quick else 400
        list(predictor.predict_many([file] * _MANY))
        before = _per_second(predictor, file, n)
        with _serving() as port:
            visit = partial(_visit, port, file.read_bytes())
            waits = {clients: _waits(visit, clients, n) for clients in (1, _MANY)}
        alone = (before + _per_second(predictor, file, n)) / 2
    rows: list[dict[str, Any]] = []
    for clients, (seconds, taken) in waits.items():
        p50, p99 = 1e3 * np.percentile(seconds, [50, 99])
        speed = len(seconds) / taken
        rows.append({"clients": clients, "per_second": speed, "p50_ms": p50, "p99_ms": p99, "share": speed / alone})
    return [*rows, {"clients": "predict_many", "per_second": alone, "share": 1.0}]


def _per_second(predictor: Predictor, file: Path, n: int) -> float:
    start = time.perf_counter()
    answered = sum(1 for _ in predictor.predict_many([file] * n))
    return answered / (time.perf_counter() - start)


@contextmanager
def _serving() -> Iterator[int]:
    """The port of a server in a process of its own."""
    command = [sys.executable, "-m", "hodgeformer", "serve", "human", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(re.findall(r"http://[\d.]+:(\d+)", server.stdout.readline())[0])
        finally:
            server.terminate()


def _waits(visit: Any, clients: int, n: int) -> tuple[list[float], float]:
    """The seconds of each of n requests by this many concurrent clients, and the total, after a few to warm up."""
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(visit, [2] * clients))
        start = time.perf_counter()
        seconds = [wait for waits in pool.map(visit, [n // clients] * clients) for wait in waits]
    return seconds, time.perf_counter() - start


def _visit(port: int, content: bytes, n: int) -> list[float]:
    """The seconds of n requests, one after another over one connection."""
    connection, seconds = HTTPConnection("127.0.0.1", port, timeout=300), []
    for _ in range(n):
        start = time.perf_counter()
        connection.request("POST", "/predict?name=scan.ply", content)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}")
        seconds.append(time.perf_counter() - start)
    connection.close()
    return seconds
