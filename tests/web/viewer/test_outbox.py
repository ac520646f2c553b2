"""What the viewer saves, and where."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from hodgeformer.data.folder import open_folder
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.web.server.intake import Refusal, safe_file_name
from hodgeformer.web.viewer.messages import decode, encode
from hodgeformer.web.viewer.open_meshes import OpenMesh
from hodgeformer.web.viewer.outbox import Annotation, Outbox, write_text
from meshes import icosphere
from viewer_parts import CLASSES, COLORS, annotation, upload


def labels_of(n: int) -> np.ndarray:
    return np.arange(n) % 3 - 1


def test_saved_labels_and_meshes_load_again(client: TestClient, tmp_path: Path, out: Path) -> None:
    ball = icosphere(1)
    scene = upload(client, ball, tmp_path, "my scan.ply")
    labels = labels_of(80)
    answer = client.post(f"/api/meshes/{scene}/save", content=annotation(labels))
    assert answer.json()["files"] == ["my scan.txt", "my scan.json", "my scan.ply", "my scan.glb"]
    for suffix in (".ply", ".glb"):
        loaded = load_mesh(out / f"my scan{suffix}")
        np.testing.assert_array_equal(loaded.faces, ball.faces)
        np.testing.assert_array_equal(loaded.attributes["face_labels"], labels)
        colors = loaded.attributes["face_colors"][:, :3]
        np.testing.assert_array_equal(colors[labels == 1], np.tile(COLORS[1], ((labels == 1).sum(), 1)))
    for name in ("my scan.txt", "my scan.ply"):
        content = (out / name).read_bytes()
        read = client.post(f"/api/meshes/{scene}/labels", params={"name": name}, content=content)
        np.testing.assert_array_equal(decode(read.content)[1]["labels"], labels)
    described = json.loads((out / "my scan.json").read_text())
    assert described["faces"] == {"unlabeled": 27, "left": 27, "right": 26}


def test_two_tabs_that_save_at_once_do_not_share_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is about to write waits for the other, who must not get there."""
    both = threading.Barrier(2)

    def late(path: Path, text: str) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        write_text(path, text)

    monkeypatch.setattr("hodgeformer.web.viewer.outbox.write_text", late)
    outbox, marked = Outbox(tmp_path), [Annotation(np.full(20, label), CLASSES, COLORS) for label in (0, 1)]
    tabs = [OpenMesh(icosphere(0, name="scan")) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        saved = list(pool.map(outbox.save, tabs, marked))
    assert {files[0] for files in saved} == {"scan.txt", "scan_2.txt"}
    for label, files in enumerate(saved):
        assert set((tmp_path / files[0]).read_text().split()) == {str(label)}


SAVING = """
import sys
from pathlib import Path
import numpy as np
from hodgeformer.web.viewer.open_meshes import OpenMesh
from hodgeformer.web.viewer.outbox import Annotation, Outbox
from meshes import icosphere

root, number, ball = Path(sys.argv[1]), int(sys.argv[2]), icosphere(0, name="scan")
annotation = Annotation(np.full(20, number), ("left", "right"), ((1, 2, 3), (4, 5, 6)))
(root / f"ready{number}").touch()
while not (root / "ready0").exists() or not (root / "ready1").exists():
    pass
for i in range(8):
    opened = OpenMesh(ball.with_vertices(ball.vertices * (1 + number + 2 * i)))
    Outbox(root / "out").save(opened, annotation)
    Outbox(root / "out").add_to_data_set(opened, annotation, "set")
"""


def test_two_viewers_in_one_folder_lose_nothing(tmp_path: Path) -> None:
    """Sixteen meshes of one name, from two processes at once."""
    paths = [str(Path(__file__).parents[2]), *sys.path]
    words = [sys.executable, "-c", SAVING, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    both = [subprocess.Popen([*words, number], env=environment) for number in "01"]
    assert [process.wait(120) for process in both] == [0, 0]
    files = list((tmp_path / "out").glob("scan*.txt"))
    assert Counter(path.read_text().split()[0] for path in files) == {"0": 8, "1": 8}
    data = open_folder(tmp_path / "out" / "set")
    meshes = [data.load(sample) for sample in data.samples]
    assert len(meshes) == 16
    for mesh, labels in meshes:
        times = round(float(np.abs(mesh.vertices).max() / np.abs(icosphere(0).vertices).max()))
        assert (labels == (times - 1) % 2).all()


@pytest.mark.skipif(sys.platform != "linux", reason="/sys, in which nobody creates files")
def test_a_folder_that_cannot_be_written_is_told() -> None:
    outbox, opened = Outbox(Path("/sys/kernel")), OpenMesh(icosphere(0))
    kept = Annotation(np.zeros(20, dtype=int), CLASSES, COLORS)
    for save in (partial(outbox.save, opened, kept), partial(outbox.add_to_data_set, opened, kept, "set")):
        with pytest.raises(Refusal, match="/sys/kernel cannot be written"):
            save()


def test_saving_again_replaces_own_files_only(client: TestClient, tmp_path: Path, out: Path) -> None:
    first, second = (upload(client, icosphere(0), tmp_path, "a.ply") for _ in range(2))
    for scene, label in ((first, 0), (second, 1), (first, 1)):
        client.post(f"/api/meshes/{scene}/save", content=annotation(np.full(20, label)))
    assert sorted(path.name for path in out.glob("*.txt")) == ["a.txt", "a_2.txt"]
    assert set((out / "a.txt").read_text().split()) == {"1"}


@pytest.mark.parametrize("name", ["../../../escape.ply", "..\\..\\escape.ply", "/tmp/escape.ply", "....ply", "nul.ply"])
def test_nothing_is_written_outside(client: TestClient, tmp_path: Path, out: Path, name: str) -> None:
    scene = upload(client, icosphere(0), tmp_path, name)
    out.mkdir(parents=True)
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(out)}
    labels = np.arange(20) % 2
    assert client.post(f"/api/meshes/{scene}/save", content=annotation(labels)).status_code == 200
    for data_set in (f"{name} set", "..", "", "a/../../b", "/tmp/c"):
        content = annotation(labels, data_set=data_set)
        assert client.post(f"/api/meshes/{scene}/data-set", content=content).status_code == 200
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
    answer = client.post(f"/api/meshes/{scene}/data-set", content=annotation(np.arange(20) % 2, data_set="dataset"))
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
        encode({}, {}),
        b"nonsense",
    ],
)
def test_labels_that_do_not_fit_are_refused(client: TestClient, tmp_path: Path, out: Path, content: bytes) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    assert client.post(f"/api/meshes/{scene}/save", content=content).status_code == 400
    assert not out.exists()


def test_exported_data_set_opens(client: TestClient, tmp_path: Path, out: Path) -> None:
    given = {}
    for i, n in enumerate((1, 2, 1, 2, 1)):
        ball = icosphere(n).with_vertices(icosphere(n).vertices * (1 + i / 7))
        scene = upload(client, ball, tmp_path, "scan.ply")
        labels = labels_of(ball.n_faces)
        for _ in range(2):  # again with the same mesh: replaced, not added
            content = annotation(labels, data_set="my set")
            answer = client.post(f"/api/meshes/{scene}/data-set", content=content)
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
    answer = client.post(f"/api/meshes/{upload(client, icosphere(1), tmp_path)}/data-set", content=other)
    assert answer.status_code == 409
    assert "left, right" in answer.json()["error"]


def test_stopped_at_any_write_a_data_set_still_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another mesh that brings a class of its own; and adding it again ends as if nothing had happened."""
    opened = [OpenMesh(replace(icosphere(1), name=name)) for name in ("one", "two")]
    two = Annotation(np.arange(80) % 2, ("a", "b"), ((1, 2, 3), (4, 5, 6)))
    three = Annotation(np.arange(80) % 3, (*two.classes, "c"), (*two.colors, (7, 8, 9)))
    wholes = set()
    for stop in range(1, 100):
        outbox = Outbox(tmp_path / str(stop))
        root, _ = outbox.add_to_data_set(opened[0], two, "set")
        sync, left = os.fsync, iter(range(stop))

        def stopped(descriptor: int) -> None:
            if next(left, None) is None:  # noqa: B023
                raise KeyboardInterrupt
            sync(descriptor)  # noqa: B023

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(os, "fsync", stopped)
            outbox.add_to_data_set(opened[1], three, "set")
        data = open_folder(root)
        for sample in data.samples:
            data.load(sample)
        outbox.add_to_data_set(opened[1], three, "set")
        wholes.add(tuple(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()))
        if next(left, None) is not None:
            break
    assert stop > 6 and len(wholes) == 1


HAND_WRITTEN = """\
# Scanned in May.
task = "segmentation"
classes = ["left", "right"]   # of the wearer
meshes = "meshes"
labels = "labels"
[split]
train = ["ball*"]
test = 0.5
"""


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        (("", ""), "ball.ply", None),
        (("", ""), "cat.ply", "split"),
        (('labels = "labels"', 'labels = "labels"\nfirst_label = 1'), "ball.ply", "first_label"),
        (('["left", "right"]', '["left"]'), "ball.ply", "classes"),
        (('labels = "labels"', 'labels = "ply:label"'), "ball.ply", "labels"),
        (('task = "segmentation"', 'task = "segmentation"\nelement = "vertex"'), "ball.ply", "element"),
    ],
)
def test_a_data_set_written_by_hand_stays_as_it_is(
    client: TestClient, tmp_path: Path, out: Path, change: tuple[str, str], name: str, expected: str | None
) -> None:
    root = out / "mine"
    root.mkdir(parents=True)
    text = HAND_WRITTEN.replace(*change)
    (root / "dataset.toml").write_text(text)
    scene = upload(client, icosphere(1), tmp_path, name)
    answer = client.post(f"/api/meshes/{scene}/data-set", content=annotation(np.arange(80) % 2, data_set="mine"))
    assert (root / "dataset.toml").read_text() == text
    if expected is None:
        assert answer.status_code == 200
        assert (root / "labels" / "ball.txt").is_file()
    else:
        assert answer.status_code == 409
        assert f"its {expected} would have to change" in answer.json()["error"]
        assert not [path for path in root.rglob("*") if path.is_file() and path.suffix != ".toml"]


def test_an_empty_annotation_is_no_data_set(client: TestClient, tmp_path: Path) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    answer = client.post(f"/api/meshes/{scene}/data-set", content=annotation(np.full(20, -1), data_set="d"))
    assert answer.status_code == 400
    assert "No face is labeled" in answer.json()["error"]


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
        answer = client.post(f"/api/meshes/{scene}/labels", params={"name": name}, content=content)
        assert answer.status_code == 422
    assert client.post("/api/meshes", params={"name": "a.ply"}, content=pickle.dumps(Bomb())).status_code == 422
    assert not Bomb.went_off


@pytest.mark.parametrize("kind", ["face_labels", "vertex_labels"])
def test_labels_in_a_mesh_file_are_shown(client: TestClient, tmp_path: Path, kind: str) -> None:
    ball = icosphere(1)
    save_mesh(ball, tmp_path / "a.ply", **{kind: np.full(80 if kind == "face_labels" else ball.n_vertices, 3)})
    content = (tmp_path / "a.ply").read_bytes()
    scene = client.post("/api/meshes", params={"name": "a.ply"}, content=content).json()["id"]
    _, arrays = decode(client.get(f"/api/meshes/{scene}/geometry").content)
    np.testing.assert_array_equal(arrays["labels"], np.full(80, 3))


def test_labels_of_another_mesh_are_refused(client: TestClient, tmp_path: Path) -> None:
    scene = upload(client, icosphere(0), tmp_path)
    answer = client.post(f"/api/meshes/{scene}/labels", params={"name": "a.txt"}, content=b"0\n1\n")
    assert answer.status_code == 422
    assert "2 labels for mesh" in answer.json()["error"]
