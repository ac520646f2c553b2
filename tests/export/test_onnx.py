"""Exported graphs answer as PyTorch does, for every kind of layer and mesh, and say what is wrong with a file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

from hodgeformer.base.errors import CheckpointError, ConfigError, MeshError
from hodgeformer.cli import app
from hodgeformer.data.figures import figure
from hodgeformer.export.export import export
from hodgeformer.export.onnx_model import onnx_model
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_rotation
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.subdivision import subdivided
from hodgeformer.nn.blocks import Spreading
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack
from hodgeformer.predict import exported as exported_module
from hodgeformer.predict.checkpoint import save_checkpoint
from hodgeformer.predict.exported import GraphInputs, OnnxNetwork, load_exported, onnx_session
from hodgeformer.predict.member import Member
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.calibration import calibrated
from hodgeformer.training.evaluate import Evaluator, evaluate
from hodgeformer.web.server.service import load_predictor
from hodgeformer.web.viewer.models import ModelList, offered_models
from meshes import icosphere, open_grid, two_components
from tiny_models import PARTS, tiny_checkpoint


def fan(n: int) -> Mesh:
    """A vertex that all faces share."""
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    rim = np.stack([np.cos(angles), np.sin(angles), 0.1 * np.cos(5 * angles)], axis=1)
    around = np.arange(n)
    return Mesh(np.vstack([rim, [0, 0, 1.0]]), np.stack([around, (around + 1) % n, np.full(n, n)], axis=1), name="fan")


def sizes() -> list[Mesh]:
    return [open_grid(4, 5), icosphere(2), fan(400)]


def with_learned_stars(model: HodgeFormer) -> HodgeFormer:
    """Stars that differ from the textbook's by a factor of about two from vertex to vertex."""
    for layer in model.modules():
        if isinstance(layer, Spreading) and layer.bound:
            torch.nn.init.normal_(layer.stars.weight, std=0.2)
    return model


def broken(n_vertices: int = 60) -> Mesh:
    """A soup in few places: edges without length, faces without area, many faces at an edge, and vertices of none."""
    rng = np.random.default_rng(3)
    places = rng.normal(size=(12, 3))
    faces = rng.integers(0, n_vertices, (n_vertices, 3))
    return Mesh(places[rng.integers(0, 12, n_vertices)], faces, name="soup")


@pytest.mark.parametrize(
    ("blocks", "updates", "task", "element"),
    [
        ("HT", "v", "segmentation", "face"),
        ("HTH", "vef", "segmentation", "edge"),
        ("HT", "vef", "classification", "mesh"),
        ("HT", "f", "segmentation", "vertex"),
        ("HD", "ve", "regression", "vertex"),
        ("DDT", "v", "segmentation", "face"),
        ("TD", "v", "classification", "mesh"),
        ("DD", "v", "segmentation", "face"),
    ],
)
@pytest.mark.parametrize("bound", [0.0, 3.0])
def test_graphs_compute_what_the_model_does(
    blocks: str, updates: str, task: str, element: str, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_module, "_CHUNK", 2**14)  # so that there are chunks, and a last one with rows too many
    torch.manual_seed(0)
    settings = {"blocks": blocks, "updates": updates, "task": task, "element": element, "n_classes": 3}
    config = ModelConfig.parse(settings | {"d_model": 16, "d_hidden": 16, "n_heads": 2, "star_bound": bound})
    model = with_learned_stars(HodgeFormer(config).eval())
    both = model, deepcopy(model).double()
    network = OnnxNetwork(config, onnx_session(onnx_model(model).SerializeToString()))
    for mesh in (*sizes(), broken()):
        view = prepare(mesh, PrepareConfig())
        batch = pack([view])
        single, exact = (answers(each, batch.to(dtype=each.head.out.weight.dtype)) for each in both)
        rows, features = network.run(GraphInputs(view, config.d_model))
        for here, there, found in zip(single, exact, (rows[:, 0], features[0]), strict=True):
            own = np.abs(here - there).max()  # what single precision costs PyTorch, with wild stars on thin faces
            np.testing.assert_allclose(found, there, atol=max(1e-4, 2 * own))


@pytest.mark.parametrize("task", ["classification", "segmentation"])
def test_graphs_have_the_layers_of_the_published_code(task: str) -> None:
    torch.manual_seed(0)
    published = {"feed_forward_norm": True, "residual_dropout": 0.1, "center_head": False}
    config = ModelConfig.parse(
        {"task": task, "n_classes": 3, "blocks": "HTD", "d_model": 16, "n_heads": 2, **published}
    )
    model = HodgeFormer(config)
    batch = pack([prepare(mesh, PrepareConfig()) for mesh in sizes()])
    for _ in range(5):
        model(batch)  # running statistics that are not those of the beginning
    network = OnnxNetwork(config, onnx_session(onnx_model(model.eval()).SerializeToString()))
    for mesh in sizes():
        view = prepare(mesh, PrepareConfig())
        rows, _ = answers(model, pack([view]))
        found, _ = network.run(GraphInputs(view, config.d_model))
        np.testing.assert_allclose(found[:, 0], rows, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e-7])
@torch.no_grad()
def test_parts_of_very_different_scale(scale: float) -> None:
    """A body with copies of itself that single precision hardly tells from points.

    At 1e-7 their faces are flat: differences between nearly equal values are noise, times a large over a small star.
    PyTorch's own answers in single precision are as far off there, and those of the body hardly are.
    """
    body = figure(np.random.default_rng(0), n_faces=600)[0]
    places = [body.vertices, *(scale * body.vertices + body.vertices[i] for i in (50, 150, 250))]
    faces = [body.faces + i * body.n_vertices for i in range(len(places))]
    checkpoint = Predictor.load("human").checkpoint
    model = checkpoint.build_model()
    network = OnnxNetwork(model.config, onnx_session(onnx_model(model).SerializeToString()))
    view = prepare(Mesh(np.vstack(places), np.vstack(faces)), checkpoint.prepare, embedded=("v",))
    batch = pack([view])
    single, exact = model(batch), deepcopy(model).double()(batch.to(dtype=torch.float64))
    found = torch.from_numpy(network.run(GraphInputs(view, model.config.d_model))[0][:, 0])
    off, own = ((rows.double().softmax(1) - exact.softmax(1)).abs().amax(1).numpy() for rows in (found, single))
    is_body = view.order.f < body.n_faces
    for part in (is_body, ~is_body):
        assert off[part].max() < max(1e-4, 3 * own[part].max()), f"PyTorch is off by {own[part].max():.1e}"
    assert scale < 1e-6 or off.max() < 1e-3  # learned stars are factors of up to 20, also of what was rounded


@torch.no_grad()
def test_a_body_half_of_which_is_shrunk_to_a_point() -> None:
    """The bound of single precision: there PyTorch itself is off by 0.07 of a probability, and the graph by 0.12.

    The first D block multiplies differences of nearly equal values and divides them by the smallest area, so their
    rounding is all that is left. The faces that were not shrunk keep two digits.
    """
    checkpoint = Predictor.load("human").checkpoint
    model = checkpoint.build_model()
    network = OnnxNetwork(model.config, onnx_session(onnx_model(model).SerializeToString()))
    off: dict[str, list[tuple[float, float]]] = {"graph": [], "PyTorch": []}
    for seed in range(4):
        body = figure(rng := np.random.default_rng(seed), n_faces=600)[0]
        vertices, upper = body.vertices.copy(), body.vertices[:, 1] > np.median(body.vertices[:, 1])
        center = vertices[upper].mean(axis=0)
        vertices[upper] = center + 1e-6 * (vertices[upper] - center)
        far = vertices @ random_rotation(rng).T + 1e4  # where files in map coordinates are
        view = prepare(Mesh(far, body.faces), checkpoint.prepare, embedded=("v",))
        batch = pack([view])
        exact = deepcopy(model).double()(batch.to(dtype=torch.float64)).softmax(1)
        kept = ~upper[body.faces[view.order.f]].any(axis=1)
        rows = torch.from_numpy(network.run(GraphInputs(view, model.config.d_model))[0][:, 0])
        for name, found in (("graph", rows), ("PyTorch", model(batch))):
            wrong = (found.double().softmax(1) - exact).abs().amax(1).numpy()
            off[name].append((wrong.max(), wrong[kept].max()))
    (graph, kept_by_graph), (own, kept_by_own) = (np.max(values, axis=0) for values in off.values())
    assert graph < 3 * own and own < 0.2
    assert max(kept_by_graph, kept_by_own) < 0.02


@torch.no_grad()
def answers(model: HodgeFormer, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """The rows and the means of the features."""
    x = model.forward_features(batch)
    return model.head(x, batch.topology).numpy(), torch.cat([x[kind].mean(0) for kind in model.config.updated]).numpy()


@pytest.mark.parametrize("embedding", ["plain", "neighbor"])
@pytest.mark.parametrize("updates", ["v", "vf"])
def test_signed_stars(updates: str, embedding: str) -> None:
    """The signs of edges and faces, and edges embedded in both directions; on a soup with broken faces too."""
    torch.manual_seed(0)
    settings = {
        "blocks": "HDH" if updates == "v" else "HH",
        "updates": updates,
        "embedding": embedding,
        "signed_stars": True,
        "n_classes": 3,
    }
    settings |= {"edge_reversal": PrepareConfig().edge_reversal, "task": "segmentation"}
    config = ModelConfig.parse(settings | {"d_model": 16, "d_hidden": 16, "n_heads": 2})
    model = with_learned_stars(HodgeFormer(config).eval())
    network = OnnxNetwork(config, onnx_session(onnx_model(model).SerializeToString()))
    for mesh in (*sizes(), broken()):
        view = prepare(mesh, PrepareConfig())
        with torch.no_grad():
            np.testing.assert_allclose(network.run(GraphInputs(view, 16))[0][:, 0], model(pack([view])), atol=1e-4)


def test_bodies_get_the_same_labels_with_learned_and_signed_stars(tmp_path: Path) -> None:
    """Of three sizes, each predicted as a user does it: one frame, with its connections, represents all four."""
    plain = tiny_checkpoint(pose="frame_average")
    signs = {"signed_stars": True, "edge_reversal": plain.prepare.edge_reversal}
    model = plain.model.replace(blocks="DHD", star_bound=3.0, **signs)
    assert not model.reads_order
    torch.manual_seed(0)
    weights = with_learned_stars(HodgeFormer(model)).state_dict()
    checkpoint = plain.replace(model=model, weights=weights)
    export(checkpoint, tmp_path / "signed.onnx")
    predictors = Predictor(checkpoint), Predictor.load(tmp_path / "signed.onnx")
    for number, n_faces in enumerate((200, 600, 1500)):
        body, _ = figure(np.random.default_rng(number), n_faces=n_faces)
        one, two = (each.predict(body, faces="original") for each in predictors)
        np.testing.assert_allclose(one.probabilities, two.probabilities, atol=1e-4)
        np.testing.assert_array_equal(one.labels, two.labels)


def test_small_components_have_short_rows() -> None:
    """Two pieces of which one has fewer elements than a row of the pattern."""
    checkpoint = tiny_checkpoint()
    model = checkpoint.build_model()
    view = prepare(two_components(), checkpoint.prepare.replace(n_neighbors=30))
    network = OnnxNetwork(model.config, onnx_session(onnx_model(model).SerializeToString()))
    with torch.no_grad():
        np.testing.assert_allclose(network.run(GraphInputs(view, 16))[0][:, 0], model(pack([view])), atol=1e-4)


def test_graphs_have_stock_operators_only() -> None:
    graph = onnx_model(tiny_checkpoint(blocks="HTD").build_model())
    onnx.checker.check_model(graph, full_check=True)
    assert [opset.domain for opset in graph.opset_import] == [""]
    assert not graph.functions


@pytest.fixture(scope="module")
def balls() -> list[Mesh]:
    rng = np.random.default_rng(0)
    round_ones = [icosphere(2, str(i)) for i in range(6)]
    return [ball.with_vertices(ball.vertices * rng.uniform(0.8, 1.2, 3)) for ball in round_ones]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, balls: list[Mesh]) -> tuple[Path, Predictor]:
    """A calibrated model that is averaged over frames, and its file."""
    from hodgeformer.data.dataset import DataSet, Sample
    from hodgeformer.data.labels import Values

    samples = [Sample(ball.name, ball, Values(np.arange(320) % len(PARTS))) for ball in balls]
    data = DataSet("balls", "segmentation", "face", {"val": tuple(samples)}, PARTS)
    plain = tiny_checkpoint(pose="frame_average")
    checkpoint = calibrated(plain, Evaluator(data, samples, plain.at()).answers(plain.build_model()))
    path = tmp_path_factory.mktemp("exported") / "tiny.onnx"
    found = export(checkpoint, path)
    assert len(found) == 3 and max(parity.answer for parity in found) < 1e-4
    return path, Predictor(checkpoint)


def test_the_runtime_has_the_manners_of_a_predictor(exported: tuple[Path, Predictor], balls: list[Mesh]) -> None:
    path, predictor = exported
    other = Predictor.load(path)
    assert other.names == predictor.names
    large = subdivided(balls[0]).mesh  # is simplified, and the answer carried back
    for options in ({}, {"element": "vertex", "smooth": True}, {"tta": 2}, {"faces": 100}):
        one, two = (each.predict(large, **options) for each in (predictor, other))
        assert one.working_faces == two.working_faces and one.element == two.element and one.colors == two.colors
        np.testing.assert_allclose(one.probabilities, two.probabilities, atol=1e-4)
        np.testing.assert_array_equal(one.labels, two.labels)
    several = [icosphere(2), *balls, open_grid(9, 9)]
    for one, two in zip(predictor.predict_many(several), other.predict_many(several), strict=True):
        assert one.warnings == two.warnings
        assert one.familiarity == pytest.approx(two.familiarity, abs=1e-3)
        np.testing.assert_array_equal(one.labels, two.labels)
    assert any("features differ" in warning for warning in other.predict(fan(100)).warnings)


@pytest.mark.parametrize("at_once", [1, 2**13, 2**19])
@pytest.mark.parametrize(("blocks", "task"), [("D", "segmentation"), ("DT", "classification")])
def test_frames_run_together(
    blocks: str, task: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model of vertices alone, whose frames differ by signs: one after another, two by two, and all at once."""
    monkeypatch.setattr(exported_module, "_MOST_AT_ONCE", at_once)
    plain = tiny_checkpoint(task, blocks=blocks, pose="frame_average")
    checkpoint = plain.replace(weights=with_learned_stars(plain.build_model()).state_dict())
    assert not checkpoint.model.reads_order
    export(checkpoint, tmp_path / "spread.onnx")
    ball = icosphere(2)
    one, two = (each.predict(ball) for each in (Predictor(checkpoint), Predictor.load(tmp_path / "spread.onnx")))
    np.testing.assert_allclose(one.probabilities, two.probabilities, atol=1e-4)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.familiarity == pytest.approx(two.familiarity, abs=1e-3)


ROOT = Path(__file__).parents[2]
ALONE = """
import sys
import tomllib
sys.modules.update(dict.fromkeys(sys.argv[4:]))  # cannot be imported
import hodgeformer as hf
from hodgeformer.cli import app
result = hf.Predictor.load(sys.argv[1]).predict(sys.argv[2])
result.save(sys.argv[3])
print(result.summary)
for words in (["predict", sys.argv[1], sys.argv[2], "--format", "none"], ["info", sys.argv[1]], ["check", sys.argv[2]]):
    assert not app(words, standalone_mode=False), words
"""


def dependencies(folder: Path) -> set[str]:
    return set(tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"])


def test_the_small_installation_needs_the_same_versions() -> None:
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["runtime"]
    assert dependencies(ROOT / "runtime") <= dependencies(ROOT) | set(optional)


def not_in_a_small_installation() -> set[str]:
    """The dependencies of the package that runtime/ leaves out, and onnx."""
    left_out = dependencies(ROOT) - dependencies(ROOT / "runtime")
    return {re.split(r"[^\w.-]", line)[0].replace("-", "_") for line in left_out} | {"onnx"}


def test_a_small_installation_predicts(exported: tuple[Path, Predictor], tmp_path: Path, balls: list[Mesh]) -> None:
    save_mesh(balls[0], tmp_path / "ball.ply")
    missing = not_in_a_small_installation()
    assert missing == {"torch", "safetensors", "jaxtyping", "onnx"}
    files = [str(exported[0]), str(tmp_path / "ball.ply"), str(tmp_path / "out.json")]
    run = subprocess.run([sys.executable, "-c", ALONE, *files, *missing], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == exported[1].predict(tmp_path / "ball.ply").summary
    assert json.loads((tmp_path / "out.json").read_text())["classes"] == list(PARTS)


def test_the_verb_prints_the_largest_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["export", "shrec11"])
    assert answer.exit_code == 0, answer.output
    assert answer.output.splitlines()[-1].startswith("largest difference ")
    assert answer.output.count(" faces: probabilities differ") == 3
    result = Predictor.load("shrec11.onnx").predict(icosphere(2))
    assert result.label == Predictor.load("shrec11").predict(icosphere(2)).label
    with pytest.raises(ConfigError, match="no answer for each face"):
        Predictor.load("shrec11.onnx").predict(icosphere(2), element="face")


def test_what_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_other_weights(model: HodgeFormer) -> Any:
        model = deepcopy(model)
        model.head.out.bias.data += 0.01
        return onnx_model(model)

    monkeypatch.setattr("hodgeformer.export.onnx_model.onnx_model", of_other_weights)
    with pytest.raises(CheckpointError, match=r"differs from PyTorch by .*; nothing was written"):
        export(tiny_checkpoint(), tmp_path / "tiny.onnx")
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_used_are_told(tmp_path: Path, exported: tuple[Path, Predictor]) -> None:
    def refused(name: str, reason: str) -> None:
        with pytest.raises(CheckpointError, match=reason):
            Predictor.load(tmp_path / name)

    refused("none.onnx", "no file, folder")
    (tmp_path / "text.onnx").write_text("no model at all")
    refused("text.onnx", "not a model that onnxruntime can read")
    model = onnx.load(exported[0])
    for content, reason in (
        (None, "not written by `hodgeformer export`"),
        ('{"format": 99}', "export format 99 is newer than this hodgeformer"),
        ('{"format": 1, "model": {}}', "export format 1 of an older hodgeformer; export the model again"),
        (f'{{"format": {exported_module.FORMAT}, "model": {{}}}}', "the settings in the exported model are invalid"),
        ("[]", "are invalid"),
        ("[" * 100_000, "are invalid"),
    ):
        del model.metadata_props[:]
        if content is not None:
            onnx.helper.set_model_props(model, {"hodgeformer": content})
        onnx.save(model, tmp_path / "other.onnx")
        refused("other.onnx", reason)
    onnx.helper.set_model_props(model, {"hodgeformer": "TEXT"})
    (tmp_path / "other.onnx").write_bytes(model.SerializeToString().replace(b"TEXT", b"\xff\xfeXT"))
    refused("other.onnx", "metadata of the model is damaged")


def test_a_graph_of_another_width_is_told(exported: tuple[Path, Predictor], balls: list[Mesh]) -> None:
    info, network = load_exported(exported[0])
    narrow = info.model.replace(n_classes=info.model.n_classes - 1)
    changed = info.replace(model=narrow, classes=info.classes[:-1], colors=info.colors[:-1], heights=())
    with pytest.raises(CheckpointError, match=r"the model answers \(\d+, 4\), not \(\d+, 3\); export it again"):
        Predictor(Member(changed, OnnxNetwork(narrow, network._session))).predict(balls[0])


def test_a_graph_that_cannot_run_is_told(exported: tuple[Path, Predictor]) -> None:
    """Whose inputs are of other types than its nodes take."""
    network = OnnxNetwork(tiny_checkpoint().model, onnx_session(exported[0]))
    inputs = dict(GraphInputs(prepare(icosphere(1), tiny_checkpoint().prepare), 16))
    with pytest.raises(CheckpointError, match=r"onnxruntime cannot run this model \(.*; export it again"):
        network.run(inputs, x_v=inputs["x_v"].astype(np.float64))


def test_what_is_missing_is_told_with_the_command(
    monkeypatch: pytest.MonkeyPatch, exported: tuple[Path, Predictor]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"need onnxruntime: pip install onnxruntime"):
        Predictor.load(exported[0])
    with pytest.raises(ConfigError, match=r"pip install 'hodgeformer\[export\]'"):
        export(tiny_checkpoint(), exported[0])


def test_what_cannot_be_exported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(task="segmentation", n_classes=2, stars="barycentric")
    with pytest.raises(ConfigError, match="cannot be exported"):
        onnx_model(HodgeFormer(config))
    monkeypatch.setattr(exported_module, "_MOST_ENTRIES", 1000)
    with pytest.raises(MeshError, match="fan: a vertex has 100 edges, too many"):
        _ = GraphInputs(prepare(fan(100)), 16)["edges_of_vertex"]


@pytest.fixture
def models(exported: tuple[Path, Predictor], tmp_path: Path) -> str:
    """The exported file and its checkpoint, to answer together."""
    save_checkpoint(tmp_path / "tiny.safetensors", exported[1].checkpoint)
    return f"{exported[0]},{tmp_path / 'tiny.safetensors'}"


def verb(*words: object) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.parametrize("several", [False, True])
def test_every_verb_takes_exported_models(
    models: str, several: bool, exported: tuple[Path, Predictor], tmp_path: Path, balls: list[Mesh]
) -> None:
    model = models if several else exported[0]
    save_mesh(balls[0], tmp_path / "ball.ply")
    content = json.loads(verb("predict", model, tmp_path / "ball.ply", "--out", tmp_path / "out", "--json"))
    assert content["results"][0]["labels"] == exported[1].predict(balls[0]).labels.tolist()
    facts = json.loads(verb("info", model, "--json"))
    assert [fact["classes"] for fact in (facts if several else [facts])] == [list(PARTS)] * (1 + several)
    samples = [(ball, exported[1].predict(ball).labels) for ball in balls]
    assert evaluate(str(model), samples).values["face_accuracy"] == 1.0
    shelf = ModelList(offered_models(str(model)))
    name = next(iter(shelf.offered))
    assert shelf.network(name) is None
    shown = shelf.predictor(name).predict(balls[0])
    np.testing.assert_array_equal(shown.labels, exported[1].predict(balls[0]).labels)
    assert load_predictor(str(model)).names == PARTS


def test_what_needs_one_checkpoint_says_so(models: str, exported: tuple[Path, Predictor], tmp_path: Path) -> None:
    for words in (["export"], ["study", "operators"], ["evaluate", "--calibrate"]):
        for model, reason in (
            (exported[0], "use the checkpoint that the model was exported from"),
            (models, "ensemble of 2; name one of them"),
        ):
            words_after = [tmp_path] if words[0] != "export" else []
            answer = CliRunner().invoke(app, [*map(str, (words[0], *words[1:], model, *words_after))])
            assert answer.exit_code == 2 and reason in answer.stderr, (words, answer.output)
    asked: list[Callable[[Predictor], Any]] = [
        lambda one: one.features(icosphere(1)),
        lambda one: one.save_pretrained(tmp_path / "saved"),
        lambda one: one.checkpoint,
        lambda one: one.model,
    ]
    for ask in asked:
        with pytest.raises(ConfigError, match="needs a model in PyTorch"):
            ask(Predictor.load(exported[0]))
    assert not (tmp_path / "saved").exists()
