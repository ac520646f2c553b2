"""The layers that the viewer computes."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

import httpx2
from starlette.testclient import TestClient

from clock import PATIENCE
from hodgeformer.mesh.geometry import face_vectors, norms
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import prepare
from hodgeformer.predict.operators import spread_from
from hodgeformer.web.viewer.app import Viewer, create_app
from hodgeformer.web.viewer.fields import Pick, ScalarField
from hodgeformer.web.viewer.messages import decode, face_neighbors, welded
from hodgeformer.web.viewer.models import ModelList, offered_models
from hodgeformer.web.viewer.open_meshes import OpenMesh, Prediction
from hodgeformer.web.viewer.operators import Attention, DiagonalStars, Spreading
from hodgeformer.web.viewer.outbox import Outbox
from meshes import icosphere
from tiny_models import write_tiny
from viewer_parts import BASE, file_bytes, make_viewer, predicted, running, upload


def test_neighbors_lead_back() -> None:
    ball = icosphere(2)
    neighbors = face_neighbors(welded(ball))
    for face in range(0, ball.n_faces, 37):
        for side in range(3):
            other = neighbors[face, side]
            ends = {ball.faces[face, side], ball.faces[face, (side + 1) % 3]}
            assert ends <= set(ball.faces[other].tolist())
            assert face in neighbors[other]
    soup = Mesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * ball.n_faces).reshape(-1, 3))
    np.testing.assert_array_equal(face_neighbors(welded(soup)), neighbors)
    single = Mesh(np.eye(3), np.array([[0, 1, 2]]))
    assert (face_neighbors(welded(single)) == -1).all()


def test_fields_are_offered_and_computed(out: Path, tmp_path: Path) -> None:
    shelf = ModelList(offered_models(str(write_tiny(tmp_path, blocks="HDT", star_std=0.5))))
    sources = (Attention(shelf), Spreading(shelf), DiagonalStars(shelf))
    viewer = Viewer(models=shelf, outbox=Outbox(out), sources=sources)
    with TestClient(create_app(viewer), base_url=BASE) as client:
        scene = upload(client, icosphere(2), tmp_path)
        fields = f"/api/meshes/{scene}/fields"
        assert [field["name"] for field in client.get(fields).json()] == []
        assert predicted(client, scene, "tiny")["stage"] == "done"
        offered = {field["name"]: field for field in client.get(fields).json()}
        assert list(offered) == ["attention", "spread", "diagonal-star"]
        for name, field in offered.items():
            answer = client.get(f"{fields}/{name}", params={"face": 17, "weights": "1,2,1"})
            assert answer.status_code == 200, answer.text
            header, arrays = decode(answer.content)
            assert len(arrays["values"]) == (320 if header["element"] == "face" else 162)
            finite = arrays["values"][np.isfinite(arrays["values"])]
            assert name != "spread" or len(finite) == len(arrays["values"])
            assert np.ptp(finite) > 0
            wrong = client.get(f"{fields}/{name}", params={field["choices"][0]["key"]: "99", "face": 0})
            assert wrong.status_code == 400
        assert client.get(f"{fields}/attention", params={"face": 320}).status_code == 400
        assert client.get(f"{fields}/attention").status_code == 400
        assert client.get(f"{fields}/no-such").status_code == 404


def test_slow_layers_block_nobody(out: Path, tmp_path: Path) -> None:
    go_on = threading.Event()

    class Slow:
        name, title, picks = "slow", "Slow", False

        def choices(self, scene: OpenMesh) -> tuple[()]:
            return ()

        def field(self, scene: OpenMesh, chosen: Any, pick: Any) -> ScalarField:
            go_on.wait(PATIENCE)
            return ScalarField(np.zeros(80, dtype=np.float32), "face", signed=False, note="")

    with (
        running(make_viewer(out, sources=(Slow(),))) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
    ):
        content = file_bytes(icosphere(1), tmp_path)
        scene = client.post("/api/meshes", params={"name": "a.ply"}, content=content).json()["id"]
        field = f"http://127.0.0.1:{port}/api/meshes/{scene}/fields/slow"
        waiting = [threading.Thread(target=httpx2.get, args=(field,), kwargs={"timeout": PATIENCE}) for _ in range(12)]
        for thread in waiting:
            thread.start()
        time.sleep(0.2)
        assert client.get(f"/api/meshes/{scene}/geometry", timeout=PATIENCE).status_code == 200
        assert all(thread.is_alive() for thread in waiting)
        go_on.set()
        for thread in waiting:
            thread.join()


def test_what_a_vertex_reads_spreads_with_time(tmp_path: Path) -> None:
    """Weights sum to one; with time more of the surface is read; a large mesh is looked at as the model sees it.

    Of the textbook's stars: learned ones differ from time to time.
    """
    shelf = ModelList(offered_models(str(write_tiny(tmp_path, blocks="DT", star_bound=0.0))))
    source, ball = Spreading(shelf), icosphere(3)
    scene = OpenMesh(ball)
    assert source.choices(scene) is None
    scene.prediction = Prediction("tiny", shelf.predictor("tiny").predict(ball, faces=320), 320)
    choices = source.choices(scene)
    assert choices is not None and [choice.key for choice in choices] == ["block", "time"]
    pick = Pick(7, tuple(ball.vertices[ball.faces[7, 0]]))
    fields = [source.field(scene, {"time": time}, pick).values for time, _ in choices[1].options]
    assert all(len(values) == ball.n_vertices and np.isfinite(values).all() for values in fields)
    spans = [np.ptp(values) for values in fields[1:]]
    assert spans == sorted(spans, reverse=True) and spans[0] > 2 * spans[-1]
    assert all(np.linalg.norm(ball.vertices[v.argmax()] - pick.point) < 0.3 for v in fields)
    working = icosphere(2)
    network = shelf.network("tiny")
    assert network is not None
    found = spread_from(network, prepare(working), 5)[1]
    areas = np.bincount(working.faces.ravel(), np.repeat(norms(face_vectors(working.vertices, working.faces)), 3)) / 3
    np.testing.assert_allclose(areas / areas.sum() @ found.heat, 1, rtol=1e-4)
    assert (np.diff(found.area) > 0).all() and (np.diff(found.distance) > 0).all()
    assert found.share.sum() == pytest.approx(1)
