"""Scores by hand, and names that say what is counted."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.inference import tempered
from hodgeformer.training.calibration import calibrated
from hodgeformer.training.evaluate import Answer
from hodgeformer.training.metrics import Tally, regression_scores, scores_of
from tiny_models import tiny_checkpoint

CLASSES = ("a", "b", "c")


def tally() -> Tally:
    counted = Tally(3)
    counted.add(
        "one",
        predicted=np.array([0, 0, 1, 1]),
        true=np.array([0, 1, 1, -1]),
        areas=np.array([1.0, 2.0, 5.0, 100.0]),
    )
    counted.add("two", predicted=np.array([1]), true=np.array([1]), areas=np.array([2.0]))
    return counted


def test_scores_by_hand() -> None:
    scores = scores_of(tally(), element="face", classes=CLASSES)
    assert scores.values == {
        "face_accuracy": pytest.approx(3 / 4),
        "face_accuracy_area_weighted": pytest.approx(8 / 10),
        "face_accuracy_mean_over_meshes": pytest.approx((2 / 3 + 1) / 2),
        "face_accuracy_mean_over_classes": pytest.approx((1 + 2 / 3) / 2),
        "face_mean_iou": pytest.approx((1 / 2 + 2 / 3) / 2),
    }
    assert scores.main == pytest.approx(3 / 4)
    assert scores.confusion is not None
    assert scores.confusion.tolist() == [[1, 0, 0], [1, 2, 0], [0, 0, 0]]
    assert scores.per_mesh == {"one": pytest.approx(2 / 3), "two": 1.0}


def test_a_class_that_never_occurs_is_not_zero_but_unknown() -> None:
    rows = scores_of(tally(), element="face", classes=CLASSES).per_class()
    assert rows[1] == {"class": "b", "recall": 2 / 3, "precision": 1.0, "iou": 2 / 3, "elements": 3}
    assert np.isnan([rows[2][key] for key in ("recall", "precision", "iou")]).all()
    content = scores_of(tally(), element="face", classes=CLASSES).to_dict()
    assert content["per_class"][2]["recall"] is None


def test_whole_meshes_have_no_weighting() -> None:
    counted = Tally(2)
    for i, (predicted, true) in enumerate([(0, 0), (1, 0), (1, 1)]):
        counted.add(f"m{i}", predicted=np.array([predicted]), true=np.array([true]))
    scores = scores_of(counted, element="mesh", classes=("a", "b"))
    assert set(scores.values) == {"mesh_accuracy", "mesh_accuracy_mean_over_classes", "mesh_mean_iou"}
    assert scores.main_name == "mesh_accuracy"


def test_calibration_by_hand() -> None:
    counted = Tally(2)
    confidence = np.array([0.9, 0.9, 0.9, 0.9, 0.6, 0.6, 0.99])
    true = np.array([0, 0, 0, 1, 0, 1, -1])
    counted.add("one", predicted=np.zeros(7, int), true=true, confidence=confidence)
    scores = scores_of(counted.merge([]), element="face", classes=("a", "b"))
    assert scores.values["face_calibration_error"] == pytest.approx((4 * 0.15 + 2 * 0.1) / 6)
    assert [row["accuracy"] for row in scores.calibration()] == [0.5, 0.75]
    assert "face_calibration_error" not in scores_of(tally(), element="face", classes=CLASSES).values


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_the_temperature_of_answers_is_found(temperature: float) -> None:
    """Labels drawn from the probabilities at a temperature: at that one they are most likely."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), 20_000)
    sharper = tempered(probabilities, temperature)
    labels = (sharper.cumsum(axis=1) < rng.random((len(sharper), 1))).sum(axis=1)
    mesh = Mesh(np.eye(3), np.array([[0, 1, 2]]))
    parts = np.array_split(np.arange(len(labels)), 5)

    def at(part: np.ndarray, _: float) -> np.ndarray:
        return probabilities[part]

    answers = [
        Answer(mesh, labels[part], probabilities[part], None, mesh, np.zeros(16), partial(at, part)) for part in parts
    ]
    found = calibrated(tiny_checkpoint("classification"), answers)
    assert found.temperature == pytest.approx(temperature, rel=0.05)


def test_parts_of_several_processes_merge_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    whole, parts = Tally(3), [Tally(3), Tally(3)]
    for i in range(7):
        values = {"predicted": rng.integers(0, 3, 20), "true": rng.integers(-1, 3, 20), "areas": rng.random(20)}
        whole.add(f"m{i}", **values)
        parts[i % 2].add(f"m{i}", **values)
    expected = scores_of(whole, element="face", classes=CLASSES)
    merged = scores_of(parts[0].merge(parts[1:]), element="face", classes=CLASSES)
    assert merged.values == pytest.approx(expected.values)
    assert merged.interval == expected.interval


@pytest.mark.parametrize(("n", "n_wrong"), [(1, 3), (4, 3), (6, 0)])
def test_too_few_meshes_and_no_mistakes_give_no_interval(n: int, n_wrong: int) -> None:
    counted = Tally(2)
    for i in range(n):
        counted.add(f"m{i}", predicted=(np.arange(9 + i) >= n_wrong).astype(int), true=np.ones(9 + i, int))
    scores = scores_of(counted, element="face", classes=("a", "b"))
    assert scores.interval is None
    assert "face_accuracy_interval_95" not in scores.to_dict()


def test_the_score_without_copies_is_beside_the_score() -> None:
    counted = Tally(2)
    for name, n_right in (("a", 10), ("b", 6), ("c", 5)):
        counted.add(name, predicted=(np.arange(10) < n_right).astype(int), true=np.ones(10, int))
    scores = scores_of(counted, element="face", classes=("x", "y"))
    found = scores.without_copies(["a"])
    assert list(found.values)[:2] == ["face_accuracy", "face_accuracy_without_copies"]
    assert found.values["face_accuracy_without_copies"] == pytest.approx(11 / 20)
    assert found.main == scores.main == pytest.approx(21 / 30)
    assert scores.without_copies(["other"]) is scores and scores.without_copies("abc") is scores  # nothing is left


def test_the_interval_holds_the_value_and_narrows_with_meshes() -> None:
    def interval(n: int) -> tuple[float, float]:
        rng = np.random.default_rng(1)
        counted = Tally(2)
        for i in range(n):
            counted.add(
                f"m{i:03d}", predicted=(rng.random(50) < rng.uniform(0.6, 1)).astype(int), true=np.ones(50, int)
            )
        scores = scores_of(counted, element="face", classes=("a", "b"))
        assert scores.interval is not None
        assert scores.interval[0] < scores.main < scores.interval[1]
        return scores.interval

    few, many = interval(8), interval(128)
    assert many[1] - many[0] < 0.5 * (few[1] - few[0])


def test_regression_scores() -> None:
    true = np.array([[0.0], [2.0], [4.0]])
    scores = regression_scores(predicted=np.array([[1.0], [1.0], [4.0]]), true=true, element="mesh")
    assert scores.values["mesh_mean_absolute_error"] == pytest.approx(2 / 3)
    assert scores.values["mesh_root_mean_squared_error"] == pytest.approx((2 / 3) ** 0.5)
    assert scores.main == pytest.approx(1 - 2 / 8)
