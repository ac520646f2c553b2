"""The page and the meshes that the viewer serves, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from hodgeformer.web.viewer.app import create_app
from hodgeformer.web.viewer.open_meshes import OpenMesh, OpenMeshes
from meshes import icosphere
from viewer_parts import BASE, make_viewer, upload


def test_the_page_and_all_it_names_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    named = re.findall(r'(?:src|href)="\./([^"]+)"', page.text)
    assert len(named) >= 3
    for name in named:
        assert client.get(f"/{name}").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/app.py", "/assets/../../app.py", "/assets/%2e%2e/%2e%2e/app.py", "/..%2f..%2fetc/passwd", "//etc/passwd",
        "/assets/", "/static/index.html", "/api/meshes/../session/mesh", "/api/meshes/%2e%2e%2f%2e%2e/mesh",
    ],
)  # fmt: skip
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 410)


def test_ids_are_long_and_old_scenes_leave(out: Path, tmp_path: Path) -> None:
    store = OpenMeshes(max_meshes=3)
    viewer = make_viewer(out, meshes=store, opened=store.add(icosphere(0), pinned=True))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        ids = [upload(client, icosphere(0), tmp_path) for _ in range(5)]
        assert min(map(len, ids)) >= 24
        assert len(set(ids)) == 5
        states = [client.get(f"/api/meshes/{scene}/progress").status_code for scene in ids]
        opened = client.get("/api/session").json()["opened"]["id"]
        assert client.get(f"/api/meshes/{opened}/progress").status_code == 200
    assert states == [410, 410, 410, 200, 200]


def test_a_store_holds_a_bounded_number_of_bytes() -> None:
    ball = icosphere(2)
    size = OpenMesh(ball).n_bytes
    store = OpenMeshes(max_bytes=3 * size)
    for _ in range(10):
        store.add(ball)
    assert len(store) == 3
