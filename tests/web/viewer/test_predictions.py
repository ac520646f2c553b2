"""Predictions of the viewer: everyone gets their own, and memory stays."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from clock import PATIENCE
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.predictor import Predictor
from hodgeformer.web.viewer import models
from hodgeformer.web.viewer.app import Viewer, create_app
from hodgeformer.web.viewer.messages import decode, described
from hodgeformer.web.viewer.models import ModelList, offered_models
from hodgeformer.web.viewer.open_meshes import OpenMeshes
from hodgeformer.web.viewer.outbox import Outbox
from meshes import icosphere
from tiny_models import tiny_checkpoint
from viewer_parts import BASE, CLASSES, COLORS, SidedModel, make_viewer, predicted, until, upload


def test_prediction_arrives_with_classes_and_colors(client: TestClient, tmp_path: Path) -> None:
    ball = icosphere(2)
    scene = upload(client, ball, tmp_path)
    assert client.get(f"/api/meshes/{scene}/prediction").status_code == 404
    assert predicted(client, scene)["stage"] == "done"
    header, arrays = decode(client.get(f"/api/meshes/{scene}/prediction").content)
    assert header["classes"] == list(CLASSES)
    assert header["colors"] == [list(color) for color in COLORS]
    right = ball.vertices[ball.faces].mean(axis=1)[:, 0] > 0
    np.testing.assert_array_equal(arrays["labels"], right)
    assert arrays["probabilities"].shape == (320, 2)


@pytest.mark.parametrize("name", ["", "no such", "../tiny.safetensors", "/etc/passwd"])
def test_only_models_on_the_shelf_are_run(client: TestClient, tmp_path: Path, name: str) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    assert client.post(f"/api/meshes/{scene}/predict", params={"model": name}).status_code == 404


def test_two_people_get_their_own_results(out: Path, tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    viewer = make_viewer(out, SidedModel(before=lambda mesh: both.wait() and None))
    balls = [icosphere(1), icosphere(2)]
    with TestClient(create_app(viewer), base_url=BASE) as client:
        scenes = [upload(client, ball, tmp_path) for ball in balls]
        for scene in scenes:  # neither can end before both have begun
            client.post(f"/api/meshes/{scene}/predict", params={"model": "sided"})
        rows = []
        for scene in scenes:
            until(client, f"/api/meshes/{scene}/progress", "done")
            rows.append(decode(client.get(f"/api/meshes/{scene}/prediction").content)[1]["labels"])
    assert [len(row) for row in rows] == [80, 320]


def test_a_failing_prediction_is_told_and_the_next_one_works(out: Path, tmp_path: Path) -> None:
    def refuse_small(mesh: Mesh) -> None:
        if mesh.n_faces < 50:
            raise MeshError("ball: too small")

    with TestClient(create_app(make_viewer(out, SidedModel(refuse_small))), base_url=BASE) as client:
        small, large = upload(client, icosphere(0), tmp_path), upload(client, icosphere(1), tmp_path)
        progress = predicted(client, small)
        assert (progress["stage"], progress["error"]) == ("failed", "ball: too small")
        assert predicted(client, large)["stage"] == "done"


def test_a_replaced_prediction_that_fails_late_leaves_the_newer_one(out: Path) -> None:
    begun, fail = threading.Event(), threading.Event()

    def first_fails_late(mesh: Mesh) -> None:
        if not begun.is_set():
            begun.set()
            fail.wait(20)
            raise MeshError("ball: failed late")

    viewer = make_viewer(out, SidedModel(before=first_fails_late))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        opened = viewer.meshes.add(icosphere(1))
        client.post(f"/api/meshes/{opened.id}/predict", params={"model": "sided"})
        assert begun.wait(20)
        assert predicted(client, opened.id)["stage"] == "done"
        fail.set()
    for thread in threading.enumerate():
        if thread.name.startswith("predict"):
            thread.join(20)
    assert opened.progress.stage == "done"
    assert opened.progress.error is None


def test_too_many_questions_are_sent_away_and_a_closed_viewer_works_no_more(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MAX_WAITING", 1)
    begun, go_on = threading.Event(), threading.Event()

    def wait(mesh: Mesh) -> None:
        begun.set()
        go_on.wait(20)

    viewer = make_viewer(out, SidedModel(before=wait))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        meshes = [viewer.meshes.add(icosphere(1)) for _ in range(4)]
        statuses = [client.post(f"/api/meshes/{m.id}/predict", params={"model": "sided"}).status_code for m in meshes]
        assert statuses == [202, 202, 202, 503]  # two work, one waits
        assert begun.wait(20)
    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("predict"):
            thread.join(20)
    assert meshes[2].progress.stage == "waiting"  # it never began
    assert {opened.progress.stage for opened in meshes[:2]} == {"preparing the mesh"}  # stopped where they report


def test_an_answer_that_a_later_question_replaced_is_not_offered(out: Path) -> None:
    """The page fetches what a mesh was `predicted` with; what the server tells of then is the later question."""
    refuses = threading.Event()

    def refuse(mesh: Mesh) -> None:
        if refuses.is_set():
            raise MeshError("ball: refused")

    viewer = make_viewer(out, SidedModel(before=refuse))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        opened = viewer.meshes.add(icosphere(1))
        assert predicted(client, opened.id)["stage"] == "done"
        assert described(opened)["predicted"] == {"model": "sided", "faces": "auto"}
        refuses.set()
        assert predicted(client, opened.id)["stage"] == "failed"
        assert described(opened)["predicted"] is None


def test_fifty_predictions_do_not_grow_memory(out: Path, tiny: Path) -> None:
    shelf = ModelList(offered_models(str(tiny)))
    viewer = Viewer(models=shelf, outbox=Outbox(out), meshes=OpenMeshes(max_meshes=4))
    ball = icosphere(3)
    process = psutil.Process()
    used = []
    with TestClient(create_app(viewer), base_url=BASE) as client:
        for _ in range(65):
            scene = viewer.meshes.add(ball.with_vertices(ball.vertices))
            assert predicted(client, scene.id, "tiny")["stage"] == "done"
            used.append(process.memory_info().rss)
    assert len(viewer.meshes) == 4
    # One prediction works on more than a megabyte; fifty that were kept would show.
    assert max(used[-10:]) - max(used[10:15]) < 10 * 2**20


@pytest.mark.parametrize("task", ["face", "vertex", "edge", "mesh", "regression"])
def test_models_of_every_kind_answer_for_faces(out: Path, task: str) -> None:
    kind = {"mesh": "classification", "regression": "regression"}.get(task, "segmentation")
    predictor = Predictor(tiny_checkpoint(kind, None if kind != "segmentation" else task))
    viewer = make_viewer(out, predictor)
    with TestClient(create_app(viewer), base_url=BASE) as client:
        opened = viewer.meshes.add(icosphere(2))
        progress = predicted(client, opened.id)
        if task == "regression":
            assert progress["stage"] == "failed" and "predicts values, not classes" in progress["error"]
            return
        assert progress["stage"] == "done" and opened.prediction is not None
        assert opened.prediction.result.probabilities.shape == (1 if task == "mesh" else 320, 4)
        np.testing.assert_allclose(opened.prediction.result.probabilities.sum(axis=1), 1, rtol=1e-5)
