"""Meshes from a browser: read, explained, limited."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

import httpx2
from starlette.testclient import TestClient

from clock import PATIENCE
from hodgeformer.web.server.intake import Uploads
from hodgeformer.web.viewer.app import create_app
from hodgeformer.web.viewer.messages import decode
from meshes import icosphere
from viewer_parts import BASE, file_bytes, make_viewer, running, upload


@pytest.mark.parametrize("suffix", [".obj", ".off", ".ply", ".stl", ".glb"])
def test_meshes_of_every_format_open(client: TestClient, tmp_path: Path, suffix: str) -> None:
    ball = icosphere(1)
    scene = upload(client, ball, tmp_path, f"ball{suffix}")
    _, arrays = decode(client.get(f"/api/meshes/{scene}/geometry").content)
    assert arrays["faces"].shape == (80, 3)
    assert np.abs(arrays["positions"]).max() <= 1
    if suffix != ".stl":
        np.testing.assert_array_equal(arrays["faces"], ball.faces)


def test_tiny_and_far_meshes_keep_their_shape(client: TestClient, tmp_path: Path) -> None:
    far = icosphere(1).with_vertices(icosphere(1).vertices * 1e-3 + 1e6)
    near = upload(client, icosphere(1), tmp_path)
    scenes = [upload(client, far, tmp_path), near]
    first, second = (decode(client.get(f"/api/meshes/{s}/geometry").content)[1]["positions"] for s in scenes)
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_a_broken_mesh_is_explained_by_its_name(client: TestClient) -> None:
    answer = client.post("/api/meshes", params={"name": "../../scan.ply"}, content=b"ply\nnonsense")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error.startswith("scan.ply:")
    assert "/" not in error.partition(":")[0]
    assert client.post("/api/meshes", params={"name": "empty.obj"}, content=b"").status_code == 422


@pytest.mark.parametrize("chunked", [False, True])
def test_large_uploads_are_refused_clearly(out: Path, chunked: bool) -> None:
    viewer = make_viewer(out, uploads=Uploads(max_bytes=2**20))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        content = iter([b"x" * 2**18] * 5) if chunked else b"x" * (2**20 + 1)
        answer = client.post("/api/meshes", params={"name": "big.obj"}, content=content)
    assert answer.status_code == 413
    assert "larger than 1 MB" in answer.json()["error"]
    assert len(viewer.meshes) == 0


def test_a_slow_or_broken_upload_blocks_nobody(out: Path, tmp_path: Path) -> None:
    head = "POST /api/meshes?name=a.obj HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nv 0 0 0"
    with running(make_viewer(out, uploads=Uploads(patience=PATIENCE))) as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
        for connection in slow:
            connection.sendall(head.encode())
        broken = socket.create_connection(("127.0.0.1", port))
        broken.sendall(head.encode())
        broken.close()
        content = file_bytes(icosphere(1), tmp_path)
        address = f"http://127.0.0.1:{port}/api/meshes"
        answer = httpx2.post(address, params={"name": "b.ply"}, content=content, timeout=PATIENCE / 2)
        assert answer.status_code == 201
        for connection in slow:
            connection.close()
    with (
        running(make_viewer(out, uploads=Uploads(patience=0.1))) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as given_up,
    ):
        given_up.sendall(head.encode())
        assert b"408" in given_up.recv(200)
