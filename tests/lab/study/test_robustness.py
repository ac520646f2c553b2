"""The robustness table: labels by nearest element, rows that repeat, no drop where nothing changes for the model."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values, WholeMesh
from hodgeformer.lab.study.mutations import (
    Mutation,
    face_removal,
    gaussian_noise,
    renumbering,
    rotation,
    scale,
    subdivision,
)
from hodgeformer.lab.study.robustness import mutated_sample, nearest_labels, robustness
from hodgeformer.mesh.elements import convert_labels, element_centers
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from meshes import icosphere


def octants(mesh: Mesh) -> IntArray:
    at = face_centers(mesh.vertices, mesh.faces)
    return (at > 0.01) @ np.array([1, 2, 4])


@pytest.fixture(scope="module")
def spheres() -> DataSet:
    samples = [Sample(mesh.name, mesh, Values(octants(mesh))) for mesh in (icosphere(2, "a"), icosphere(2, "b"))]
    return DataSet("spheres", "segmentation", "face", {"test": tuple(samples)}, tuple("abcdefgh"))


@pytest.fixture(scope="module")
def model() -> HodgeFormer:
    torch.manual_seed(0)
    config = ModelConfig(task="segmentation", n_classes=8, blocks="H", d_model=8, d_hidden=8, n_heads=2)
    return HodgeFormer(config).eval()


def test_a_change_of_the_file_alone_drops_nothing(model: HodgeFormer, spheres: DataSet) -> None:
    same = [Mutation("renumbered", renumbering), Mutation("scaled", partial(scale, low=0.5, high=2.0))]
    original, renumbered, scaled = robustness(model, spheres, spheres.split("test"), PrepareConfig(), same)
    assert renumbered.row(original)["drop"] == 0
    assert scaled.row(original)["drop"] == pytest.approx(0, abs=0.2)
    # A ball has no axes of its own.
    ball = icosphere(2, "bent")
    bent = ball.with_vertices(ball.vertices * [1.0, 0.7, 0.4] + 0.3 * np.roll(ball.vertices, 1, axis=1) ** 2)
    one = DataSet(
        "bent", "segmentation", "face", {"test": (Sample("bent", bent, Values(octants(bent))),)}, tuple("abcdefgh")
    )
    turned = list(robustness(model, one, one.split("test"), PrepareConfig(pose="frame"), [Mutation("r", rotation)]))
    assert turned[1].row(turned[0])["drop"] == pytest.approx(0, abs=0.2)


def test_rows_repeat_and_have_the_papers_figures(model: HodgeFormer, spheres: DataSet) -> None:
    noise = Mutation("noise", partial(gaussian_noise, level=0.02), 81.1)
    tables = []
    for _ in range(2):
        original, noisy = robustness(model, spheres, spheres.split("test"), PrepareConfig(), [noise], seed=4)
        tables.append(noisy.row(original))
    assert tables[0] == tables[1]
    assert tables[0]["paper_accuracy"] == 81.1
    assert tables[0]["paper_drop"] == 9.2
    assert tables[0]["accuracy_own_labels"] is not None
    assert noisy.example.mesh.name == "a"


def test_the_same_two_meshes_are_shown_in_every_row(model: HodgeFormer, spheres: DataSet) -> None:
    first = spheres.split("test")[0]
    dented = icosphere(2, "b").with_vertices(icosphere(2).vertices * [1.0, 0.5, 2.0])
    changed = spheres.with_splits({"test": [first, Sample("b", dented, Values(np.full(320, 3)))]})
    gone = Mutation("faces removed", partial(face_removal, share=0.2))
    rows = list(robustness(model, changed, changed.split("test"), PrepareConfig(), [gone]))
    assert rows[0].well.accuracy() > rows[0].badly.accuracy()
    assert {rows[0].well.mesh.name, rows[0].badly.mesh.name} == {"a", "b"}
    assert rows[1].well.mesh.name == rows[0].well.mesh.name
    assert rows[1].badly.mesh.name == rows[0].badly.mesh.name


def test_smoothed_answers_are_scored_where_the_model_smooths(model: HodgeFormer, spheres: DataSet) -> None:
    plain, smooth = (
        next(robustness(model, spheres, spheres.split("test"), PrepareConfig(), [], smooth=strength))
        for strength in (0.0, 2.0)
    )
    assert (plain.example.predicted != smooth.example.predicted).any()


@pytest.mark.parametrize("change", [partial(face_removal, share=0.3), subdivision, rotation])
def test_nearest_labels_are_those_of_the_faces_themselves(spheres: DataSet, change: object) -> None:
    sample = spheres.split("test")[0]
    mutated, own = mutated_sample(spheres, sample, Mutation("m", change), seed=0)  # type: ignore[arg-type]
    assert isinstance(mutated.mesh, Mesh)
    labels = mutated.target.read(mutated.mesh)
    assert own is not None
    # Pieces at a border may lie nearer to the next face; all others are certain.
    assert (labels == own).mean() > 0.95
    assert len(labels) == mutated.mesh.n_faces


@pytest.mark.parametrize("kind", ["v", "e"])
def test_labels_of_vertices_and_edges(kind: str) -> None:
    mesh = icosphere(1)
    labels = convert_labels(octants(mesh), mesh, source="f", to=kind)  # type: ignore[arg-type]
    renumbered = renumbering(mesh, np.random.default_rng(0)).mesh
    carried = nearest_labels(mesh, labels, renumbered, kind)  # type: ignore[arg-type]
    at, before = element_centers(renumbered, kind), element_centers(mesh, kind)  # type: ignore[arg-type]
    for position, label in zip(at, carried, strict=True):
        assert labels[np.linalg.norm(before - position, axis=1).argmin()] == label
    assert (np.sort(carried) == np.sort(labels)).all()


def test_whole_meshes_keep_their_class() -> None:
    samples = tuple(Sample(f"m{i}", icosphere(1, f"m{i}"), WholeMesh(i)) for i in range(2))
    dataset = DataSet("two", "classification", "mesh", {"test": samples}, ("a", "b"))
    torch.manual_seed(0)
    config = ModelConfig(task="classification", n_classes=2, blocks="T", d_model=8, d_hidden=8, n_heads=2)
    noise = Mutation("noise", partial(gaussian_noise, level=0.01))
    rows = list(robustness(HodgeFormer(config).eval(), dataset, samples, PrepareConfig(), [noise]))
    assert rows[1].scores.element == "mesh"
    assert rows[1].own_accuracy is None


def test_regressions_have_no_right_answers(model: HodgeFormer) -> None:
    samples = (Sample("m", icosphere(1, "m"), WholeMesh((1.0,))),)
    dataset = DataSet("size", "regression", "mesh", {"test": samples})
    with pytest.raises(DataError, match="regression"):
        next(robustness(model, dataset, samples, PrepareConfig(), []))
