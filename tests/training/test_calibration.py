"""What a model says of its own answers: fitted to meshes that it has not seen, which rehearsals supply if need be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hodgeformer.data.dataset import DataSet
from hodgeformer.mesh.elements import smoothed
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.predict.inference import tempered
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.calibration import STRENGTHS, calibrated
from hodgeformer.training.evaluate import Answer, evaluate
from hodgeformer.training.listener import Listener
from hodgeformer.training.loop import Stopped
from hodgeformer.training.outcome import Outcome
from hodgeformer.training.run import train
from meshes import icosphere, open_grid
from tiny_models import tiny_checkpoint
from tiny_sets import TINY, parts


def answers(labels: IntArray, mesh: Mesh, noise: float, sharpness: float = 1.0) -> list[Answer]:
    """Answers that are often right, more or less sure."""
    rng = np.random.default_rng(0)
    scores = 0.6 * np.eye(3)[labels] + rng.normal(0, noise, (6, len(labels), 3))
    scores *= sharpness
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)

    def answer(output: FloatArray) -> Answer:
        def at(strength: float) -> FloatArray:
            return smoothed(output, mesh, kind="f", strength=strength) if strength else output

        return Answer(mesh, labels, output, None, mesh, np.zeros(16), at)

    return [answer(output) for output in probabilities]


def test_answers_are_smoothed_as_strongly_as_is_best() -> None:
    """Large parts gain from their neighbors; a part one face wide would be lost among them."""
    mesh = icosphere(3)
    large = np.digitize(face_centers(mesh.vertices, mesh.faces)[:, 2], [-0.4, 0.4])
    scattered = np.random.default_rng(1).integers(0, 3, mesh.n_faces)
    found = [calibrated(tiny_checkpoint(), answers(labels, mesh, 0.4)).smooth for labels in (large, scattered)]
    assert found == [STRENGTHS[-1], 0.0]


def test_the_temperature_is_that_of_smoothed_answers() -> None:
    """Labels are most likely at the temperature that was found, once the answers are smoothed."""
    mesh = icosphere(3)
    labels = np.digitize(face_centers(mesh.vertices, mesh.faces)[:, 2], [-0.4, 0.4])
    given = answers(labels, mesh, 1.6, sharpness=8.0)
    found = calibrated(tiny_checkpoint(), given)

    def surprise(temperature: float) -> float:
        outputs = [tempered(answer.smoothed(found.smooth), temperature) for answer in given]
        return float(np.mean([-np.log(output[np.arange(len(labels)), labels]).mean() for output in outputs]))

    assert found.smooth > 0
    assert surprise(found.temperature) < min(surprise(0.8 * found.temperature), surprise(1.25 * found.temperature))


class Watch(Listener):
    """Stops the training after some rehearsal."""

    def __init__(self, stop_at: float = 2.0) -> None:
        self.shares: list[float] = []
        self.warnings: list[str] = []
        self._stop_at = stop_at

    def beside(self, work: str, share: float) -> None:
        self.shares.append(share)
        if share >= self._stop_at:
            raise Stopped("stopped while calibrating")

    def warned(self, message: str) -> None:
        self.warnings.append(message)


def trained(data: DataSet | None, out: Path, watch: Watch, *more: str) -> Outcome:
    settings = [] if data is None else [*TINY, "train.epochs=12", *more]
    return train(data, out, callbacks=[watch], overrides=settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Watch]:
    """A finished run on six meshes, none of which is for validation."""
    out, watch = tmp_path_factory.mktemp("runs") / "whole", Watch()
    trained(parts(), out, watch)
    return out, watch


def test_a_model_of_six_meshes_knows_how_sure_it_is(run: tuple[Path, Watch]) -> None:
    out, watch = run
    model = load_checkpoint(out / "best.safetensors")
    assert model.temperature != 1
    assert model.familiarity is not None
    assert watch.shares == sorted(watch.shares) and watch.shares[-1] == 1
    assert not list(out.glob("rehearsal-*"))


def test_it_notices_a_mesh_of_another_kind(run: tuple[Path, Watch]) -> None:
    predictor = Predictor.load(run[0])
    usual = [predictor.predict(sample.mesh).familiarity for sample in parts().split("test")]
    strange = predictor.predict(open_grid(8, 10)).familiarity
    assert strange is not None
    assert strange < 0.5 < min(value for value in usual if value is not None)


def test_a_run_that_is_stopped_while_calibrating_continues_there(run: tuple[Path, Watch], tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    with pytest.raises(Stopped):
        trained(parts(), out, Watch(stop_at=0.5))
    assert list(out.glob("rehearsal-*"))
    trained(None, out, watch := Watch())
    assert not watch.warnings
    whole, stopped = (load_checkpoint(folder / "best.safetensors") for folder in (run[0], out))
    for name in ("temperature", "smooth", "familiarity", "heights"):
        assert getattr(whole, name) == getattr(stopped, name)
    assert all(torch.equal(weight, stopped.weights[name]) for name, weight in whole.weights.items())


def test_one_mesh_cannot_be_left_out(tmp_path: Path) -> None:
    trained(parts(n_train=1), tmp_path / "run", watch := Watch(), "train.batch_size=1")
    assert load_checkpoint(tmp_path / "run" / "best.safetensors").temperature == 1
    assert any("not calibrated" in warning for warning in watch.warnings)


def test_calibration_can_be_turned_off(tmp_path: Path) -> None:
    trained(parts(), tmp_path / "run", watch := Watch(), "train.calibrate=false")
    assert not watch.shares
    assert load_checkpoint(tmp_path / "run" / "best.safetensors").familiarity is None


def test_scores_are_those_of_what_is_predicted(run: tuple[Path, Watch]) -> None:
    """With the smoothing that belongs to the model, and without it if that is asked."""
    checkpoint = load_checkpoint(run[0] / "best.safetensors").replace(smooth=0.9)
    predictor, data = Predictor.load(checkpoint), parts()
    for smooth in (None, False):
        right = [
            (predictor.predict(mesh, smooth=smooth).labels == labels).mean()
            for mesh, labels in (data.load(sample) for sample in data.split("test"))
        ]
        score = evaluate(predictor, data, smooth=smooth).values["face_accuracy"]
        assert score == pytest.approx(np.mean(right))
    plain, smooth_too = predictor.predict(icosphere(1), smooth=False), predictor.predict(icosphere(1))
    assert not np.array_equal(plain.probabilities, smooth_too.probabilities)


def test_a_run_that_is_killed_while_it_removes_its_rehearsals_continues(tmp_path: Path) -> None:
    """One of them is half removed: its state says that it is finished, its weights are gone."""
    out = tmp_path / "run"
    with pytest.raises(Stopped):
        trained(parts(), out, Watch(stop_at=0.5))
    first = out / "rehearsal-1"
    (first / "last.safetensors").unlink()
    trained(None, out, Watch())
    assert load_checkpoint(out / "best.safetensors").familiarity is not None


def test_a_run_that_is_killed_in_a_trial_can_be_started_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "rehearsal-1").mkdir(parents=True)
    (out / "rehearsal-1" / "state.safetensors").write_bytes(b"of another run")
    trained(parts(), out, Watch())
    assert load_checkpoint(out / "best.safetensors").familiarity is not None
    assert not list(out.glob("rehearsal-*"))
