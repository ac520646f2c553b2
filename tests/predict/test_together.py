"""Several models that answer together, features of the encoder, and results as other packages hold meshes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch

import hodgeformer as hf
from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.predict.checkpoint import save_checkpoint
from hodgeformer.predict.options import PredictKeywords, PredictOptions
from hodgeformer.predict.predictor import Predictor
from meshes import icosphere
from tiny_models import PARTS, tiny_checkpoint, write_tiny

BALL = icosphere(2, name="ball")


def other_weights(**kinds: object) -> hf.Predictor:
    """The same question, another answer."""
    checkpoint = tiny_checkpoint(**kinds)  # type: ignore[arg-type]
    torch.manual_seed(1)
    weights = {k: v + 0.3 * torch.randn_like(v) if v.is_floating_point() else v for k, v in checkpoint.weights.items()}
    return Predictor(checkpoint.replace(weights=weights, temperature=1.7))


def test_probabilities_are_averaged_and_warnings_kept() -> None:
    one, two = Predictor(tiny_checkpoint(statistics=None)), other_weights(pose="frame_average")
    both = Predictor.load([one, two])
    assert len(both.members) == 2 and both.names == PARTS
    shares: list[float] = []
    huge = BALL.with_vertices(1e6 * BALL.vertices)
    for mesh in (BALL, huge):
        alone = [predictor.predict(mesh) for predictor in (one, two)]
        result = both.predict(mesh, report=shares.append)
        mean = (alone[0].probabilities + alone[1].probabilities) / 2
        assert np.allclose(result.probabilities, mean, atol=1e-6)
        assert result.warnings == alone[1].warnings
    assert alone[1].warnings and shares[-1] == 1.0 and min(shares) <= 0.5
    smooth = both.predict(BALL, smooth=True, element="vertex")
    assert len(smooth.labels) == BALL.n_vertices
    broken: list[object] = []
    many = list(both.predict_many([BALL, "no.obj", huge], on_error=lambda given, error: broken.append(given)))
    assert [result.mesh.name for result in many] == ["ball", "ball"] and broken == ["no.obj"]
    assert np.allclose(many[0].probabilities, both.predict(BALL).probabilities, atol=1e-6)


@pytest.mark.parametrize("tta", [1, 3])
def test_scores_are_those_of_the_answers_whatever_each_model_has_fitted(tta: int) -> None:
    """Every member smooths as strongly as was best for itself."""
    both = Predictor(tiny_checkpoint(), other_weights(smooth=0.9).checkpoint)
    labels = both.predict(BALL, tta=tta).labels
    assert hf.evaluate(both, [(BALL, labels)], tta=tta).values["face_accuracy"] == 1.0
    with pytest.raises(ConfigError, match="tta"):
        hf.evaluate(both, [(BALL, labels)], tta=0)


def test_several_models_are_named_by_commas_patterns_and_folders(tmp_path: Path) -> None:
    for fold in ("fold-1", "fold-2", "fold-10"):
        (tmp_path / "cv" / fold).mkdir(parents=True)
        write_tiny(tmp_path / "cv" / fold, "best.safetensors")
    (tmp_path / "cv" / "fold-1-old").mkdir()
    for named, n in (("cv", 3), ("cv/fold-1,cv/fold-2", 2), ("cv/fold-?", 2)):
        found = Predictor.from_pretrained(",".join(str(tmp_path / part) for part in named.split(",")))
        assert len(found.members) == n
    last = Predictor.load(tmp_path / "cv").members[-1].info.path
    assert last is not None and last.parent.name == "fold-10"
    save_checkpoint(tmp_path / "renamed.safetensors", tiny_checkpoint(classes=("a", "b", "c", "d")))
    with pytest.raises(
        CheckpointError, match=r"cannot form an ensemble: segmentation per face of head.* and .*of a, b"
    ):
        Predictor.load(f"{tmp_path / 'cv' / 'fold-1'},{tmp_path / 'renamed.safetensors'}")
    with pytest.raises(CheckpointError, match="no model matches"):
        Predictor.load(str(tmp_path / "cv" / "nothing-*"))
    with pytest.raises(ConfigError, match="not an ensemble of 3"):
        Predictor.load(tmp_path / "cv").save_pretrained(tmp_path / "one")
    with pytest.raises(ConfigError, match="not an ensemble of 3"):
        Predictor.load(tmp_path / "cv").features(BALL)


@pytest.mark.parametrize("element", ["vertex", "edge", "face", "mesh"])
def test_features_follow_the_file_and_come_on_every_element(element: str) -> None:
    predictor = Predictor(tiny_checkpoint(pose="frame_average"))
    features = predictor.features(BALL, element)  # type: ignore[arg-type]
    counts = BALL.n
    assert features.shape == ({"vertex": counts.v, "edge": counts.e, "face": counts.f, "mesh": 1}[element], 16)
    order = np.random.default_rng(0).permutation(BALL.n_vertices)
    renumbered = hf.Mesh(BALL.vertices[order], np.argsort(order)[BALL.faces], name="renumbered")
    again = predictor.features(renumbered, element)  # type: ignore[arg-type]
    assert np.allclose(again, features[order] if element == "vertex" else features, atol=1e-4)
    simplified = predictor.features(BALL, element, faces=100)  # type: ignore[arg-type]
    assert simplified.shape == features.shape and not np.allclose(simplified, features)


def test_features_are_what_the_last_layer_reads() -> None:
    predictor = Predictor(tiny_checkpoint())
    head = predictor.model.head.out
    with torch.no_grad():
        logits = head(torch.from_numpy(predictor.features(BALL, "face")))
    assert np.allclose(logits.softmax(1).numpy(), predictor.predict(BALL).probabilities, atol=1e-5)


def test_keywords_of_predict_are_its_options() -> None:
    options = {name: get_type_hints(PredictOptions)[name] for name in PredictOptions.model_fields}
    assert get_type_hints(PredictKeywords) == {**options, "memory": int | str | None, "smooth": float | bool | None}


def test_what_other_packages_hold_is_predicted() -> None:
    trimesh = pytest.importorskip("trimesh")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what PyTorch calls old
        data_class = pytest.importorskip("torch_geometric.data").Data
    predictor = Predictor(tiny_checkpoint())
    labels = predictor.predict((BALL.vertices, BALL.faces)).labels
    scan = trimesh.Trimesh(BALL.vertices, BALL.faces, process=False)
    data = data_class(pos=torch.tensor(BALL.vertices), face=torch.tensor(BALL.faces).T)
    for held in (scan, data):
        assert np.array_equal(predictor.predict(held).labels, labels)


def test_one_model_is_needed_where_only_one_can_be_used(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path)
    assert Predictor.load(tiny).checkpoint.path == tiny
    with pytest.raises(ConfigError, match="ensemble of 2; name one"):
        _ = Predictor.load(f"{tiny},{tiny}").checkpoint
    ready = Predictor.load(tiny)
    assert Predictor.load(ready) is ready
