"""`hodgeformer study ...` from the command line: files, tables, pictures, JSON and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from command import options, run
from hodgeformer.data.measured import shape_hash
from hodgeformer.data.open import open_dataset
from hodgeformer.lab.study import efficiency, mutations
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.predict.model_info import DataStatistics
from hodgeformer.training.evaluate import HASH_DIGITS, learned_from
from meshes import icosphere
from tiny_models import write_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = ModelConfig(task="segmentation", n_classes=2, blocks="HT", updates="vf", d_model=8, d_hidden=8, n_heads=2)
    checkpoint = Checkpoint(
        model=config,
        prepare=PrepareConfig(),
        weights=HodgeFormer(config).state_dict(),
        classes=("top", "bottom"),
        colors=((200, 30, 30), (30, 30, 200)),
    )
    path = tmp_path_factory.mktemp("model") / "small.safetensors"
    save_checkpoint(path, checkpoint)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for sub in ("meshes", "labels"):
        (folder / sub).mkdir()
    for name in ("one", "two"):
        mesh = icosphere(1, name)
        save_mesh(mesh, folder / "meshes" / f"{name}.ply")
        labels = (mesh.vertices[mesh.faces].mean(axis=1)[:, 1] < 0).astype(int)
        (folder / "labels" / f"{name}.txt").write_text("\n".join(map(str, labels)))
    (folder / "dataset.toml").write_text(
        'task = "segmentation"\nelement = "face"\nclasses = ["top", "bottom"]\nmeshes = "meshes"\nlabels = "labels"\n'
        '[split]\ntrain = ["one"]\ntest = ["two"]\n'
    )
    return folder


@pytest.mark.parametrize("element", ["vertex", "edge", "face"])
def test_operators_write_numbers(model: Path, data: Path, tmp_path: Path, element: str) -> None:
    mesh = data / "meshes" / "one.ply"
    result = run(
        "study", "operators", model, mesh, "--element", element, "--pick", 5, "--functions", 3, "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    assert "L_v.star0_inv" in result.output
    content = json.loads((tmp_path / "operators.json").read_text())
    assert (content["layer"], content["head"], content["picked"]) == (1, 1, 5)
    assert {row["operator"] for row in content["eigenvalues"]} == {"cotangent", "L_v", "L_f"}
    assert {row["star"]: row for row in content["stars"]}["L_f.star2"]["largest_row_sum_error"] < 1e-5
    with np.load(tmp_path / "operators.npz") as file:
        arrays = dict(file)
    assert arrays["L_f.functions"].shape[0] == 80
    owner = {"vertex": "L_v.star0_inv", "edge": "L_v.star1", "face": "L_f.star2"}[element]
    assert np.nansum(arrays[f"{owner}.attention"]) == pytest.approx(1, abs=1e-5)


def test_operators_of_blocks_that_spread(data: Path, tmp_path: Path) -> None:
    mesh = data / "meshes" / "one.ply"
    model = write_tiny(tmp_path, blocks="DD")
    told = run("study", "operators", model, mesh, "--pick", 3, "--out", tmp_path, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)["spread"]
    assert found["picked"] == 3
    for block in (1, 2):
        rows = [row for row in found["times"] if row["block"] == block]
        assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
        assert rows[0]["area_percent"] < rows[-1]["area_percent"]
        assert sum(row["block_takes_percent"] for row in rows) == pytest.approx(100, abs=0.1)
    assert run("study", "operators", model, mesh, "--layer", 3, "--out", tmp_path).exit_code == 2
    assert run("study", "operators", model, mesh, "--pick", 5000, "--out", tmp_path).exit_code == 2


def test_operators_measure_learned_diagonal_stars(data: Path, tmp_path: Path) -> None:
    mesh, labels = data / "meshes" / "one.ply", data / "labels" / "one.txt"
    model = write_tiny(tmp_path, blocks="DD", star_std=0.5)
    told = run("study", "operators", model, mesh, "--labels", labels, "--out", tmp_path)
    assert told.exit_code == 0, told.output
    assert "log of the learned diagonal star" in told.stdout
    content = json.loads((tmp_path / "operators.json").read_text())["diagonal_stars"]
    assert content["bound"] == 3
    assert [(row["block"], row["star"]) for row in content["rows"][::8]] == [
        (1, "star1"), (1, "star0"), (2, "star1"), (2, "star0")
    ]  # fmt: skip
    assert content["rows"][0]["q05"] < content["rows"][0]["q95"]
    assert {"predicted_border", "true_border", "true_inside"} <= set(content["rows"][0])
    with np.load(tmp_path / "operators.npz") as file:
        factors, cotangents = file["block_2.star1.log_factor"], file["textbook.star1"]
    assert factors.shape == (120, 8) and cotangents.shape == (120,)

    told = run("study", "operators", model, mesh, "--layer", 2, "--head", 3, "--out", tmp_path, "--json")
    rows = json.loads(told.stdout)["diagonal_stars"]["rows"]
    assert [(row["block"], row["star"]) for row in rows] == [(2, "star1"), (2, "star0")]
    assert {row["time"] for row in rows} == {0.003045}
    assert run("study", "operators", model, mesh, "--head", 9, "--out", tmp_path).exit_code == 2
    fixed = write_tiny(tmp_path, blocks="DD", star_bound=0.0)
    told = run("study", "operators", fixed, mesh, "--out", tmp_path / "fixed", "--json")
    assert "diagonal_stars" not in json.loads(told.stdout)
    refused = run("study", "operators", fixed, mesh, "--labels", labels, "--out", tmp_path)
    assert refused.exit_code == 2
    assert "--labels needs D blocks with learned stars" in refused.stderr


def test_operators_refuse_wrong_choices(model: Path, data: Path, tmp_path: Path) -> None:
    mesh = data / "meshes" / "one.ply"
    wrong = run("study", "operators", model, mesh, "--layer", 2, "--out", tmp_path)
    assert wrong.exit_code == 2
    assert "not a HodgeFormer block" in wrong.stderr
    assert run("study", "operators", model, mesh, "--pick", 5000, "--out", tmp_path).exit_code == 2
    assert run("study", "operators", tmp_path / "none", mesh).exit_code == 2


def test_robustness_writes_a_table_and_a_picture(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [m for m in mutations.paper_mutations() if m.name.startswith(("Gaussian noise 0.02", "patches", "1 limb"))]
    monkeypatch.setattr(mutations, "paper_mutations", lambda: [*few, mutations.remeshed(60)])
    result = run("study", "robustness", model, data, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    content = json.loads((tmp_path / "robustness.json").read_text())
    rows = {row["mutation"]: row for row in content["rows"]}
    assert len(rows) == 1 + 3 + 1 + len(mutations.further_mutations())
    assert rows["Gaussian noise 0.020"]["paper_drop"] == 9.2
    assert rows["renumbered"]["drop"] == 0
    assert rows["remeshed to 60 faces"]["mean_faces"] == 60
    assert (tmp_path / "robustness.csv").read_text().startswith("mutation,mean_faces,accuracy")
    with Image.open(tmp_path / "robustness.png") as picture:
        assert picture.width > 1000
    with Image.open(tmp_path / "incomplete.png") as picture:  # whole and without a limb, for two meshes
        assert picture.width < 600 < picture.height


def test_ablation_makes_its_table_and_skips_what_is_done(data: Path, tmp_path: Path) -> None:
    study = tmp_path / "tiny.toml"
    study.write_text(
        'title = "tiny"\n[base.model]\nd_model = 8\nn_heads = 1\n'
        '[[rows]]\nname = "plain"\npaper = { vases = 84.82 }\nmodel = { blocks = "T", embedding = "plain" }\n'
        '[[rows]]\nname = "neighbor"\nmodel = { blocks = "T" }\n'
    )
    command = ("study", "ablation", study, "--data", data, "--seeds", 1, "--epochs", 1)
    folders = ("--out", tmp_path / "runs", "--results", tmp_path / "results")
    first = run(*command, *folders)
    assert first.exit_code == 0, first.output
    assert "84.82" in first.stdout
    second = run(*command, *folders, "--json")
    assert second.stderr.count("already finished") == 2
    rows = json.loads(second.stdout)["rows"]
    assert [row["row"] for row in rows] == ["plain", "neighbor"]
    assert rows[0]["score"] == "face_accuracy"
    assert (tmp_path / "results" / "tiny.csv").is_file()
    other = run("study", "ablation", study, "--data", data, "--seeds", 1, "--epochs", 2, *folders)
    assert other.exit_code == 2
    assert "other settings" in other.stderr
    again = run(*command, *folders, "--row", "neighbor", "--json")
    assert [row["row"] for row in json.loads(again.stdout)["rows"]] == ["neighbor"]
    kept = (tmp_path / "results" / "tiny.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in kept] == ["row", "plain", "neighbor"]
    unknown = run(*command, *folders, "--row", "other")
    assert unknown.exit_code == 2 and "its rows are: plain, neighbor" in unknown.stderr


def test_the_main_table_is_printed_and_written(tmp_path: Path) -> None:
    result = run("study", "table", "--results", tmp_path)
    assert result.exit_code == 0, result.output
    assert "COSEG aliens" in result.stdout and "98.3" in result.stdout
    content = json.loads(run("study", "table", "--results", tmp_path, "--json").stdout)
    assert all(row["mean"] is None and row["missing"] for row in content["rows"])
    assert {"method": "MeshWalker", "COSEG vases": 99.6}.items() <= content["field"][5].items()
    assert (tmp_path / "table.csv").read_text().startswith("data,paper,mean,std,seeds,epochs,recipe_mean")


def test_efficiency_writes_both_tables(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "apart", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(efficiency, "ENOUGH_SECONDS", 0.0)
    monkeypatch.setattr(efficiency, "ONE_LAYER", efficiency.ONE_LAYER.replace(d_model=8, d_hidden=8, n_heads=2))
    small = ("model.d_model=8", "model.d_hidden=8", "model.n_heads=1", "model.blocks=H", "train.batch_size=1")
    settings = options(*small)
    result = run("study", "efficiency", "--data", data, "--largest", 8, "--out", tmp_path, *settings)
    assert result.exit_code == 0, result.output
    sizes = json.loads((tmp_path / "sizes.json").read_text())["rows"]
    assert [row["work"] for row in sizes] == list(efficiency.WORKS)
    runtime = (tmp_path / "runtime.csv").read_text()
    assert "preparation_share" in runtime


def test_scores_of_meshes_that_were_learned_from_are_told_to_flatter(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("paper_mutations", "further_mutations"):
        monkeypatch.setattr(mutations, name, list)
    known = load_checkpoint(model)
    shape = shape_hash(load_mesh(data / "meshes" / "two.ply"))[:HASH_DIGITS]
    statistics = DataStatistics(
        n_meshes=1, n=dict.fromkeys("vef", (1, 1, 1)), size=(1, 1, 1), edge_length=(1, 1, 1, 1, 1), shapes=(shape,)
    )
    save_checkpoint(tmp_path / "knows.safetensors", known.replace(statistics=statistics))
    options = ("--out", tmp_path / "out", "--faces", "original", "--json")
    for path, told in ((model, False), (tmp_path / "knows.safetensors", True)):
        result = run("study", "robustness", path, data, *options)
        assert result.exit_code == 0, result.output
        assert ("copies of training meshes (two)" in result.stderr) == told
        assert json.loads(result.stdout)["n_learned_from"] == int(told)
    by_file = known.replace(training={"data": {"name": "folder", "path": str(data)}})
    assert learned_from(by_file, open_dataset(data), open_dataset(data).split("train")) == ["one"]
    assert learned_from(by_file, open_dataset(data), open_dataset(data).split("test")) == []
