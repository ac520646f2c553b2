"""One way through a model: what evaluation scores is what prediction answers, however views share passes."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hodgeformer as hf
from hodgeformer.base.errors import MeshError
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values
from hodgeformer.lab.bench.yardsticks import human_sized_mesh
from hodgeformer.lab.study.mutations import Mutation, cut_away, paired
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import PoseName, random_turns
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.subdivision import subdivided
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.checkpoint import Checkpoint, Forward
from hodgeformer.predict.inference import answers, make_views
from hodgeformer.predict.options import FILL, FaceBudget
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.calibration import calibrated
from hodgeformer.training.evaluate import Evaluator
from meshes import icosphere, open_grid
from tiny_models import PARTS, tiny_checkpoint, write_tiny

ABOUT_Z = {"augment": {"rotation": "axis", "axis": "z"}}


def meshes() -> list[Mesh]:
    return [icosphere(2, "ball"), open_grid(7, 9), icosphere(1, "small")]


def dataset() -> DataSet:
    samples = [Sample(mesh.name, mesh, Values(np.arange(mesh.n_faces) % len(PARTS))) for mesh in meshes()]
    return DataSet("meshes", "segmentation", "face", {"test": tuple(samples)}, PARTS)


def test_evaluation_scores_what_prediction_answers() -> None:
    predictor = Predictor(tiny_checkpoint(pose="frame_average"))
    data = dataset()
    evaluator = Evaluator(data, data.split("test"), predictor.info.prepare)
    predicted = list(predictor.predict_many(meshes()))
    for _ in range(2):  # the second time from memory
        scored = list(evaluator.answers(predictor.model))
        assert [answer.mesh.name for answer in scored] == [mesh.name for mesh in meshes()]
        for answer, result in zip(scored, predicted, strict=True):
            np.testing.assert_allclose(answer.output, result.probabilities, atol=2e-5)


@pytest.mark.parametrize(
    ("pose", "options"), [("file", {"tta": 3}), ("upright_z", {"up": "x"}), ("file", {"smooth": 0.9, "faces": 100})]
)
def test_scores_take_the_options_of_predictions(pose: PoseName, options: dict[str, Any]) -> None:
    predictor = Predictor(tiny_checkpoint(pose=pose))
    labels = [result.labels for result in predictor.predict_many(meshes(), **options)]
    pairs = list(zip(meshes(), labels, strict=True))
    assert hf.evaluate(predictor, pairs, **options).main == 1.0
    assert hf.evaluate(predictor, pairs).main < 1.0


def test_turns_are_about_the_axis_of_training() -> None:
    assert tiny_checkpoint().turn_axis is None
    axis = tiny_checkpoint(training=ABOUT_Z).turn_axis
    assert axis is not None and axis.tolist() == [0, 0, 1]
    turns = random_turns(5, axis, seed=3)
    for turn in turns:
        np.testing.assert_allclose(turn @ axis, axis)
    np.testing.assert_array_equal(turns, random_turns(5, axis, seed=3))
    assert any(abs((turn @ axis)[2]) < 0.9 for turn in random_turns(5, None))


@pytest.mark.parametrize("batch_faces", [1, 500, 10_000])
@pytest.mark.parametrize("checkpoint", [tiny_checkpoint(element="vertex"), tiny_checkpoint("classification")])
def test_passes_can_be_cut_anywhere(checkpoint: Checkpoint, batch_faces: int) -> None:
    model = Forward(checkpoint.build_model())
    turns = random_turns(2, None)
    seen = [(mesh.name, make_views(mesh, checkpoint.prepare, turns=turns)) for mesh in meshes()]
    found = list(answers(model, seen, batch_faces=batch_faces))
    assert [answer.owner for answer in found] == [name for name, _ in seen]
    for (_, one), answer in zip(seen, found, strict=True):
        assert answer.views is one
        alone = next(answers(model, [(None, one)], batch_faces=10**6))
        np.testing.assert_allclose(answer.output, alone.output, atol=2e-5)
        np.testing.assert_allclose(answer.features, alone.features, atol=2e-5)
        np.testing.assert_allclose(answer.output.sum(axis=1), 1, atol=1e-5)


def test_answers_do_not_depend_on_how_finely_a_mesh_is_cut() -> None:
    predictor = Predictor(tiny_checkpoint())
    ball = icosphere(2, "ball")  # 320 faces, the model knows 60 to 400
    first = predictor.predict(ball)
    assert first.resolution == "" and first.working_faces == 320
    finer = subdivided(ball)
    again = predictor.predict(finer.mesh)
    assert again.working_faces == 320
    assert re.match(r"1,280 faces, .*\b320\b", again.resolution)
    assert (again.labels == first.labels[finer.origin]).mean() > 0.99  # quarters of a face get its answer
    coarse = predictor.predict(icosphere(0))
    assert coarse.working_faces == 80 and coarse.outputs.shape == (20, len(PARTS))
    for faces, worked in (("original", 1280), (100, 100)):
        assert predictor.predict(finer.mesh, faces=faces).working_faces == worked


def test_a_pass_has_room_for_what_memory_allows_and_a_mesh_that_needs_more_is_refused() -> None:
    checkpoint, mesh = tiny_checkpoint(), icosphere(5)
    small, large = (FaceBudget(checkpoint.model, checkpoint.prepare, memory)(mesh) for memory in (10**10, 10**11))
    assert 20_480 < small < large
    assert FaceBudget(checkpoint.model, checkpoint.prepare)(mesh) > 0
    with pytest.raises(MeshError, match=r"20,480 faces needs about .* GB of memory"):
        FaceBudget(checkpoint.model, checkpoint.prepare, 1)(mesh)


def test_the_estimate_of_memory_covers_an_eliminated_surface() -> None:
    for mesh in (icosphere(3), icosphere(5), open_grid(100, 100)):
        entries = len(pack([prepare(mesh)]).topology.surface.textbook_factor.rows)
        assert entries <= FILL * mesh.n_vertices * np.log2(mesh.n_vertices) <= 4 * entries


SIMPLIFYING = """
import sys
from hodgeformer.base.errors import MeshError
from hodgeformer.base.machine import used_memory, peak_memory
from hodgeformer.predict.predictor import Predictor
predictor = Predictor.load(sys.argv[1])
for path in sys.argv[2:4]:
    predictor.predict(path, faces=2000, memory=2**40)  # compiles
for more in (20, 30, 150):
    limit = used_memory() + more * 2**20
    try:
        predictor.predict(sys.argv[2], faces=2000, memory=limit)
        print("done")
    except MeshError as error:
        print(error)
    assert more < 150 or peak_memory() < limit, (peak_memory() - limit) / 2**20
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_what_cannot_be_read_or_simplified_within_the_limit_is_refused_beforehand(tmp_path: Path) -> None:
    large, small = tmp_path / "large.obj", tmp_path / "small.obj"
    save_mesh(icosphere(6), large)
    save_mesh(icosphere(4), small)
    words = [sys.executable, "-c", SIMPLIFYING, str(write_tiny(tmp_path)), str(large), str(small)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reading, simplifying, fits = done.stdout.splitlines()
    assert "large.obj: reading 3 MB needs about" in reading and "GB are allowed; allow more" in reading
    assert "large.obj: simplifying 81,920 faces needs about" in simplifying
    assert fits == "done"


PREDICTING = """
import sys
from hodgeformer.base.errors import MeshError
from hodgeformer.base.machine import used_memory, peak_memory
from hodgeformer.mesh.io import load_mesh
from hodgeformer.predict.predictor import Predictor
predictor = Predictor.load("human")
mesh = load_mesh(sys.argv[1])
predictor.predict(load_mesh(sys.argv[2]), faces="original")  # what is compiled or kept free is not counted
for more in map(int, sys.argv[3:]):
    limit = used_memory() + more * 2**20
    try:
        result = predictor.predict(mesh, faces="original", memory=limit)
        assert result.working_faces == mesh.n_faces
        print((peak_memory() - limit) / 2**20)
    except MeshError as error:
        print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_a_limit_on_memory_is_kept_with_blocks_that_spread(tmp_path: Path) -> None:
    """20,000 faces are refused where 70 MB are left, and stay within 300."""
    mesh, small = tmp_path / "large.ply", tmp_path / "small.ply"
    save_mesh(icosphere(5), mesh)
    save_mesh(icosphere(4), small)
    words = [sys.executable, "-c", PREDICTING, str(mesh), str(small), "70", "300"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    refused, beyond = answer.stdout.splitlines()
    assert "20,480 faces needs about" in refused
    assert float(beyond) <= 0


def test_a_temperature_keeps_labels_and_strange_meshes_are_told() -> None:
    rng = np.random.default_rng(0)
    known = [icosphere(2, str(i)) for i in range(8)]
    known = [ball.with_vertices(ball.vertices * rng.uniform(0.8, 1.2, 3)) for ball in known]
    samples = [Sample(ball.name, ball, Values(np.arange(320) % len(PARTS))) for ball in known]
    data = DataSet("balls", "segmentation", "face", {"val": tuple(samples)}, PARTS)
    plain = tiny_checkpoint()
    evaluator = Evaluator(data, samples, plain.at())
    checkpoint = calibrated(plain, evaluator.answers(plain.build_model()))
    assert checkpoint.temperature > 1 and checkpoint.familiarity is not None and len(checkpoint.heights) == len(PARTS)
    before, after = (Predictor(model).predict(known[0], smooth=False) for model in (plain, checkpoint))
    np.testing.assert_array_equal(before.labels, after.labels)
    assert after.confidence.mean() < before.confidence.mean()
    assert before.familiarity is None and after.familiarity is not None and after.familiarity > 0.5
    assert after.warnings == ()
    smoothness = [Predictor(checkpoint).predict(known[0], smooth=each).familiarity for each in (None, True, 0.3)]
    assert [after.familiarity] * 3 == smoothness, "an option of the answer says nothing about the mesh"
    strange = Predictor(checkpoint).predict(paired(known[0], known[1]))
    assert strange.familiarity is not None and strange.familiarity < 0.5
    assert any("2 large pieces" in warning for warning in strange.warnings)
    half = Predictor(checkpoint).predict(Mutation("half", partial(cut_away, share=0.5))(known[0]).mesh)
    assert any("hole" in warning for warning in half.warnings)


@pytest.mark.parametrize(
    "settings",
    [{"blocks": "DT"}, {"blocks": "DHT", "updates": "v", "signed_stars": True}],
    ids=["vertices", "edges with signs"],
)
@pytest.mark.parametrize(("pose", "n"), [("frame_average", 4), ("upright_y", 2)])
def test_one_frame_stands_for_all_where_the_order_is_not_read(settings: dict[str, Any], pose: PoseName, n: int) -> None:
    """The mean over the frames that were prepared one by one, on a mesh whose patterns have no random links."""
    torch.manual_seed(0)
    config = PrepareConfig(pose=pose, features=("coords", "normals", "distances"), n_neighbors=12, random_share=0.0)
    model = ModelConfig(
        task="segmentation", n_classes=3, d_model=16, d_hidden=16, n_heads=2,
        in_features=dict(config.widths.items()), edge_reversal=config.edge_reversal, **settings,
    )  # fmt: skip
    network, mesh = Forward(HodgeFormer(model).eval()), human_sized_mesh()
    assert not model.reads_order
    apart, shared = (make_views(mesh, config, model=reader) for reader in (None, model))
    assert (len(apart.prepared), len(shared.prepared)) == (n, 1)
    one, other = (next(answers(network, [(None, seen)], batch_faces=10**6)) for seen in (apart, shared))
    np.testing.assert_allclose(one.output, other.output, atol=2e-4)
    np.testing.assert_allclose(one.features, other.features, atol=2e-3)
