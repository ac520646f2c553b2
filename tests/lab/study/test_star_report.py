"""The report on learned diagonal stars says what the stars are."""

from __future__ import annotations

import numpy as np
import pytest

from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.lab.study.star_report import StarReport, between_parts, explained, study_stars
from hodgeformer.mesh.elements import incidences
from hodgeformer.mesh.prepare import prepare
from hodgeformer.predict.operators import log_factors, sides_mean
from meshes import icosphere, open_grid
from tiny_models import tiny_checkpoint


def test_edges_between_parts_and_inside() -> None:
    mesh = open_grid()
    labels = np.arange(mesh.n_faces) % 3 - 1
    border, inside = between_parts(mesh, labels)
    faces, edges = incidences(mesh, "f", "e")
    for edge in range(len(border)):
        around = labels[faces[edges == edge]]
        known = len(around) == 2 and around.min() >= 0
        assert border[edge] == (known and around[0] != around[1])
        assert inside[edge] == (known and around[0] == around[1])
    assert border.any() and inside.any() and not (border | inside).all()


def test_what_parts_explain() -> None:
    parts = np.repeat([0, 1, 5, -1], 50)
    noise = np.random.default_rng(0).standard_normal(200)
    assert explained(3.0 * parts, parts) == pytest.approx(1)
    assert explained(noise, parts) < 0.1
    known = parts >= 0
    means = np.array([noise[parts == part].mean() for part in parts[known]])
    assert explained(noise, parts) == pytest.approx(means.var() / noise[known].var())
    assert np.isnan(explained(np.ones(200), parts))


def test_edges_are_shown_as_means_over_the_sides_of_faces() -> None:
    mesh = icosphere(1)
    middle = mesh.vertices[mesh.topology.edges].mean(axis=1)[:, 2]
    middle[3] = np.nan
    shown = sides_mean(middle, mesh)
    edges, faces = incidences(mesh, "e", "f")
    for face in range(mesh.n_faces):
        assert shown[face] == pytest.approx(np.nanmean(middle[edges[faces == face]]))
    assert np.isnan(sides_mean(np.full(len(middle), np.nan), mesh)).all()


def test_a_star_that_draws_borders_is_found_out() -> None:
    mesh = icosphere(2)
    labels = (mesh.vertices[mesh.faces].mean(axis=1)[:, 2] > 0.1).astype(np.int64)
    border, _ = between_parts(mesh, labels)
    star1 = np.repeat(np.where(border, -2.0, 0.5)[:, None], N_TIMES, axis=1)
    star0 = np.repeat(np.where(mesh.vertices[:, 2] > 0.1, 2.99, 0.0)[:, None], N_TIMES, axis=1)
    report = StarReport(
        mesh=mesh,
        bound=3.0,
        times=(2,),
        blocks={4: {"star1": star1, "star0": star0}},
        textbook={"star1": np.ones(len(star1)), "star0": np.ones(len(star0))},
        parts={"predicted": labels},
    )
    edges, vertices = report.rows()
    assert (edges["block"], edges["star"], vertices["star"]) == (4, "star1", "star0")
    assert (edges["predicted_border"], edges["predicted_inside"]) == (-2.0, 0.5)
    assert edges["predicted_explain_percent"] < 10 and vertices["predicted_explain_percent"] > 80
    assert (edges["q25"], edges["median"], edges["at_bound_percent"]) == (0.5, 0.5, 0)
    assert vertices["at_bound_percent"] == pytest.approx(100 * (mesh.vertices[:, 2] > 0.1).mean(), rel=1e-3)


def test_stars_are_those_of_the_mesh_as_the_model_sees_it() -> None:
    """A mesh four times as fine as the training meshes is simplified, with its parts."""
    checkpoint, fine = tiny_checkpoint(blocks="DD", star_std=0.5), icosphere(3)
    truth = (fine.vertices[fine.faces].mean(axis=1)[:, 2] > 0).astype(np.int64)
    report = study_stars(checkpoint, fine, layer=2, truth=truth)
    assert report.mesh.n_faces <= 400
    assert list(report.blocks) == [2]
    assert all(len(labels) == report.mesh.n_faces for labels in report.parts.values())
    upper = report.mesh.vertices[report.mesh.faces].mean(axis=1)[:, 2] > 0
    assert (report.parts["true"] == upper).mean() > 0.9
    assert {len(row) for row in report.rows() if row["star"] == "star1"} == {15}
    coarse = icosphere(2)
    found = study_stars(checkpoint, coarse).blocks[1]["star0"]
    np.testing.assert_array_equal(
        found, log_factors(checkpoint.build_model(), prepare(coarse, checkpoint.at()))[1]["star0"]
    )
    with pytest.raises(ConfigError, match="times 1 to 8, got 9"):
        study_stars(checkpoint, coarse, time=9)
