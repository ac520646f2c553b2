"""A folder that is gone through, what is kept of it, and a model that learns from that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from hodgeformer.data.folder import open_folder
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.web.viewer.app import create_app, make_viewer
from hodgeformer.web.viewer.data_set_file import held_out
from hodgeformer.web.viewer.messages import decode
from meshes import icosphere
from tiny_models import PARTS
from viewer_parts import BASE, annotation, predicted, until

NAMES = ("cat_1", "cat_2", "cat_3", "dog_1", "ears_dog_2")
COLORS = ("#112233", "#223344", "#334455", "#445566")


def ball(number: int) -> Mesh:
    return icosphere(1).with_vertices(icosphere(1).vertices * (1 + number / 7))


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Five meshes, one of them a folder deeper."""
    folder = tmp_path / "scans"
    (folder / "ears").mkdir(parents=True)
    for number, name in enumerate(("cat_1", "cat_2", "cat_3", "dog_1", "ears/dog_2")):
        save_mesh(ball(number), folder / f"{name}.ply")
    return folder


@pytest.fixture
def client(scans: Path, tiny: Path, out: Path) -> Iterator[TestClient]:
    yield from _client(scans, tiny, out)


def _client(scans: Path, tiny: Path, out: Path) -> Iterator[TestClient]:
    viewer = make_viewer(model=str(tiny), mesh=scans, out=out, faces="original", up="auto")
    with TestClient(create_app(viewer), base_url=BASE) as opened:
        yield opened


def keep(client: TestClient, number: int, labels: Any) -> Any:
    scene = client.post(f"/api/series/{number}").json()["id"]
    content = annotation(labels, PARTS, COLORS, data_set="scans")
    return client.post(f"/api/meshes/{scene}/data-set", content=content)


def test_a_folder_is_gone_through_and_what_is_kept_comes_back(
    client: TestClient, scans: Path, tiny: Path, out: Path
) -> None:
    series = client.get("/api/session").json()["series"]
    assert [mesh["name"] for mesh in series["meshes"]] == list(NAMES)
    assert {mesh["state"] for mesh in series["meshes"]} == {"untouched"} and series["classes"] == []
    first = client.post("/api/series/0").json()
    assert (first["name"], first["n_faces"], first["corrected"], first["predicted"]) == ("cat_1", 80, False, None)
    assert predicted(client, first["id"], "tiny")["stage"] == "done"
    labels = np.arange(80) % 4
    assert keep(client, 0, labels).status_code == 200
    assert keep(client, 4, labels).status_code == 200
    again = client.post("/api/series/0").json()
    assert (again["id"], again["corrected"]) == (first["id"], True)
    assert again["predicted"] == {"model": "tiny", "faces": "original"}
    for opened in _client(scans, tiny, out):  # another sitting
        found = opened.get("/api/session").json()["series"]
        assert [mesh["name"] for mesh in found["meshes"] if mesh["state"] == "corrected"] == ["cat_1", "ears_dog_2"]
        assert found["classes"] == list(PARTS) and found["colors"] == list(COLORS)
        scene = opened.post("/api/series/4").json()
        _, arrays = decode(opened.get(f"/api/meshes/{scene['id']}/geometry").content)
        np.testing.assert_array_equal(arrays["labels"], labels)
    assert [client.post(f"/api/series/{number}").status_code for number in (5, 99)] == [404, 404]


def test_a_damaged_note_of_states_costs_no_labels(client: TestClient, out: Path) -> None:
    assert keep(client, 0, np.arange(80) % 4).status_code == 200
    noted = out / "scans" / "states.json"
    assert noted.read_text() == '{\n  "cat_1": "corrected"\n}\n'
    for content in ("nonsense", "[1]", "3"):
        noted.write_text(content)
        states = [mesh["state"] for mesh in client.get("/api/session").json()["series"]["meshes"]]
        assert states == ["corrected", *["untouched"] * 4]
    assert keep(client, 1, np.arange(80) % 4).status_code == 200
    assert len(open_folder(out / "scans").samples) == 2


def test_meshes_whose_names_become_the_same_are_all_listed_and_kept_apart(
    tiny: Path, out: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "scans"
    (folder / "x").mkdir(parents=True)
    names = ("x+y", "x/y", "x_y", "x_y_2", "x&y", "z" * 120 + "1", "z" * 120 + "2")
    for number, name in enumerate(names):
        save_mesh(ball(number), folder / f"{name}.ply")
    for client in _client(folder, tiny, out):
        meshes = client.get("/api/session").json()["series"]["meshes"]
        assert len({mesh["name"] for mesh in meshes}) == len(meshes) == len(names)
        for number in range(len(names)):
            assert keep(client, number, np.full(80, number % 4)).status_code == 200
    for client in _client(folder, tiny, out):  # another sitting
        for number in range(len(names)):
            scene = client.post(f"/api/series/{number}").json()
            _, arrays = decode(client.get(f"/api/meshes/{scene['id']}/geometry").content)
            np.testing.assert_array_equal(arrays["labels"], number % 4)


def test_a_mesh_that_cannot_be_read_spoils_no_other(client: TestClient, scans: Path) -> None:
    (scans / "cat_2.ply").write_text("nonsense")
    assert client.post("/api/series/1").status_code == 422
    assert client.post("/api/series/2").status_code == 200


def test_what_is_saved_below_the_folder_is_no_part_of_it(scans: Path, tiny: Path) -> None:
    for client in _client(scans, tiny, scans / "labels"):
        assert keep(client, 0, np.arange(80) % 4).status_code == 200
    for client in _client(scans, tiny, scans / "labels"):
        assert len(client.get("/api/session").json()["series"]["meshes"]) == len(NAMES)


def test_sources_are_held_out_as_a_whole() -> None:
    motion = [f"run_{i:03d}" for i in range(6)]
    assert held_out([*motion, "jump1", "jump2"]) == {"jump1", "jump2"}
    assert held_out(motion) == {"run_003"}  # of one source every fourth
    assert held_out([*(f"a{i}" for i in range(5)), *(f"b{i}" for i in range(5))]) == {f"a{i}" for i in range(5)}
    assert held_out(["cat", "dog", "cow"]) == frozenset()
    assert len(held_out([f"scan {chr(97 + i)}" for i in range(12)])) == 3


def test_a_mesh_stays_in_its_split(client: TestClient, out: Path) -> None:
    tested = {mesh["name"] for mesh in client.get("/api/session").json()["series"]["meshes"] if mesh["held_out"]}
    for number in (3, 0, 4, 2, 1):
        keep(client, number, np.arange(80) % 4)
        splits = {name: {s.name for s in part} for name, part in open_folder(out / "scans").splits.items()}
        assert splits.get("test", set()) <= tested
    assert splits == {"train": set(NAMES) - tested, "test": tested} and tested


@pytest.mark.slow
def test_learning_needs_some_corrections_goes_on_alone_and_stops(client: TestClient) -> None:
    """To its end it goes in the browser's test."""
    wanted = {"model": "tiny", "minutes": 10}
    for number in range(3):
        answer = client.post("/api/learning", params=wanted)
        assert answer.status_code == 409
        assert f"{number} of at least 3 corrected meshes" in answer.json()["error"]
        keep(client, number, np.arange(80) % 4)
    assert client.post("/api/learning", params=wanted).status_code == 202
    assert client.post("/api/learning", params=wanted).status_code == 409  # one at a time
    assert 0 <= until(client, "/api/learning", "learning")["fraction"] <= 1
    assert client.delete("/api/learning").status_code == 202
    assert "--resume" in until(client, "/api/learning", "stopped")["told"]


@pytest.mark.parametrize("query", [{"model": "no"}, {"minutes": "x"}, {"minutes": "nan"}, {"minutes": "1e9"}])
def test_wrong_wishes_are_refused(client: TestClient, query: dict[str, str]) -> None:
    assert client.post("/api/learning", params={"model": "tiny", **query}).status_code in (400, 404)


@pytest.mark.parametrize("faces", ["", "3", "-5", "1e3", "all", "9" * 30])
def test_a_resolution_that_is_none_is_refused(client: TestClient, faces: str) -> None:
    scene = client.post("/api/series/0").json()["id"]
    answer = client.post(f"/api/meshes/{scene}/predict", params={"model": "tiny", "faces": faces})
    assert answer.status_code == 400 and "resolution" in answer.json()["error"]
