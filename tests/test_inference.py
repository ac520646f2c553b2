"""One way through a model: what evaluation scores is what prediction answers, however views share passes."""

from __future__ import annotations

import numpy as np
import pytest

from hodgeformer.checkpoint import Checkpoint
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_turns
from hodgeformer.predict.inference import answers, see
from hodgeformer.predict.predictor import Predictor
from hodgeformer.train.evaluate import Evaluator
from meshes import icosphere, open_grid
from tiny_models import PARTS, tiny_checkpoint

ABOUT_Z = {"augment": {"rotation": "axis", "axis": "z"}}


def meshes() -> list[Mesh]:
    return [icosphere(2, "ball"), open_grid(7, 9), icosphere(1, "small")]


def dataset() -> DataSet:
    samples = [Sample(mesh.name, mesh, Values(np.arange(mesh.n_faces) % len(PARTS))) for mesh in meshes()]
    return DataSet("meshes", "segmentation", "face", {"test": tuple(samples)}, PARTS)


@pytest.mark.parametrize("training", [{}, ABOUT_Z])
def test_evaluation_scores_what_prediction_answers(training: dict[str, object]) -> None:
    predictor = Predictor(tiny_checkpoint(pose="frame_average", training=training))
    checkpoint, data = predictor.checkpoint, dataset()
    turns = random_turns(2, checkpoint.turn_axis)
    evaluator = Evaluator(data, data.split("test"), checkpoint.prepare, turns=turns)
    predicted = list(predictor.predict_many(meshes(), tta=3))
    for _ in range(2):  # the second time from memory
        scored = list(evaluator.answers(predictor.model))
        assert [answer.mesh.name for answer in scored] == [mesh.name for mesh in meshes()]
        for answer, result in zip(scored, predicted, strict=True):
            np.testing.assert_allclose(answer.output, result.probabilities, atol=2e-5)


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
    model = checkpoint.build_model()
    turns = random_turns(2, None)
    seen = [(mesh.name, see(mesh, checkpoint.prepare, turns=turns)) for mesh in meshes()]
    found = list(answers(model, seen, batch_faces=batch_faces))
    assert [answer.owner for answer in found] == [name for name, _ in seen]
    for (_, one), answer in zip(seen, found, strict=True):
        assert answer.seen is one
        alone = next(answers(model, [(None, one)], batch_faces=10**6))
        np.testing.assert_allclose(answer.output, alone.output, atol=2e-5)
        np.testing.assert_allclose(answer.features, alone.features, atol=2e-5)
        np.testing.assert_allclose(answer.output.sum(axis=1), 1, atol=1e-5)
