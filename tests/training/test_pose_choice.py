"""The pose that suits the data: looked for in the meshes, decided by short trials, and what it means for answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import WholeMesh
from hodgeformer.mesh.pose import rotation_about, upright
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.listener import Listener
from hodgeformer.training.pose_choice import in_pose, possible_poses
from hodgeformer.training.run import run, train
from meshes import icosphere
from tiny_sets import TINY, bodies, parts, shapes

OPEN = [setting for setting in TINY if not setting.startswith(("prepare.pose", "augment"))]


class Notes(Listener):
    def __init__(self) -> None:
        self.plan: list[str] = []

    def planned(self, reason: str) -> None:
        self.plan.append(reason)


@pytest.fixture(scope="module")
def eggs_that_stand(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Both ends of an egg look alike; only the pose of the file tells the top from the bottom."""
    out, notes = tmp_path_factory.mktemp("runs") / "eggs", Notes()
    train(parts(n_train=16), out, callbacks=[notes], overrides=[*OPEN, "train.epochs=20"])
    return out, notes.plan


def test_shapes_that_stand_in_all_files_stay_upright(eggs_that_stand: tuple[Path, list[str]]) -> None:
    out, plan = eggs_that_stand
    assert Predictor.load(out).info.prepare.pose == "upright_z"
    assert any("principal axes" in line and "upright" in line for line in plan)
    assert not any("choose the pose first" in line for line in plan)
    assert any("answers depend on which way is up" in line for line in plan)


def test_the_plan_says_that_trials_may_come(tmp_path: Path) -> None:
    setup = run(parts(), tmp_path / "run", lambda setup: setup, settings=["train.epochs=20"], trial=True)
    assert any("choose the pose first" in line for line in setup.reasons())


def test_a_turn_about_up_changes_nothing_and_a_file_that_lies_can_say_so(
    eggs_that_stand: tuple[Path, list[str]],
) -> None:
    predictor = Predictor.load(eggs_that_stand[0])
    mesh = parts().split("test")[0].mesh
    labels = predictor.predict(mesh).labels
    turned = mesh.with_vertices(mesh.vertices @ rotation_about(np.array([0.0, 0.0, 1.0]), 1.0).T)
    assert (predictor.predict(turned).labels == labels).all()
    for name, up in (("x", (1, 0, 0)), ("-y", (0, -1, 0)), ("-z", (0, 0, -1))):
        lying = mesh.with_vertices(mesh.vertices @ upright(np.array([0.0, 0.0, 1.0]), np.array(up, float)).T)
        assert (predictor.predict(lying, up=name).labels == labels).all()
    assert (predictor.predict(lying).labels != labels).mean() > 0.3  # upside down, unless told


def test_bodies_in_any_pose_keep_their_principal_axes() -> None:
    assert possible_poses(take_census(bodies())) == ("frame_average",)


def test_no_mirror_image_faces_another_way_than_the_files(tmp_path: Path) -> None:
    setup = run(shapes(), tmp_path / "run", lambda setup: setup, trial=True)
    assert [in_pose(setup, pose).config.augment.mirror for pose in ("frame_average", "upright_y", "file")] == [
        0.5,
        0.5,
        0,
    ]


def test_balls_have_no_principal_axes() -> None:
    rng = np.random.default_rng(0)
    samples = []
    for i in range(6):
        ball = icosphere(2, name=f"ball{i}")
        radius = np.linalg.norm(ball.vertices, axis=1, keepdims=True)
        bumps = 1 + 0.02 * rng.standard_normal((ball.n_vertices, 1))
        samples.append(Sample(ball.name, ball.with_vertices(ball.vertices / radius * bumps), WholeMesh(i % 2)))
    census = take_census(DataSet("balls", "classification", "mesh", {"train": tuple(samples)}, ("a", "b")))
    assert possible_poses(census) == ("frame_average", "file")


def test_a_pose_that_is_given_is_not_tried(tmp_path: Path) -> None:
    notes = Notes()
    settings = [*OPEN, "train.epochs=10", "prepare.pose=frame_average"]
    train(parts(), tmp_path / "run", callbacks=[notes], overrides=settings)
    assert Predictor.load(tmp_path / "run").info.prepare.pose == "frame_average"
    assert not any("trials" in line for line in notes.plan)
