"""A viewer for tests: a model that needs no weights, and what a page asks of the server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import uvicorn
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from clock import PATIENCE
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.member import Member
from hodgeformer.predict.model_info import ModelInfo
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.result import Result
from hodgeformer.web.server.listening import PatientProtocol
from hodgeformer.web.viewer.app import Viewer, create_app
from hodgeformer.web.viewer.messages import encode
from hodgeformer.web.viewer.models import ModelList, OfferedModel
from hodgeformer.web.viewer.outbox import Outbox

BASE = "http://127.0.0.1:8765"
CLASSES = ("left", "right")
COLORS = ((10, 20, 30), (200, 100, 50))


class SidedModel(Predictor):
    """Faces left of zero are class 0, the others class 1; `before` runs first. There is no network to inspect."""

    def __init__(self, before: Callable[[Mesh], None] = lambda mesh: None) -> None:
        info = ModelInfo(prepare=PrepareConfig(), model=ModelConfig(task="segmentation", n_classes=2), classes=CLASSES)
        super().__init__(Member(info, network=cast(Any, None)))
        self._before = before

    def predict(self, mesh: Any, *, report: Any = None, **options: Any) -> Result:
        self._before(mesh)
        report(0.5)
        right = mesh.vertices[mesh.faces].mean(axis=1)[:, 0] > 0
        probabilities = np.stack([~right, right], axis=1).astype(np.float32)
        return Result(mesh, "segmentation", "face", probabilities, CLASSES, COLORS)


def make_viewer(out: Path, model: Any = None, **parts: Any) -> Viewer:
    shelf = ModelList({"sided": OfferedModel("by the sign of x", model or SidedModel())})
    return Viewer(models=shelf, outbox=Outbox(out), **parts)


def file_bytes(mesh: Mesh, tmp_path: Path, suffix: str = ".ply") -> bytes:
    path = tmp_path / f"mesh{suffix}"
    save_mesh(mesh, path)
    return path.read_bytes()


def upload(client: TestClient, mesh: Mesh, tmp_path: Path, name: str = "ball.ply") -> str:
    answer = client.post("/api/meshes", params={"name": name}, content=file_bytes(mesh, tmp_path, Path(name).suffix))
    assert answer.status_code == 201, answer.text
    scene: str = answer.json()["id"]
    return scene


def predicted(client: TestClient, scene: str, model: str = "sided") -> dict[str, Any]:
    assert client.post(f"/api/meshes/{scene}/predict", params={"model": model}).status_code == 202
    return until(client, f"/api/meshes/{scene}/progress", "done", "failed")


def until(client: TestClient, path: str, *stages: str) -> dict[str, Any]:
    """What is told at one of these stages."""
    deadline = time.monotonic() + PATIENCE
    while True:
        progress: dict[str, Any] = client.get(path).json()
        if progress["stage"] in stages:
            return progress
        assert progress["stage"] != "failed" and time.monotonic() < deadline, progress
        time.sleep(0.005)


def annotation(labels: Any, classes: Any = CLASSES, colors: Any = ("#0a141e", "#c86432"), **more: Any) -> bytes:
    header = {"classes": classes, "colors": colors, **more}
    return encode(header, {"labels": np.asarray(labels, dtype=np.int32)})


def running(viewer: Viewer, token: str | None = None) -> AbstractContextManager[int]:
    """A real server on a free port."""
    return answering(create_app(viewer, token=token))


@contextmanager
def answering(app: ASGIApp) -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=PatientProtocol, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
