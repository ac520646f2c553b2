"""Prediction: the same answer for the same shape, on the mesh as the file has it, in files that open again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import hodgeformer as hf
from hodgeformer.base.errors import CheckpointError, ConfigError, MeshError
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.pretrained import bundled_models, locate_models
from hodgeformer.predict.result import Result
from meshes import all_kinds, icosphere, open_grid, tetrahedron
from tiny_models import PARTS, tiny_checkpoint, write_tiny


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(tiny_checkpoint())


def ball() -> Mesh:
    """With coordinates that float32 holds, as STL and GLB need."""
    mesh = icosphere(2, name="ball")
    return mesh.with_vertices(mesh.vertices.astype(np.float32).astype(np.float64))


def close(one: Result, other: Result) -> None:
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=2e-5)
    sure = np.sort(one.probabilities, axis=1)
    sure = sure[:, -1] - sure[:, -2] > 1e-4
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(one.labels[sure], other.labels[sure])


def test_alone_and_in_company(predictor: Predictor) -> None:
    meshes = [ball(), *all_kinds(), open_grid(7, 9)]
    together = list(predictor.predict_many(meshes, batch_faces=500))
    assert [result.mesh.name for result in together] == [mesh.name for mesh in meshes]
    for mesh, result in zip(meshes, together, strict=True):
        alone = predictor.predict(mesh)
        assert alone.probabilities.shape == (mesh.n_faces, len(PARTS))
        np.testing.assert_allclose(alone.probabilities, result.probabilities, atol=2e-5)
    close(predictor.predict(meshes[0]), together[0])
    assert len(np.unique(together[0].labels)) > 1


def test_same_file_same_answer_to_the_bit(predictor: Predictor) -> None:
    one, other = (predictor.predict(ball(), tta=2) for _ in range(2))
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_renumbering_changes_nothing(predictor: Predictor) -> None:
    mesh = ball()
    rng = np.random.default_rng(0)
    new_place, face_order = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    vertices = np.empty_like(mesh.vertices)
    vertices[new_place] = mesh.vertices
    faces = np.roll(new_place[mesh.faces][face_order], 1, axis=1)
    turned = predictor.predict(Mesh(vertices, faces))
    straight = predictor.predict(mesh)
    np.testing.assert_array_equal(turned.labels, straight.labels[face_order])
    by_vertex = predictor.predict(Mesh(vertices, faces), element="vertex")
    np.testing.assert_allclose(by_vertex.probabilities[new_place], straight.on("vertex").probabilities, atol=2e-5)


@pytest.mark.parametrize("suffix", [".obj", ".off", ".ply", ".stl", ".glb"])
def test_format_changes_nothing(predictor: Predictor, tmp_path: Path, suffix: str) -> None:
    save_mesh(ball(), tmp_path / f"ball{suffix}")
    close(predictor.predict(ball()), predictor.predict(tmp_path / f"ball{suffix}"))


def test_averaging_over_frames_ignores_rotation() -> None:
    predictor = Predictor(tiny_checkpoint(pose="frame_average"))
    mesh = ball()
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    turn *= np.linalg.det(turn)
    turned = predictor.predict(mesh.with_vertices(mesh.vertices @ turn.T))
    np.testing.assert_allclose(turned.probabilities, predictor.predict(mesh).probabilities, atol=1e-3)


def test_rotations_are_averaged(predictor: Predictor) -> None:
    once, often = predictor.predict(ball()), predictor.predict(ball(), tta=4)
    assert np.abs(once.probabilities - often.probabilities).max() > 1e-3
    np.testing.assert_allclose(often.probabilities.sum(axis=1), 1, atol=1e-5)
    other_draw = predictor.predict(ball(), tta=4, seed=1)
    assert np.abs(other_draw.probabilities - often.probabilities).max() > 1e-3


@pytest.mark.parametrize("element", ["face", "vertex", "edge"])
def test_simplified_answers_come_back_to_the_original(element: str) -> None:
    predictor = Predictor(tiny_checkpoint(element=element))
    mesh = icosphere(3)
    result = predictor.predict(mesh, faces=200)
    n = {"face": mesh.n_faces, "vertex": mesh.n_vertices, "edge": mesh.n_vertices + mesh.n_faces - 2}[element]
    assert result.mesh is mesh
    assert result.probabilities.shape == (n, len(PARTS))
    np.testing.assert_allclose(result.probabilities.sum(axis=1), 1, atol=1e-5)


def test_classification_and_regression() -> None:
    classes = Predictor(tiny_checkpoint("classification")).predict(ball())
    assert classes.label in PARTS
    assert classes.probabilities.shape == (1, len(PARTS))
    assert classes.element == "mesh"
    assert classes.label in repr(classes)
    values = Predictor(tiny_checkpoint("regression", "vertex")).predict(ball())
    assert values.values.shape == (ball().n_vertices, 2)
    with pytest.raises(ConfigError, match="values"):
        _ = values.labels
    with pytest.raises(ConfigError, match="whole meshes"):
        Predictor(tiny_checkpoint("classification")).predict(ball(), element="vertex")


def test_bad_meshes_are_told_and_the_others_go_on(predictor: Predictor, tmp_path: Path) -> None:
    (tmp_path / "empty.obj").write_text("")
    (tmp_path / "torn.ply").write_bytes(b"ply\nformat binary_little_endian 1.0\n")
    save_mesh(ball(), tmp_path / "good.ply")
    paths = [tmp_path / name for name in ("empty.obj", "good.ply", "missing.stl", "torn.ply")]
    told: list[str] = []
    results = list(predictor.predict_many(paths, on_error=lambda path, _: told.append(Path(str(path)).name)))
    assert [result.mesh.name for result in results] == ["good"]
    assert told == ["empty.obj", "missing.stl", "torn.ply"]
    with pytest.raises(MeshError, match=r"empty\.obj"):
        list(predictor.predict_many(paths))


def test_far_meshes_are_pointed_out(predictor: Predictor) -> None:
    assert predictor.predict(icosphere(2)).warnings == ()
    many = predictor.predict(icosphere(4), faces="original").warnings
    assert any("5,120 faces" in warning and "auto" in warning for warning in many)
    assert not any("faces" in warning for warning in predictor.predict(icosphere(4)).warnings)
    assert any("4 faces" in warning for warning in predictor.predict(tetrahedron(), faces="original").warnings)
    mesh = icosphere(2)
    huge = predictor.predict(mesh.with_vertices(1e6 * mesh.vertices)).warnings
    assert any("radius" in warning for warning in huge)


def test_an_answer_that_is_not_finite_is_refused() -> None:
    """Weights can be finite and answers not, after a training that diverged."""
    checkpoint = tiny_checkpoint()
    weights = {**checkpoint.weights, "head.out.weight": torch.full_like(checkpoint.weights["head.out.weight"], 3e38)}
    diverged = Predictor(checkpoint.replace(weights=weights))
    with pytest.raises(CheckpointError, match="answer for 'ball' is not finite"):
        diverged.predict(icosphere(1, "ball"))
    with pytest.raises(CheckpointError, match="not finite"):
        hf.evaluate(diverged, [(icosphere(1, "ball"), np.zeros(80, int))])


def test_option_mistakes_are_explained(predictor: Predictor) -> None:
    with pytest.raises(ConfigError, match="did you mean 'faces'"):
        predictor.predict(ball(), face=3)
    with pytest.raises(ConfigError, match="smooth"):
        predictor.predict(ball(), smooth=1.5)
    with pytest.raises(ConfigError, match="device 'tpu'"):
        Predictor(tiny_checkpoint(), device="tpu")


@pytest.fixture(scope="module")
def result(predictor: Predictor) -> Result:
    return predictor.predict(ball())


@pytest.mark.parametrize("suffix", [".ply", ".glb", ".obj"])
def test_colored_meshes_open_again(result: Result, tmp_path: Path, suffix: str) -> None:
    result.save(tmp_path / f"out{suffix}")
    read = load_mesh(tmp_path / f"out{suffix}")
    np.testing.assert_array_equal(read.faces, result.mesh.faces)
    np.testing.assert_allclose(read.vertices, result.mesh.vertices, atol=1e-6)
    expected = np.array(result.colors)[result.labels]
    np.testing.assert_array_equal(read.attributes["face_colors"][:, :3], expected)
    np.testing.assert_array_equal(read.attributes["face_labels"], result.labels)


def test_vertex_results_open_again(result: Result, tmp_path: Path) -> None:
    by_vertex = result.on("vertex")
    for suffix in (".ply", ".glb", ".off", ".obj"):
        by_vertex.save(tmp_path / f"out{suffix}")
        read = load_mesh(tmp_path / f"out{suffix}")
        expected = np.array(result.colors)[by_vertex.labels]
        np.testing.assert_array_equal(read.attributes["vertex_colors"][:, :3], expected)


def test_numbers_open_again(result: Result, tmp_path: Path) -> None:
    for suffix in (".json", ".npz", ".txt"):
        result.save(tmp_path / f"out{suffix}")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["labels"] == result.labels.tolist()
    assert content["classes"] == list(PARTS)
    np.testing.assert_allclose(content["probabilities"], result.probabilities, atol=1e-5)
    arrays = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(arrays["labels"], result.labels)
    np.testing.assert_array_equal(arrays["probabilities"], result.probabilities)
    assert arrays["classes"].tolist() == list(PARTS)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out.txt", dtype=int), result.labels)


def test_picture_has_every_predicted_color(result: Result, tmp_path: Path) -> None:
    result.render(tmp_path / "a.png", width=600)
    picture = np.asarray(Image.open(tmp_path / "a.png")).reshape(-1, 3)
    present = {tuple(map(int, color)) for color in np.unique(picture, axis=0)}
    assert {result.colors[label] for label in np.unique(result.labels)} <= present
    absent = set(range(len(PARTS))) - set(result.labels.tolist())
    assert not {result.colors[label] for label in absent} & present


@pytest.mark.parametrize(
    ("task", "element"),
    [
        ("segmentation", "edge"),
        ("segmentation", "vertex"),
        ("classification", None),
        ("regression", None),
        ("regression", "face"),
    ],
)
def test_every_task_saves_every_format(tmp_path: Path, task: str, element: str | None) -> None:
    result = Predictor(tiny_checkpoint(task, element)).predict(icosphere(1))
    for suffix in (".ply", ".glb", ".obj", ".off", ".json", ".npz", ".txt", ".html", ".png"):
        result.save(tmp_path / f"out{suffix}")
        assert (tmp_path / f"out{suffix}").stat().st_size > 0
    assert "<iframe" in result._repr_html_()
    with pytest.raises(ConfigError, match=r"unsupported format '\.docx'"):
        result.save(tmp_path / "out.docx")


def test_parts_make_up_the_mesh(result: Result) -> None:
    parts = dict(result.parts())
    assert set(parts) == {PARTS[label] for label in np.unique(result.labels)}
    assert sum(part.n_faces for part in parts.values()) == result.mesh.n_faces
    for name, part in parts.items():
        chosen = result.mesh.faces[result.labels == PARTS.index(name)]
        np.testing.assert_array_equal(part.vertices[part.faces], result.mesh.vertices[chosen])


def test_polygons_get_one_label(result: Result) -> None:
    quads = np.arange(result.mesh.n_faces) // 2
    labels = replace(result, mesh=replace(result.mesh, polygons=quads)).polygon_labels
    assert labels is not None
    assert len(labels) == result.mesh.n_faces // 2
    agree = result.labels[::2] == result.labels[1::2]
    np.testing.assert_array_equal(labels[agree], result.labels[::2][agree])
    assert result.polygon_labels is None


def test_true_labels_must_fit(result: Result) -> None:
    with pytest.raises(MeshError, match=r"expected \d+ true labels"):
        result.scene(truth=np.zeros(3, dtype=int))
    names = [layer.name for layer in result.scene(truth=result.labels).layers]
    assert names == ["prediction", "ground truth", "error", "confidence"]


def test_show_opens_the_page(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = result.show()
    assert path is not None and opened == [path.as_uri()]
    assert "<canvas" in path.read_text()


def test_show_shows_in_a_notebook(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython, where it runs a kernel, displays the result; it is not a dependency, so a stand-in is asked."""
    shown: list[Result] = []
    shell, display = ModuleType("IPython"), ModuleType("IPython.display")
    shell.__dict__["get_ipython"] = lambda: SimpleNamespace(kernel=object())
    display.__dict__["display"] = shown.append
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    assert result.show() is None
    assert shown == [result] and "<iframe" in result._repr_html_()


def test_models_are_found(tmp_path: Path) -> None:
    path = write_tiny(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    write_tiny(run, "best.safetensors")
    write_tiny(run, "last.safetensors")
    assert locate_models(path) == [path]
    assert [found.name for found in locate_models(run)] == ["best.safetensors"]
    with pytest.raises(CheckpointError, match="no file, folder or bundled model"):
        locate_models("humen")
    (tmp_path / "hollow").mkdir()
    with pytest.raises(CheckpointError, match="contains no model"):
        locate_models(tmp_path / "hollow")


def test_cards_go_with_models(tmp_path: Path) -> None:
    write_tiny(tmp_path, "body.safetensors")
    (tmp_path / "body.md").write_text("# body: parts of a body\n\nTrained on nothing.\n")
    write_tiny(tmp_path, "bare.safetensors")
    found = bundled_models(tmp_path)
    assert found["body"].summary == "parts of a body"
    assert found["bare"].summary == ""


def test_every_bundled_model_has_a_card_and_loads() -> None:
    for model in bundled_models().values():
        assert model.summary
        assert model.path.stat().st_size <= 10_000_000
        Predictor.load(model.name)


def test_saved_folder_predicts_the_same(predictor: Predictor, tmp_path: Path) -> None:
    folder = predictor.save_pretrained(tmp_path / "mine")
    again = Predictor.from_pretrained(folder)
    np.testing.assert_array_equal(again.predict(ball()).probabilities, predictor.predict(ball()).probabilities)


def test_hub_ids_need_the_extra_or_the_net(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HODGEFORMER_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="HODGEFORMER_OFFLINE"):
        Predictor.from_pretrained("someone/bodies")
    monkeypatch.delenv("HODGEFORMER_OFFLINE")
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'hodgeformer\[hub\]'"):
        Predictor.from_pretrained("someone/bodies")
    for path in ("./no/such", "one/two/three", "someone/model.onnx"):
        with pytest.raises(CheckpointError, match="no file, folder or bundled model"):
            Predictor.load(path)


def test_what_is_on_this_machine_is_never_asked_for_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    (tmp_path / "runs" / "hollow").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="contains no model"):
        Predictor.from_pretrained("runs/hollow")
    with pytest.raises(CheckpointError, match="no file, folder or bundled model"):
        Predictor.from_pretrained("runs/misspelled")


def test_small_meshes_share_passes_through_the_model(predictor: Predictor) -> None:
    passes: list[int] = []
    hook = predictor.model.head.register_forward_pre_hook(lambda _, given: passes.append(len(given[1].offsets.f) - 1))
    try:
        meshes = [icosphere(1) for _ in range(12)]
        assert len(list(predictor.predict_many(meshes, batch_faces=400))) == 12
        assert passes == [5, 5, 2]
        passes.clear()
        assert len(list(predictor.predict_many([icosphere(3), icosphere(1)], batch_faces=10))) == 2
        assert passes == [1, 1]
    finally:
        hook.remove()


def test_results_come_while_meshes_are_still_read(predictor: Predictor) -> None:
    read = 0

    def endless() -> Iterator[Mesh]:
        nonlocal read
        while True:
            read += 1
            yield icosphere(1)

    stream = predictor.predict_many(endless(), batch_faces=160)
    assert next(stream).mesh.n_faces == 80
    assert read < 50
    stream.close()
