"""The viewer's server: what it answers, and what it refuses."""

from __future__ import annotations

import io
import json
import pickle
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

import httpx2
import torch
import uvicorn
from starlette.testclient import TestClient
from typer.testing import CliRunner

from hodgeformer.cli import app as command_line
from hodgeformer.cli.view_models import ViewerModel, model_entries
from hodgeformer.cli.view_operators import LearnedEigenfunctions
from hodgeformer.data.folder import open_folder
from hodgeformer.errors import MeshError
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import prepare
from hodgeformer.ops.star_attention import star_attention_weights
from hodgeformer.packed.pack import pack
from hodgeformer.predict import Predictor
from hodgeformer.view.app import Viewer, create_app
from hodgeformer.view.server.attention import Attention, nearest_element
from hodgeformer.view.server.fields import Eigenfunctions, Pick, ScalarField, eigenfunctions
from hodgeformer.view.server.frames import decode_frame, encode_frame
from hodgeformer.view.server.guard import Hosts
from hodgeformer.view.server.models import Entry, Shelf
from hodgeformer.view.server.outbox import Outbox
from hodgeformer.view.server.refusal import Refusal
from hodgeformer.view.server.scenes import Prediction, Scene, SceneStore
from hodgeformer.view.server.surface import face_neighbors
from hodgeformer.view.server.uploads import Uploads, safe_file_name
from meshes import icosphere
from tiny_models import tiny_checkpoint, write_tiny

BASE = "http://127.0.0.1:8765"
CLASSES = ("left", "right")
COLORS = ((10, 20, 30), (200, 100, 50))


class SidedModel:
    """Faces left of zero are class 0, the others class 1; `before` runs first."""

    network: Any = None
    preparation: Any = None

    def __init__(self, before: Callable[[Mesh], None] = lambda mesh: None) -> None:
        self._before = before

    def predict(self, mesh: Mesh, report: Callable[[float], None]) -> Prediction:
        self._before(mesh)
        report(0.5)
        right = mesh.vertices[mesh.faces].mean(axis=1)[:, 0] > 0
        probabilities = np.stack([~right, right], axis=1).astype(np.float32)
        return Prediction("sided", "segmentation", CLASSES, COLORS, probabilities)


def make_viewer(out: Path, model: Any = None, **parts: Any) -> Viewer:
    shelf = Shelf({"sided": Entry(lambda: model or SidedModel(), "by the sign of x")})
    return Viewer(shelf=shelf, outbox=Outbox(out), **parts)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "saved" / "here"


@pytest.fixture
def client(out: Path) -> Iterator[TestClient]:
    with TestClient(create_app(make_viewer(out)), base_url=BASE) as opened:
        yield opened


def file_bytes(mesh: Mesh, tmp_path: Path, suffix: str = ".ply") -> bytes:
    path = tmp_path / f"mesh{suffix}"
    save_mesh(mesh, path)
    return path.read_bytes()


def upload(client: TestClient, mesh: Mesh, tmp_path: Path, name: str = "ball.ply") -> str:
    answer = client.post("/api/scenes", params={"name": name}, content=file_bytes(mesh, tmp_path, Path(name).suffix))
    assert answer.status_code == 201, answer.text
    scene: str = answer.json()["id"]
    return scene


def predicted(client: TestClient, scene: str, model: str = "sided") -> dict[str, Any]:
    assert client.post(f"/api/scenes/{scene}/predict", params={"model": model}).status_code == 202
    for _ in range(3000):
        progress: dict[str, Any] = client.get(f"/api/scenes/{scene}/progress").json()
        if progress["stage"] in ("done", "failed"):
            return progress
        time.sleep(0.005)
    raise AssertionError("the prediction does not end")


def annotation(labels: Any, classes: Any = CLASSES, colors: Any = ("#0a141e", "#c86432"), **more: Any) -> bytes:
    header = {"classes": classes, "colors": colors, **more}
    return encode_frame(header, {"labels": np.asarray(labels, dtype=np.int32)})


@contextmanager
def running(viewer: Viewer) -> Iterator[int]:
    """A real server on a free port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(viewer), log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


# --- messages ---------------------------------------------------------------------------------------------------------


def test_frames_survive() -> None:
    arrays = {
        "a": np.arange(7, dtype=np.uint8),
        "b": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3),
        "c": np.empty(0, dtype=np.int32),
        "d": np.array([2**32 - 1], dtype=np.uint32),
    }
    header, found = decode_frame(encode_frame({"é": [1, None]}, arrays))
    assert header == {"é": [1, None]}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        b"\x02\0\0\0{}",
        b"\x04\0\0\0null",
        encode_frame({}, {"a": np.zeros(9, dtype=np.int32)})[:-8],
        b'\x50\0\0\0{"arrays": [{"name": "a", "dtype": "object", "shape": [1]}]}                        ',
        b'\x50\0\0\0{"arrays": [{"name": "a", "dtype": "int32", "shape": [-1]}]}                        ',
    ],
)
def test_other_messages_are_refused(message: bytes) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        decode_frame(message)


# --- who may ask ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:1", "[::1]:8765"])
def test_own_names_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/session", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8765", "192.168.0.7:8765", "", "localhost@x"])
def test_rebound_names_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert "does not answer as" in answer.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://localhost:8765"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    for ask in (client.get, client.post):
        assert ask("/api/session", headers=headers).status_code == 403
    assert "evil" not in client.get("/api/session", headers=headers).headers.get("access-control-allow-origin", "")


def test_a_link_to_the_page_is_fine(client: TestClient) -> None:
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_listening_everywhere_still_refuses_names() -> None:
    hosts = Hosts.of("0.0.0.0")
    assert hosts.allow("192.168.0.7:8765")
    assert hosts.allow("[fe80::1]:8765")
    assert not hosts.allow("evil.example:8765")
    assert not Hosts.of("127.0.0.1").allow("192.168.0.7")
    assert Hosts.of("192.168.0.7").allow("192.168.0.7:8765")


def test_answers_keep_to_themselves(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"


# --- what is served ---------------------------------------------------------------------------------------------------


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
        "/assets/", "/static/index.html", "/api/scenes/../session/mesh", "/api/scenes/%2e%2e%2f%2e%2e/mesh",
    ],
)  # fmt: skip
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 410)


@pytest.mark.parametrize("suffix", [".obj", ".off", ".ply", ".stl", ".glb"])
def test_meshes_of_every_format_open(client: TestClient, tmp_path: Path, suffix: str) -> None:
    ball = icosphere(1)
    scene = upload(client, ball, tmp_path, f"ball{suffix}")
    _, arrays = decode_frame(client.get(f"/api/scenes/{scene}/mesh").content)
    assert arrays["faces"].shape == (80, 3)
    assert np.abs(arrays["positions"]).max() <= 1
    if suffix != ".stl":
        np.testing.assert_array_equal(arrays["faces"], ball.faces)


def test_tiny_and_far_meshes_keep_their_shape(client: TestClient, tmp_path: Path) -> None:
    far = icosphere(1).with_vertices(icosphere(1).vertices * 1e-3 + 1e6)
    near = upload(client, icosphere(1), tmp_path)
    scenes = [upload(client, far, tmp_path), near]
    first, second = (decode_frame(client.get(f"/api/scenes/{s}/mesh").content)[1]["positions"] for s in scenes)
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_a_broken_mesh_is_explained_by_its_name(client: TestClient) -> None:
    answer = client.post("/api/scenes", params={"name": "../../scan.ply"}, content=b"ply\nnonsense")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error.startswith("scan.ply:")
    assert "/" not in error.partition(":")[0]
    assert client.post("/api/scenes", params={"name": "empty.obj"}, content=b"").status_code == 422


def test_a_mesh_cannot_pull_in_other_files(client: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(36))
    gltf = {
        "asset": {"version": "2.0"}, "buffers": [{"uri": f"../../../../../../..{secret}", "byteLength": 36}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}], "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}], "scene": 0,
    }  # fmt: skip
    answer = client.post("/api/scenes", params={"name": "a.gltf"}, content=json.dumps(gltf).encode())
    assert answer.status_code == 422
    assert "not beside it" in answer.json()["error"]


@pytest.mark.parametrize("chunked", [False, True])
def test_large_uploads_are_refused_clearly(out: Path, chunked: bool) -> None:
    viewer = make_viewer(out, uploads=Uploads(max_bytes=2**20))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        content = iter([b"x" * 2**18] * 5) if chunked else b"x" * (2**20 + 1)
        answer = client.post("/api/scenes", params={"name": "big.obj"}, content=content)
    assert answer.status_code == 413
    assert "larger than 1 MB" in answer.json()["error"]
    assert len(viewer.scenes) == 0


def test_ids_are_long_and_old_scenes_leave(out: Path, tmp_path: Path) -> None:
    store = SceneStore(max_scenes=3)
    viewer = make_viewer(out, scenes=store, opened=store.add(icosphere(0), pinned=True))
    with TestClient(create_app(viewer), base_url=BASE) as client:
        ids = [upload(client, icosphere(0), tmp_path) for _ in range(5)]
        assert min(map(len, ids)) >= 24
        assert len(set(ids)) == 5
        states = [client.get(f"/api/scenes/{scene}/progress").status_code for scene in ids]
        opened = client.get("/api/session").json()["opened"]["id"]
        assert client.get(f"/api/scenes/{opened}/progress").status_code == 200
    assert states == [410, 410, 410, 200, 200]


def test_a_store_holds_a_bounded_number_of_bytes() -> None:
    ball = icosphere(2)
    size = Scene(ball).n_bytes
    store = SceneStore(max_bytes=3 * size)
    for _ in range(10):
        store.add(ball)
    assert len(store) == 3


# --- predictions ------------------------------------------------------------------------------------------------------


def test_prediction_arrives_with_classes_and_colors(client: TestClient, tmp_path: Path) -> None:
    ball = icosphere(2)
    scene = upload(client, ball, tmp_path)
    assert client.get(f"/api/scenes/{scene}/prediction").status_code == 404
    assert predicted(client, scene) == {"stage": "done", "fraction": 1.0, "error": None}
    header, arrays = decode_frame(client.get(f"/api/scenes/{scene}/prediction").content)
    assert header["classes"] == list(CLASSES)
    assert header["colors"] == [list(color) for color in COLORS]
    right = ball.vertices[ball.faces].mean(axis=1)[:, 0] > 0
    np.testing.assert_array_equal(arrays["labels"], right)
    assert arrays["probabilities"].shape == (320, 2)


@pytest.mark.parametrize("name", ["", "no such", "../tiny.safetensors", "/etc/passwd"])
def test_only_models_on_the_shelf_are_run(client: TestClient, tmp_path: Path, name: str) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    assert client.post(f"/api/scenes/{scene}/predict", params={"model": name}).status_code == 404


def test_two_people_get_their_own_results(out: Path, tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=20)
    viewer = make_viewer(out, SidedModel(before=lambda mesh: both.wait() and None))
    balls = [icosphere(1), icosphere(2)]
    with TestClient(create_app(viewer), base_url=BASE) as client:
        scenes = [upload(client, ball, tmp_path) for ball in balls]
        for scene in scenes:  # neither can end before both have begun
            client.post(f"/api/scenes/{scene}/predict", params={"model": "sided"})
        rows = []
        for scene in scenes:
            while client.get(f"/api/scenes/{scene}/progress").json()["stage"] != "done":
                time.sleep(0.01)
            rows.append(decode_frame(client.get(f"/api/scenes/{scene}/prediction").content)[1]["labels"])
    assert [len(row) for row in rows] == [80, 320]


def test_a_failing_prediction_is_told_and_the_next_one_works(out: Path, tmp_path: Path) -> None:
    def refuse_small(mesh: Mesh) -> None:
        if mesh.n_faces < 50:
            raise MeshError("ball: too small")

    with TestClient(create_app(make_viewer(out, SidedModel(refuse_small))), base_url=BASE) as client:
        small, large = upload(client, icosphere(0), tmp_path), upload(client, icosphere(1), tmp_path)
        assert predicted(client, small) == {"stage": "failed", "fraction": None, "error": "ball: too small"}
        assert predicted(client, large)["stage"] == "done"


def test_a_slow_or_broken_upload_blocks_nobody(out: Path, tmp_path: Path) -> None:
    viewer = make_viewer(out, uploads=Uploads(patience=0.6))
    head = "POST /api/scenes?name=a.obj HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nv 0 0 0"
    with running(viewer) as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
        for connection in slow:
            connection.sendall(head.encode())
        broken = socket.create_connection(("127.0.0.1", port))
        broken.sendall(head.encode())
        broken.close()
        content = file_bytes(icosphere(1), tmp_path)
        begun = time.monotonic()
        answer = httpx2.post(f"http://127.0.0.1:{port}/api/scenes", params={"name": "b.ply"}, content=content)
        assert answer.status_code == 201
        assert time.monotonic() - begun < 5
        slow[0].settimeout(10)
        assert b"408" in slow[0].recv(200)  # given up after a while without a byte
        for connection in slow:
            connection.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model"))


def test_fifty_predictions_do_not_grow_memory(out: Path, tiny: Path) -> None:
    shelf = Shelf(model_entries(str(tiny), max_faces=None))
    viewer = Viewer(shelf=shelf, outbox=Outbox(out), scenes=SceneStore(max_scenes=4))
    ball = icosphere(3)
    process = psutil.Process()
    used = []
    with TestClient(create_app(viewer), base_url=BASE) as client:
        for _ in range(65):
            scene = viewer.scenes.add(ball.with_vertices(ball.vertices))
            assert predicted(client, scene.id, "tiny")["stage"] == "done"
            used.append(process.memory_info().rss)
    assert len(viewer.scenes) == 4
    # One prediction works on more than a megabyte; fifty that were kept would show.
    assert max(used[-10:]) - max(used[10:15]) < 10 * 2**20


def test_models_of_every_kind_answer_for_faces(tmp_path: Path) -> None:
    ball = icosphere(2)
    fractions: list[float] = []
    for task, element, rows in (
        ("segmentation", "face", 320),
        ("segmentation", "vertex", 320),
        ("segmentation", "edge", 320),
        ("classification", "mesh", 1),
    ):
        predictor = Predictor(tiny_checkpoint(task, element))
        model = ViewerModel("tiny", predictor, max_faces=None)
        prediction = model.predict(ball, fractions.append)
        assert prediction.probabilities.shape == (rows, 4)
        np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1, rtol=1e-5)
        assert fractions[0] == 0.0
        assert fractions[-1] == 1.0
        assert sorted(fractions) == fractions
        fractions.clear()
    simplified = ViewerModel("tiny", Predictor(tiny_checkpoint()), max_faces=100).predict(ball, fractions.append)
    assert simplified.probabilities.shape == (320, 4)
    assert any("100 faces" in warning for warning in simplified.warnings)


# --- layers -----------------------------------------------------------------------------------------------------------


def test_neighbors_lead_back() -> None:
    ball = icosphere(2)
    neighbors = face_neighbors(ball)
    for face in range(0, ball.n_faces, 37):
        for side in range(3):
            other = neighbors[face, side]
            ends = {ball.faces[face, side], ball.faces[face, (side + 1) % 3]}
            assert ends <= set(ball.faces[other].tolist())
            assert face in neighbors[other]
    soup = Mesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * ball.n_faces).reshape(-1, 3))
    np.testing.assert_array_equal(face_neighbors(soup), neighbors)
    single = Mesh(np.eye(3), np.array([[0, 1, 2]]))
    assert (face_neighbors(single) == -1).all()


def test_eigenfunctions_of_the_sphere_come_in_ones_threes_and_fives() -> None:
    ball = icosphere(3)
    round_ball = ball.with_vertices(ball.vertices / np.linalg.norm(ball.vertices, axis=1, keepdims=True))
    values, vectors = eigenfunctions(round_ball, 9)
    np.testing.assert_allclose(values / (values[1:4].mean() / 2), [0, 2, 2, 2, 6, 6, 6, 6, 6], atol=0.1)
    assert np.ptp(vectors[:, 0]) < 1e-6


def test_fields_are_offered_and_computed(out: Path, tmp_path: Path, tiny: Path) -> None:
    shelf = Shelf(model_entries(str(tiny), max_faces=None))
    sources = (Attention(shelf), Eigenfunctions(), LearnedEigenfunctions(shelf))
    viewer = Viewer(shelf=shelf, outbox=Outbox(out), sources=sources)
    with TestClient(create_app(viewer), base_url=BASE) as client:
        scene = upload(client, icosphere(2), tmp_path)
        fields = f"/api/scenes/{scene}/fields"
        assert [field["name"] for field in client.get(fields).json()] == ["eigenfunction"]
        assert predicted(client, scene, "tiny")["stage"] == "done"
        offered = {field["name"]: field for field in client.get(fields).json()}
        assert list(offered) == ["attention", "eigenfunction", "learned-eigenfunction"]
        for name, field in offered.items():
            answer = client.get(f"{fields}/{name}", params={"face": 17, "weights": "1,2,1"})
            assert answer.status_code == 200, answer.text
            header, arrays = decode_frame(answer.content)
            assert len(arrays["values"]) == (320 if header["element"] == "face" else 162)
            assert np.isfinite(arrays["values"]).all()
            assert np.ptp(arrays["values"]) > 0
            wrong = client.get(f"{fields}/{name}", params={field["choices"][0]["key"]: "99", "face": 0})
            assert wrong.status_code == 400
        assert client.get(f"{fields}/attention", params={"face": 320}).status_code == 400
        assert client.get(f"{fields}/attention").status_code == 400
        assert client.get(f"{fields}/no-such").status_code == 404


def test_slow_layers_block_nobody(out: Path, tmp_path: Path) -> None:
    go_on = threading.Event()

    class Slow:
        name, title, picks = "slow", "Slow", False

        def choices(self, scene: Scene) -> tuple[()]:
            return ()

        def field(self, scene: Scene, chosen: Any, pick: Any) -> ScalarField:
            go_on.wait(20)
            return ScalarField(np.zeros(80, dtype=np.float32), "face", signed=False, note="")

    with (
        running(make_viewer(out, sources=(Slow(),))) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        content = file_bytes(icosphere(1), tmp_path)
        scene = client.post("/api/scenes", params={"name": "a.ply"}, content=content).json()["id"]
        field = f"http://127.0.0.1:{port}/api/scenes/{scene}/fields/slow"
        waiting = [threading.Thread(target=httpx2.get, args=(field,), kwargs={"timeout": 30}) for _ in range(12)]
        for thread in waiting:
            thread.start()
        time.sleep(0.2)
        assert client.get(f"/api/scenes/{scene}/mesh", timeout=10).status_code == 200
        assert all(thread.is_alive() for thread in waiting)
        go_on.set()
        for thread in waiting:
            thread.join()


@pytest.mark.parametrize("star", ["v.star0_inv", "v.star1"])
def test_attention_is_the_row_of_the_learned_star(tiny: Path, star: str) -> None:
    shelf = Shelf(model_entries(str(tiny), max_faces=None))
    model = shelf.model("tiny")
    ball = icosphere(2)
    scene = Scene(ball, prediction=model.predict(ball, lambda fraction: None))
    pick = Pick(40, tuple(ball.vertices[ball.faces[40]].mean(axis=0)))
    found = Attention(shelf).field(scene, {"layer": "1", "head": "2", "star": star}, pick)

    prepared = prepare(ball, model.preparation)
    batch = pack([prepared])
    block = model.network.encoder.blocks[0]
    caught = []
    hook = block.attention.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    with torch.no_grad():
        model.network(batch)
    hook.remove()
    module = getattr(block.attention.laplacian["v"], star.partition(".")[2])
    pattern = batch.topology.patterns[module.kind]
    q, k = module.queries_and_keys(caught[0][module.kind])
    weights = star_attention_weights(q=q, k=k, pattern=pattern)[:, 1].detach().numpy()
    row = nearest_element(prepared, scene, pick, module.kind)
    entries = slice(int(pattern.offsets[row]), int(pattern.offsets[row + 1]))
    np.testing.assert_allclose(weights[entries].sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(found.values.max(), weights[entries].max(), rtol=1e-4)
    touched = np.zeros(prepared.n[module.kind], dtype=bool)
    touched[pattern.indices[entries].numpy()] = True
    members = prepared.topology.faces if module.kind == "v" else prepared.topology.face_edges
    np.testing.assert_array_equal(found.values > 0, prepared.to_file_order(touched[members].any(axis=1), "f"))


# --- saving -----------------------------------------------------------------------------------------------------------


def labels_of(n: int) -> np.ndarray:
    return np.arange(n) % 3 - 1


def test_saved_labels_and_meshes_load_again(client: TestClient, tmp_path: Path, out: Path) -> None:
    ball = icosphere(1)
    scene = upload(client, ball, tmp_path, "my scan.ply")
    labels = labels_of(80)
    answer = client.post(f"/api/scenes/{scene}/save", content=annotation(labels))
    assert answer.json()["files"] == ["my scan.txt", "my scan.json", "my scan.ply", "my scan.glb"]
    for suffix in (".ply", ".glb"):
        loaded = load_mesh(out / f"my scan{suffix}")
        np.testing.assert_array_equal(loaded.faces, ball.faces)
        np.testing.assert_array_equal(loaded.attributes["face_labels"], labels)
        colors = loaded.attributes["face_colors"][:, :3]
        np.testing.assert_array_equal(colors[labels == 1], np.tile(COLORS[1], ((labels == 1).sum(), 1)))
    for name in ("my scan.txt", "my scan.ply"):
        content = (out / name).read_bytes()
        read = client.post(f"/api/scenes/{scene}/labels", params={"name": name}, content=content)
        np.testing.assert_array_equal(decode_frame(read.content)[1]["labels"], labels)
    described = json.loads((out / "my scan.json").read_text())
    assert described["faces"] == {"unlabelled": 27, "left": 27, "right": 26}


def test_saving_again_replaces_own_files_only(client: TestClient, tmp_path: Path, out: Path) -> None:
    first, second = (upload(client, icosphere(0), tmp_path, "a.ply") for _ in range(2))
    for scene, label in ((first, 0), (second, 1), (first, 1)):
        client.post(f"/api/scenes/{scene}/save", content=annotation(np.full(20, label)))
    assert sorted(path.name for path in out.glob("*.txt")) == ["a.txt", "a_2.txt"]
    assert set((out / "a.txt").read_text().split()) == {"1"}


@pytest.mark.parametrize("name", ["../../../escape.ply", "..\\..\\escape.ply", "/tmp/escape.ply", "....ply", "nul.ply"])
def test_nothing_is_written_outside(client: TestClient, tmp_path: Path, out: Path, name: str) -> None:
    scene = upload(client, icosphere(0), tmp_path, name)
    out.mkdir(parents=True)
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(out)}
    labels = np.arange(20) % 2
    assert client.post(f"/api/scenes/{scene}/save", content=annotation(labels)).status_code == 200
    for data_set in (f"{name} set", "..", "", "a/../../b", "/tmp/c"):
        content = annotation(labels, data_set=data_set)
        assert client.post(f"/api/scenes/{scene}/data-set", content=content).status_code == 200
    after = {path for path in tmp_path.rglob("*") if not path.is_relative_to(out)}
    assert after - before == set()
    assert safe_file_name(name) not in ("", ".", "..")
    assert not re.search(r"[/\\]", safe_file_name(name))


def test_a_link_out_of_the_folder_is_not_followed(client: TestClient, tmp_path: Path, out: Path) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out.mkdir(parents=True)
    (out / "dataset").symlink_to(elsewhere, target_is_directory=True)
    answer = client.post(f"/api/scenes/{scene}/data-set", content=annotation(np.arange(20) % 2, data_set="dataset"))
    assert answer.status_code == 403
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        annotation(np.zeros(19)),
        annotation(np.full(20, 2)),
        annotation(np.zeros(20), classes=("a", "a")),
        annotation(np.zeros(20), classes=("a\nb", "c")),
        annotation(np.zeros(20), colors=("#000000", "red")),
        annotation(np.zeros(20), colors=("#000000",)),
        encode_frame({}, {}),
        b"nonsense",
    ],
)
def test_labels_that_do_not_fit_are_refused(client: TestClient, tmp_path: Path, out: Path, content: bytes) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    assert client.post(f"/api/scenes/{scene}/save", content=content).status_code == 400
    assert not out.exists()


def test_exported_data_set_opens(client: TestClient, tmp_path: Path, out: Path) -> None:
    given = {}
    for i, n in enumerate((1, 2, 1, 2, 1)):
        ball = icosphere(n).with_vertices(icosphere(n).vertices * (1 + i / 7))
        scene = upload(client, ball, tmp_path, "scan.ply")
        labels = labels_of(ball.n_faces)
        for _ in range(2):  # again with the same mesh: replaced, not added
            content = annotation(labels, data_set="my set")
            answer = client.post(f"/api/scenes/{scene}/data-set", content=content)
        assert answer.json()["meshes"] == i + 1
        given["scan" if i == 0 else f"scan_{i + 1}"] = ball
        data = open_folder(out / "my set")
        assert data.classes == CLASSES
        assert data.colors == COLORS
        assert {sample.name for sample in data.samples} == set(given)
    for sample in data.samples:
        mesh, target = data.load(sample)
        np.testing.assert_array_equal(mesh.vertices, given[sample.name].vertices)
        np.testing.assert_array_equal(target, labels_of(mesh.n_faces))
    other = annotation(np.zeros(80), classes=("b", "a"), data_set="my set")
    answer = client.post(f"/api/scenes/{upload(client, icosphere(1), tmp_path)}/data-set", content=other)
    assert answer.status_code == 409
    assert "left, right" in answer.json()["error"]


def test_an_empty_annotation_is_no_data_set(client: TestClient, tmp_path: Path) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    answer = client.post(f"/api/scenes/{scene}/data-set", content=annotation(np.full(20, -1), data_set="d"))
    assert answer.status_code == 400
    assert "Nothing is labelled" in answer.json()["error"]


class Bomb:
    went_off = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Bomb, "went_off", True)


def test_nothing_is_unpickled(client: TestClient, tmp_path: Path) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    array = io.BytesIO()
    np.save(array, np.array([Bomb()], dtype=object), allow_pickle=True)
    for name, content in (
        ("a.npy", array.getvalue()),
        ("a.npy", pickle.dumps(Bomb())),
        ("a.txt", pickle.dumps(Bomb())),
    ):
        answer = client.post(f"/api/scenes/{scene}/labels", params={"name": name}, content=content)
        assert answer.status_code == 422
    assert client.post("/api/scenes", params={"name": "a.ply"}, content=pickle.dumps(Bomb())).status_code == 422
    assert not Bomb.went_off


@pytest.mark.parametrize("kind", ["face_labels", "vertex_labels"])
def test_labels_in_a_mesh_file_are_shown(client: TestClient, tmp_path: Path, kind: str) -> None:
    ball = icosphere(1)
    save_mesh(ball, tmp_path / "a.ply", **{kind: np.full(80 if kind == "face_labels" else ball.n_vertices, 3)})
    content = (tmp_path / "a.ply").read_bytes()
    scene = client.post("/api/scenes", params={"name": "a.ply"}, content=content).json()["id"]
    _, arrays = decode_frame(client.get(f"/api/scenes/{scene}/mesh").content)
    np.testing.assert_array_equal(arrays["labels"], np.full(80, 3))


def test_labels_of_another_mesh_are_refused(client: TestClient, tmp_path: Path) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    answer = client.post(f"/api/scenes/{scene}/labels", params={"name": "a.txt"}, content=b"0\n1\n")
    assert answer.status_code == 422
    assert "2 labels for mesh" in answer.json()["error"]


# --- command line -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["no-such-model"], "no-such-model: there is no such file or folder"),
        (["no-such-mesh.ply"], "there is no such file"),
        (["--host", "256.1.1.1"], "no address of this machine"),
        (["--out", __file__], "this is a file"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], expected: str) -> None:
    found = CliRunner().invoke(command_line, ["view", "--no-browser", *arguments])
    assert found.exit_code == 2
    assert expected in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = CliRunner().invoke(command_line, ["view", "--no-browser", "--port", port])
    assert found.exit_code == 2
    assert "try another --port" in found.stderr
