"""A server for programs: right answers in every form, and one sentence for everything else."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from hodgeformer.cli.serve import serve
from hodgeformer.export.export import export
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.result import FORMATS, Result
from hodgeformer.web.server.api import MEDIA_TYPES, OPTIONS
from hodgeformer.web.server.service import Limits, Service, create_app, load_predictor
from meshes import icosphere, open_grid
from tiny_models import PARTS, tiny_checkpoint, write_tiny

BASE = "http://127.0.0.1:8000"


class Moody(Predictor):
    """Fails for meshes of one name, as if by a mistake in the code."""

    def predict(self, mesh: Any, **options: Any) -> Result:
        if Path(mesh).stem == "cursed":
            raise ZeroDivisionError("nobody foresaw it")
        return super().predict(mesh, **options)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Moody(tiny_checkpoint())


@pytest.fixture
def client(predictor: Predictor) -> Iterator[TestClient]:
    app = create_app(Service(predictor, Limits(max_bytes=2**20)))
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A ball and a grid."""
    folder = tmp_path_factory.mktemp("meshes")
    paths = [folder / "ball.stl", folder / "grid.obj"]
    for path, mesh in zip(paths, (icosphere(2), open_grid(9, 9)), strict=True):
        save_mesh(mesh, path)
    return paths


def form(*paths: Path) -> list[tuple[str, tuple[str, bytes]]]:
    return [("mesh", (path.name, path.read_bytes())) for path in paths]


def test_a_body_and_a_form_get_what_predict_says(client: TestClient, predictor: Predictor, files: list[Path]) -> None:
    content = files[0].read_bytes()
    for query in ({}, {"faces": "100"}, {"element": "vertex", "smooth": "true"}, {"tta": "2", "seed": "3"}):
        options: dict[str, Any] = {key: True if value == "true" else value for key, value in query.items()}
        expected = predictor.predict(files[0], **options).to_dict() | {"file": "ball.stl"}
        body = client.post("/predict", params={"name": "scans/ball.stl", **query}, content=content)
        sent = client.post("/predict", params=query, files=form(files[0]))
        assert body.json() == sent.json() == expected
    nameless = client.post("/predict", content=content).json()
    assert nameless["labels"] == predictor.predict(files[0]).labels.tolist()
    assert client.get("/model").json()["classes"] == list(PARTS)


def test_two_clients_with_files_of_one_name_get_each_their_own_answer(client: TestClient, predictor: Predictor) -> None:
    meshes = [icosphere(1), open_grid(9, 9)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("ball.ply", "grid.ply")]
        for path, mesh in zip(paths, meshes, strict=True):
            save_mesh(mesh, path)
        expected = [predictor.predict(path).to_dict() | {"file": "scan.ply", "mesh": "scan"} for path in paths]
        contents = [path.read_bytes() for path in paths] * 4

    def ask(content: bytes) -> Any:
        return client.post("/predict", params={"name": "scan.ply"}, content=content).json() | {"mesh": "scan"}

    def ask_for_several(content: bytes) -> Any:
        files = [("mesh", ("scan.ply", content)), ("mesh", (f"{len(content)}.ply", content))]
        return client.post("/batch", files=files).json()["results"]

    with ThreadPoolExecutor(2) as clients:
        assert list(clients.map(ask, contents)) == expected * 4
        batches = list(clients.map(ask_for_several, contents))
    assert [len(batch) for batch in batches] == [2] * 8
    assert [batch[0]["labels"] for batch in batches] == [answer["labels"] for answer in expected] * 4


def test_answers_come_in_every_format(client: TestClient, predictor: Predictor, files: list[Path]) -> None:
    assert set(MEDIA_TYPES) == set(FORMATS)
    expected = predictor.predict(files[1])
    for suffix, media in MEDIA_TYPES.items():
        if suffix == ".png":  # takes a while; the viewer and predict show that pictures work
            continue
        by_name = client.post("/predict", params={"format": suffix[1:]}, files=form(files[1]))
        by_type = client.post("/predict", headers={"Accept": f"video/mp4, {media};q=0.5, */*"}, files=form(files[1]))
        assert by_name.headers["content-type"].partition(";")[0] == media
        assert by_name.status_code == 200 and (suffix == ".npz" or by_name.content == by_type.content)
        if suffix == ".ply":
            path = files[1].with_name("answer.ply")
            path.write_bytes(by_name.content)
            np.testing.assert_array_equal(load_mesh(path).attributes["face_labels"], expected.labels)
        if suffix == ".npz":
            np.testing.assert_array_equal(np.load(io.BytesIO(by_name.content))["probabilities"], expected.probabilities)


def test_a_batch_answers_for_those_that_can_be_read(
    client: TestClient, predictor: Predictor, files: list[Path]
) -> None:
    broken = ("mesh", ("broken.ply", b"ply\nnonsense"))
    answer = client.post("/batch", files=[*form(*files), broken])
    assert answer.status_code == 200
    found = answer.json()
    assert found["results"] == [predictor.predict(path).to_dict() | {"file": path.name} for path in files]
    assert [failed["file"] for failed in found["failed"]] == ["broken.ply"]
    assert found["failed"][0]["error"].startswith("broken.ply:")
    zipped = client.post("/batch", params={"format": "txt"}, files=[*form(*files), broken])
    with ZipFile(io.BytesIO(zipped.content)) as archive:
        assert archive.namelist() == ["ball.stl.txt", "grid.obj.txt", "failed.json"]
        labels = np.loadtxt(archive.open("grid.obj.txt"), dtype=int)
    np.testing.assert_array_equal(labels, predictor.predict(files[1]).labels)
    assert client.post("/batch", files=[broken]).status_code == 422


def told(answer: Any, status: int) -> str:
    """The one sentence of a refusal."""
    assert answer.status_code == status, answer.text
    error: str = answer.json()["error"]
    assert error and "\n" not in error and "hodgeformer-upload" not in error
    return error


def test_what_cannot_be_answered_is_one_sentence(client: TestClient, files: list[Path]) -> None:
    def ask(query: dict[str, str], content: bytes = b"", **more: Any) -> Any:
        return client.post("/predict", params=query, content=content, **more)

    assert "Unknown option 'fases'" in told(ask({"fases": "3"}), 400)
    assert "Unknown option 'memory'" in told(ask({"memory": "1"}), 400)
    assert "greater than or equal to 1" in told(ask({"tta": "0"}), 422)
    assert "Unsupported format 'doc'" in told(ask({"format": "doc"}), 400)
    assert "Supported types: application/json" in told(ask({}, headers={"Accept": "video/mp4"}), 406)
    assert told(ask({"name": "../../a.ply"}, b"ply\nno"), 422).startswith("a.ply:")
    told(ask({}), 422)
    assert "/batch several" in told(client.post("/predict", files=form(*files)), 400)
    assert "are named 'ball.stl'" in told(client.post("/batch", files=form(files[0], files[0])), 400)
    assert "form cannot be read" in told(client.post("/batch", data={"a": "b"}, files=form(files[0])), 400)
    broken = client.post("/batch", content=b"--x\r\n", headers={"Content-Type": "multipart/form-data; boundary=y"})
    assert "form cannot be read" in told(broken, 400)
    told(client.get("/predict"), 405)
    told(client.get("/nothing"), 404)


def test_a_form_that_is_cut_off_is_refused_as_a_whole(client: TestClient, files: list[Path]) -> None:
    """Wherever it is cut: half a mesh is a mesh in many formats, and a file that is missing would go unnoticed."""
    whole = client.build_request("POST", "/batch", files=form(*files))
    content, sent = whole.read(), {"Content-Type": whole.headers["Content-Type"]}
    second = content.index(b"grid.obj")
    assert client.post("/batch", content=content, headers=sent).status_code == 200
    for cut in (second - 10, second + 3):
        answer = client.post("/batch", content=content[:cut], headers=sent)
        assert "cut off after 1 complete file;" in told(answer, 400), cut
    for cut in (content.index(b"\r\n\r\n", second) + 4, second + 400, len(content) - 8):
        answer = client.post("/batch", content=content[:cut], headers=sent)
        assert "cut off in 'grid.obj' after 1 complete file;" in told(answer, 400), cut


@pytest.mark.parametrize("name", ["\u6f22" * 100 + ".stl", "\U00020000" * 100 + ".stl", "a" * 300 + ".stl"])
def test_long_names_in_any_script_are_answered(client: TestClient, files: list[Path], name: str) -> None:
    content = files[0].read_bytes()
    one = client.post("/predict", params={"name": name}, content=content)
    assert one.status_code == 200 and one.json()["file"].endswith(".stl")
    many = client.post("/batch", files=[("mesh", (name, content))])
    assert many.status_code == 200 and not many.json()["failed"]


def test_numbers_at_the_ends_of_their_range_are_answered(client: TestClient) -> None:
    """Without a warning, which is an error here: squares of such coordinates overflow or vanish."""
    grid, files = open_grid(4, 5), {}
    unit = grid.vertices / np.abs(grid.vertices).max()
    for size in (0.0, 1e-320, 1e-200, 1e80, 1e200, 1.7e308):
        far, apart = grid.vertices.copy(), grid.vertices.copy()
        far[3, 0], apart[3, 0], apart[5, 0] = size, size, -size
        for name, vertices in {"whole": size * unit, "far": far, "apart": apart}.items():
            lines = [*(f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist())]
            lines += [f"f {a} {b} {c}" for a, b, c in (grid.faces + 1).tolist()]
            files[f"{name}{size}.obj"] = "\n".join(lines).encode()
    answer = client.post("/batch", params={"smooth": "true"}, files=[("mesh", one) for one in files.items()]).json()
    assert answer["failed"] == [] and len(answer["results"]) == len(files)
    for result in answer["results"]:
        shares = [part["area_share"] for part in result["parts"].values()]
        assert np.isfinite(result["probabilities"]).all() and sum(shares) == pytest.approx(1, abs=1e-3), result["file"]


@pytest.mark.parametrize("kind", ["announced", "chunked", "form"])
def test_what_is_too_large_is_refused(client: TestClient, kind: str) -> None:
    content = b"x" * (2**20 + 1)
    if kind == "form":
        answer = client.post("/batch", files=[("mesh", ("a.obj", content))])
    else:
        answer = client.post("/predict", content=iter([content]) if kind == "chunked" else content)
    assert "larger than 1 MB" in told(answer, 413)


def test_where_all_places_are_taken_clients_are_told_when_to_come_again(predictor: Predictor) -> None:
    with TestClient(create_app(Service(predictor, Limits(workers=1, queue=-1))), base_url=BASE) as client:
        answer = client.post("/predict", content=b"")
        assert "try again later" in told(answer, 503) and answer.headers["retry-after"] == "5"
        assert client.get("/health").status_code == 200


def test_a_mesh_cannot_pull_in_other_files(client: TestClient, tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(36))
    gltf = {"asset": {"version": "2.0"}, "buffers": [{"uri": f"../../../../..{tmp_path}/secret.bin", "byteLength": 36}]}
    gltf |= {
        "bufferViews": [{"buffer": 0, "byteLength": 36}], "nodes": [{"mesh": 0}], "scenes": [{"nodes": [0]}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
    }  # fmt: skip
    told(client.post("/predict", params={"name": "a.gltf"}, content=json.dumps(gltf).encode()), 422)
    both = client.post("/batch", files=[*form(files[0]), ("mesh", ("a.gltf", json.dumps(gltf).encode()))]).json()
    assert len(both["results"]) == 1 and "not in the same folder" in both["failed"][0]["error"]


def test_a_mistake_of_ours_is_told_in_a_line_and_the_others_go_on(client: TestClient, files: list[Path]) -> None:
    answer = client.post("/predict", params={"name": "cursed.stl"}, content=files[0].read_bytes())
    assert "(ZeroDivisionError)" in told(answer, 500)
    assert client.post("/predict", files=form(files[0])).status_code == 200
    counted = client.get("/metrics").text
    assert 'hodgeformer_requests_total{route="/predict",status="500"} 1.0' in counted


def test_only_who_knows_the_token_is_answered(predictor: Predictor, files: list[Path]) -> None:
    with TestClient(create_app(Service(predictor, Limits()), token="secret"), base_url="http://any.name") as client:
        assert client.get("/health").status_code == 200
        for given in ("", "secret", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "Bearer \xff"):
            for path in ("/", "/metrics", "/model", "/nothing"):
                refused = client.get(path, headers={"Authorization": given.encode("latin-1")})
                assert "requires its token" in told(refused, 401)
        assert client.post("/predict", files=form(files[0])).headers["www-authenticate"] == "Bearer"
        client.headers["Authorization"] = "Bearer secret"
        assert client.get("/metrics").status_code == 200
        assert client.post("/predict", files=form(files[0])).status_code == 200


def test_without_a_token_no_page_of_a_browser_is_answered(client: TestClient) -> None:
    assert "other web sites" in told(client.post("/predict", headers={"Origin": "http://evil.example"}), 403)
    for host in ("evil.example", "[::1].evil.example", "[::1]evil.example:80", "127.0.0.1:80.evil.example", "[::1", ""):
        assert "does not answer as" in told(client.get("/model", headers={"Host": host}), 403)
    for host in ("[::1]", "[::1]:8000", "127.0.0.1", "localhost:8000"):
        assert client.get("/model", headers={"Host": host}).status_code == 200


def test_numbers_for_prometheus(client: TestClient, files: list[Path]) -> None:
    client.post("/batch", files=form(*files))
    client.get("/no/such/path")
    numbers = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert numbers["hodgeformer_meshes_total"] == "2.0"
    assert float(numbers["hodgeformer_faces_total"]) == sum(load_mesh(path).n_faces for path in files)
    assert numbers['hodgeformer_requests_total{route="/batch",status="200"}'] == "1.0"
    assert numbers['hodgeformer_requests_total{route="other",status="404"}'] == "1.0"
    assert numbers['hodgeformer_request_seconds_bucket{le="+Inf",route="/batch"}'] == "1.0"
    assert numbers["hodgeformer_queue_length"] == numbers["hodgeformer_working"] == "0.0"
    assert numbers["hodgeformer_in_flight"] == "1.0"  # the one that asks
    assert float(numbers["process_resident_memory_bytes"]) > 2**20


def test_the_server_says_what_it_can_do(client: TestClient) -> None:
    described = client.get("/").text
    assert all(route.path in described for route in client.app.routes)  # type: ignore[attr-defined]
    assert all(option in described for option in ("name", "format", *OPTIONS))
    assert serve.__doc__ and "GET / explains how" in serve.__doc__


def test_exported_models_are_served_too(tmp_path: Path, files: list[Path], predictor: Predictor) -> None:
    export(tiny_checkpoint(), tmp_path / "tiny.onnx")
    with TestClient(
        create_app(Service(load_predictor(str(tmp_path / "tiny.onnx")), Limits())), base_url=BASE
    ) as client:
        found = client.post("/predict", files=form(files[0])).json()
    assert found["labels"] == predictor.predict(files[0]).labels.tolist()
    loaded = load_predictor(str(write_tiny(tmp_path)))
    np.testing.assert_array_equal(loaded.predict(files[0]).labels, found["labels"])
