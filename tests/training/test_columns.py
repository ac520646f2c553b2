"""Own input columns from the data to an answer: parts of spheres that only a property of a PLY file tells apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hodgeformer as hf
from hodgeformer.base.errors import DataError, MeshError
from hodgeformer.cli import app
from hodgeformer.data.census import take_census
from hodgeformer.data.folder import write_folder
from hodgeformer.data.open import open_dataset
from hodgeformer.data.shards import write_shards
from hodgeformer.export.export import export
from hodgeformer.training.evaluate import learned_from
from hodgeformer.training.outcome import Outcome
from meshes import icosphere
from soups import renumbered

RUN = {
    "blocks": "D", "d_model": 16, "n_heads": 2, "batch_size": 4, "workers": 0, "lr": 2e-2, "epochs": 15,
    "callbacks": [], "pose": "file", "rotation": "none",
}  # fmt: skip


def marked(seed: int) -> tuple[hf.Mesh, np.ndarray]:
    """A sphere, always the same, with marks of two sizes far from zero; a face is labeled as most of its corners."""
    sphere, rng = icosphere(1), np.random.default_rng(seed)
    high = np.sin(2 * sphere.vertices @ rng.standard_normal(3) + rng.uniform(0, 6)) > 0
    marks = 5000 + 20 * high + rng.standard_normal(sphere.n_vertices)
    mesh = sphere.with_columns({"mark": marks, "noise": rng.standard_normal((sphere.n_vertices, 2))})
    return mesh, (high[sphere.faces].sum(axis=1) > 1).astype(np.int64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marked")
    for kind in ("meshes", "labels"):
        (folder / kind).mkdir()
    for i in range(16):
        mesh, labels = marked(i)
        hf.save_mesh(mesh, folder / "meshes" / f"{i:02d}.ply")
        np.savetxt(folder / "labels" / f"{i:02d}.txt", labels, fmt="%d")
    (folder / "dataset.toml").write_text(
        'task = "segmentation"\nclasses = ["low", "high"]\n[split]\ntrain = 0.75\ntest = 0.25\nval = 0.0\n'
    )
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return hf.train(data, tmp_path_factory.mktemp("run") / "run", features=("coords", "normals", "ply:mark"), **RUN)


def test_what_only_a_column_tells_is_learned_with_it(trained: Outcome) -> None:
    assert trained.scores is not None and trained.scores.values["face_accuracy"] > 0.95


def test_and_not_without(data: Path, tmp_path: Path) -> None:
    plain = hf.train(data, tmp_path / "plain", features=("coords", "normals"), **RUN)
    assert plain.scores is not None and plain.scores.values["face_accuracy"] < 0.75


def test_the_model_knows_its_columns_and_their_scale(trained: Outcome) -> None:
    values = np.concatenate([marked(i)[0].columns["mark"].values for i in range(16)])
    prepare = hf.Predictor.load(trained.chosen).info.prepare
    mean, scale = prepare.column_scales["mark"]
    assert prepare.own_columns == ("mark",) and abs(mean - values.mean()) < 3 and 0.8 < scale / values.std() < 1.25
    said = json.loads(CliRunner().invoke(app, ["info", str(trained.chosen), "--json"]).stdout)
    assert said["columns"] == {"mark": {"mean": mean, "deviation": scale}}
    assert "mark: mean 5" in CliRunner().invoke(app, ["info", str(trained.chosen)]).stdout


def answer_of(model: Path | str, mesh: hf.Mesh | Path, **more: object) -> np.ndarray:
    return hf.Predictor.load(model).predict(mesh, **more).probabilities


def test_a_file_a_mesh_and_an_array_give_the_same_answer(trained: Outcome, tmp_path: Path) -> None:
    mesh, labels = marked(50)
    hf.save_mesh(mesh, tmp_path / "new.ply")
    answer = answer_of(trained.chosen, tmp_path / "new.ply")
    assert (answer.argmax(axis=1) == labels).mean() > 0.95
    np.testing.assert_array_equal(answer_of(trained.chosen, mesh), answer)
    plain = hf.Mesh(mesh.vertices, mesh.faces)
    np.testing.assert_array_equal(
        answer_of(trained.chosen, plain, features={"mark": mesh.columns["mark"].values}), answer
    )
    other, new_vertex, new_face = renumbered(plain, 3)
    marks = mesh.columns["mark"].values[np.argsort(new_vertex)]
    np.testing.assert_allclose(answer_of(trained.chosen, other, features={"mark": marks})[new_face], answer, atol=1e-6)


def test_a_finer_file_is_simplified_with_its_columns(trained: Outcome) -> None:
    fine = icosphere(4)
    high = fine.vertices[:, 2] > 0.2
    answer = answer_of(trained.chosen, fine, features={"mark": 5000 + 20.0 * high})
    assert (answer.argmax(axis=1) == (high[fine.faces].sum(axis=1) > 1)).mean() > 0.9


def test_a_missing_column_is_one_sentence_with_the_file_and_its_columns(trained: Outcome, tmp_path: Path) -> None:
    mesh = icosphere(1).with_columns({"heat": np.arange(42.0)})
    hf.save_mesh(mesh, tmp_path / "new.ply", vertex_colors=np.zeros((42, 3), dtype=np.uint8))
    said = rf"^{tmp_path / 'new.ply'}: the column 'mark' is missing; found: heat \(vertex\), color \(vertex\)$"
    with pytest.raises(MeshError, match=said):
        answer_of(trained.chosen, tmp_path / "new.ply")
    words = ["predict", str(trained.chosen), str(tmp_path / "new.ply"), "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2 and "the column 'mark' is missing; found: heat (vertex)" in found.output


def test_an_exported_model_reads_the_column(trained: Outcome, tmp_path: Path) -> None:
    parities = export(hf.Predictor.load(trained.chosen).checkpoint, tmp_path / "model.onnx")
    assert all(parity.difference < parity.allowed for parity in parities)
    mesh, _ = marked(51)
    wanted = answer_of(trained.chosen, mesh)
    np.testing.assert_allclose(answer_of(tmp_path / "model.onnx", mesh), wanted, atol=1e-5)
    other = mesh.with_columns({"mark": mesh.columns["mark"].values[::-1]})
    assert np.abs(answer_of(tmp_path / "model.onnx", other) - wanted).max() > 0.5
    with pytest.raises(MeshError, match="the column 'mark' is missing; found: none"):
        answer_of(tmp_path / "model.onnx", icosphere(1))


def test_a_mesh_without_the_column_is_a_problem_of_the_data(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\(16\) cannot be used: .*00.ply: the column 'curvature' is missing; found: "):
        hf.train(data, tmp_path / "run", features=("coords", "curvature"), **RUN)
    assert take_census(open_dataset(data), reads=["mark", "noise"]).problems == ()


def test_meshes_are_copies_only_if_they_agree_in_the_columns_that_are_read(data: Path, trained: Outcome) -> None:
    dataset = open_dataset(data)
    assert len(take_census(dataset).learned) == 4  # by shape, all spheres are the same
    assert take_census(dataset, reads=["mark"]).learned == ()
    info = hf.Predictor.load(trained.chosen).info
    assert learned_from(info, dataset, dataset.split("train")) == [sample.name for sample in dataset.split("train")]
    assert learned_from(info, dataset, dataset.split("test")) == []


def test_check_lists_the_columns(data: Path) -> None:
    said = CliRunner().invoke(app, ["check", str(data)]).stdout
    assert "mark (16), noise_0 (16), noise_1 (16)" in " ".join(said.split())
    assert json.loads(CliRunner().invoke(app, ["check", str(data), "--json"]).stdout)["columns"]["mark"] == 16
    one = CliRunner().invoke(app, ["check", str(data / "meshes" / "00.ply")]).stdout
    assert "mark (vertex), noise_0 (vertex)" in one


def test_columns_in_memory_and_in_shards_train_the_same_model(data: Path, tmp_path: Path) -> None:
    dataset = open_dataset(data)
    write_shards(dataset, tmp_path / "shards")
    pairs = {name: [dataset.load(sample) for sample in dataset.split(name)] for name in ("train", "test")}
    short = {**RUN, "epochs": 1, "features": ("coords", "color", "noise")}
    for members in pairs.values():
        for i, (mesh, labels) in enumerate(members):
            values = np.random.default_rng(i).integers(0, 255, (mesh.n_faces, 3))
            members[i] = mesh.with_columns({"color": ("face", values)}), labels
    colored = open_dataset(pairs)
    write_shards(colored, tmp_path / "colored")
    assert take_census(open_dataset(tmp_path / "colored"), again=True, reads=["color", "mark"]).problems == ()
    assert take_census(open_dataset(tmp_path / "shards"), reads=["color"]).problems != ()
    runs = [hf.train(given, tmp_path / f"run{i}", **short) for i, given in enumerate((colored, tmp_path / "colored"))]
    one, other = (hf.Predictor.load(run.chosen).checkpoint for run in runs)
    assert one.prepare == other.prepare
    assert one.prepare.features == ("coords", "color", "ply:noise_0", "ply:noise_1")
    assert all(bool((one.weights[name] == other.weights[name]).all()) for name in one.weights)


def test_colors_of_files_stay_in_folders_and_shards(tmp_path: Path) -> None:
    colors = np.random.default_rng(0).integers(0, 256, (42, 3)).astype(np.uint8)
    hf.save_mesh(icosphere(1), tmp_path / "a.ply", vertex_colors=colors)
    dataset = open_dataset([(hf.load_mesh(tmp_path / "a.ply"), np.arange(80) % 2)], split={"train": 1.0, "val": 0.0})
    write_folder(dataset, tmp_path / "folder")
    write_shards(dataset, tmp_path / "shards")
    for place in ("folder", "shards"):
        read = open_dataset(tmp_path / place)
        assert take_census(read, again=True, reads=["color"]).problems == ()
        found = read.load(read.samples[0])[0].found_columns
        np.testing.assert_array_equal([found[f"color_{i}"].values for i in range(3)], colors.T)


def test_a_server_reads_the_column_of_the_file_that_is_sent(trained: Outcome, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")
    pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")
    from starlette.testclient import TestClient

    from hodgeformer.web.server.service import Limits, Service, create_app, load_predictor

    mesh, _ = marked(52)
    for name, one in (("new", mesh), ("plain", icosphere(1))):
        hf.save_mesh(one, tmp_path / f"{name}.ply")
    predictor = load_predictor(str(trained.chosen))  # tries it on a body that has no columns
    with TestClient(create_app(Service(predictor, Limits())), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/model").json()["columns"] == ["mark"]
        new, plain = (
            client.post("/predict", files=[("mesh", (f"{name}.ply", (tmp_path / f"{name}.ply").read_bytes()))])
            for name in ("new", "plain")
        )
    assert new.json()["labels"] == predictor.predict(mesh).labels.tolist()
    assert (plain.status_code, plain.json()["error"]) == (422, "plain.ply: the column 'mark' is missing; found: none")


def test_fine_tuning_keeps_columns_and_scales(trained: Outcome, data: Path, tmp_path: Path) -> None:
    tuned = hf.train(data, tmp_path / "run", start=trained.chosen, epochs=1, workers=0, callbacks=[])
    before, after = (hf.Predictor.load(run.chosen).info.prepare for run in (trained, tuned))
    assert (after.features, after.column_scales) == (before.features, before.column_scales)


def test_a_result_keeps_the_columns_and_can_be_predicted_again(trained: Outcome, tmp_path: Path) -> None:
    mesh, _ = marked(53)
    result = hf.Predictor.load(trained.chosen).predict(mesh)
    result.save(tmp_path / "answer.ply")
    again = hf.load_mesh(tmp_path / "answer.ply")
    np.testing.assert_array_equal(again.columns["mark"].values, mesh.columns["mark"].values)
    np.testing.assert_array_equal(answer_of(trained.chosen, tmp_path / "answer.ply"), result.probabilities)


def test_a_result_opens_in_other_programs(trained: Outcome, tmp_path: Path) -> None:
    meshio, trimesh = pytest.importorskip("meshio"), pytest.importorskip("trimesh")
    mesh = marked(54)[0].with_columns({"bend": np.arange(120.0)})  # of edges, which neither program reads
    result = hf.Predictor.load(trained.chosen).predict(mesh)
    result.save(tmp_path / "faces.ply")
    result.on("vertex").save(tmp_path / "vertices.ply")  # meshio reads no properties of faces
    assert len(trimesh.load(tmp_path / "faces.ply", process=False).faces) == mesh.n_faces
    read = meshio.read(tmp_path / "vertices.ply")
    np.testing.assert_array_equal(read.point_data["label"], result.on("vertex").labels)
    np.testing.assert_array_equal(read.point_data["mark"], mesh.columns["mark"].values)
