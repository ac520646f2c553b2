"""Labels and values are converted between vertices, edges and faces by votes and means, whatever the numbering."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hodgeformer.base.containers import KINDS
from hodgeformer.base.errors import DataError
from hodgeformer.mesh.elements import (
    convert_labels,
    convert_values,
    element_areas,
    majority,
    mirrored_edge_order,
    smoothed,
)
from hodgeformer.mesh.mesh import Mesh
from meshes import all_kinds, icosphere, open_grid, two_components


def test_votes_ties_and_unlabeled() -> None:
    labels = np.array([2, 2, 1, 3, 1, -1, -1, -1, 0])
    receivers = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3])
    assert majority(labels, receivers, 5).tolist() == [2, 1, -1, 0, -1]
    assert majority(np.array([-1]), np.array([0]), 1).tolist() == [-1]


def test_edges_are_counted_by_first_appearance(strip: Mesh) -> None:
    # The walk over (0,2,1), (1,2,3), (2,4,3), (3,4,5) meets its sides in this order.
    expected = [[0, 2], [1, 2], [0, 1], [2, 3], [1, 3], [2, 4], [3, 4], [4, 5], [3, 5]]
    assert strip.topology.edges.tolist() == expected


def test_from_edges_to_faces_and_vertices(strip: Mesh) -> None:
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])
    assert convert_labels(labels, strip, source="e", to="f").tolist() == [0, 1, 2, 3]
    # Vertex 0 has edges 0 and 2, a tie of labels 0 and 1.
    assert convert_labels(labels, strip, source="e", to="v").tolist()[:2] == [0, 1]


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("to", KINDS)
def test_a_constant_survives_every_conversion(octahedron: Mesh, source: str, to: str) -> None:
    n = octahedron.n
    converted = convert_labels(np.full(n[source], 3), octahedron, source=source, to=to)
    assert converted.tolist() == [3] * n[to]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=8, max_size=8), st.integers(0, 1000))
def test_converting_does_not_depend_on_numbering(labels: list[int], seed: int) -> None:
    vertices = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    faces = np.array([[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]])
    order = np.random.default_rng(seed).permutation(8)
    given_labels = np.array(labels)
    here = convert_labels(given_labels, Mesh(vertices, faces), source="f", to="v")
    there = convert_labels(given_labels[order], Mesh(vertices, faces[order]), source="f", to="v")
    assert here.tolist() == there.tolist()


def test_a_part_survives_the_way_over_vertices(octahedron: Mesh) -> None:
    upper = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    # The rim is a tie and goes to label 0, so the lower half keeps only its tip, and its faces see 2 : 1 for 0.
    over_vertices = convert_labels(upper, octahedron, source="f", to="v")
    assert over_vertices.tolist() == [0, 0, 0, 0, 0, 1]


def test_a_wrong_count_names_both_numbers(strip: Mesh) -> None:
    with pytest.raises(DataError, match=r"strip.*4 face.*found 3"):
        convert_labels(np.zeros(3, dtype=np.int64), strip, source="f", to="v")


def test_faces_that_repeat_a_vertex_have_no_edges_of_their_own(strip: Mesh) -> None:
    faces = np.concatenate([strip.faces[:2], [[5, 5, 0]], strip.faces[2:]])
    dirty = Mesh(strip.vertices, faces, "dirty")
    assert dirty.n.e == 9
    converted = convert_labels(np.zeros(9, dtype=np.int64), dirty, source="e", to="f")
    assert converted.tolist() == [0, 0, -1, 0, 0]


def test_mirrored_edge_order_names_the_same_edges(octahedron: Mesh) -> None:
    turned = Mesh(octahedron.vertices, octahedron.faces[:, [0, 2, 1]], "turned")
    order = mirrored_edge_order(octahedron)
    assert octahedron.topology.edges[order].tolist() == turned.topology.edges.tolist()


def test_probabilities_are_carried_between_elements() -> None:
    mesh = two_components()
    n = mesh.n
    for source in "vef":
        for to in "vef":
            constant = convert_values(np.full((n[source], 2), 0.25), mesh, source=source, to=to)
            np.testing.assert_allclose(constant, np.full((n[to], 2), 0.25))
    linear = convert_values(mesh.vertices, mesh, source="v", to="f")
    np.testing.assert_allclose(linear, mesh.vertices[mesh.faces].mean(axis=1))


def noisy_halves() -> tuple[Mesh, np.ndarray, np.ndarray]:
    mesh = icosphere(4)
    truth = (mesh.vertices[mesh.faces].mean(axis=1)[:, 0] > 0).astype(int)
    noisy = np.where(np.random.default_rng(0).random(mesh.n_faces) < 0.15, 1 - truth, truth)
    return mesh, truth, np.eye(2)[noisy] * 0.8 + 0.1


def test_smoothing_removes_specks_and_keeps_parts() -> None:
    mesh, truth, probabilities = noisy_halves()
    wrong_before = (probabilities.argmax(axis=1) != truth).mean()
    smooth = smoothed(probabilities, mesh, kind="f", strength=0.8)
    np.testing.assert_allclose(smooth.sum(axis=1), 1)
    assert (smooth.argmax(axis=1) != truth).mean() < 0.15 * wrong_before


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_smoothing_keeps_what_is_smooth(mesh: Mesh) -> None:
    for kind in "vef":
        constant = np.tile([0.2, 0.8], (mesh.n[kind], 1))
        np.testing.assert_allclose(smoothed(constant, mesh, kind=kind, strength=0.9), constant)


def test_smoothing_stops_at_sharp_edges() -> None:
    grid = open_grid(1, 12)
    across, along = np.divmod(np.arange(grid.n_vertices), 13)
    flat = grid.with_vertices(np.stack([across, along, 0 * along], axis=1))
    bent = grid.with_vertices(np.stack([across, np.minimum(along, 6), np.maximum(along - 6, 0)], axis=1))
    sides = np.eye(2)[(along[grid.faces].mean(axis=1) > 6).astype(int)]
    leaked = [np.abs(smoothed(sides, mesh, kind="f", strength=0.9) - sides).max() for mesh in (flat, bent)]
    assert leaked[1] < 0.1 * leaked[0]


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_every_kind_of_element_shares_out_the_whole_area(mesh: Mesh) -> None:
    total = element_areas(mesh, "f").sum()
    for kind in KINDS:
        areas = element_areas(mesh, kind)
        assert len(areas) == mesh.n[kind]
        assert areas.sum() == pytest.approx(total)
