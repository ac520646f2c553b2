from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hodgeformer.containers import KINDS
from hodgeformer.data.convert import convert_labels, element_counts, file_edges, majority, mirrored_edge_order
from hodgeformer.errors import DataError
from hodgeformer.mesh.mesh import Mesh


def test_votes_ties_and_unlabelled() -> None:
    labels = np.array([2, 2, 1, 3, 1, -1, -1, -1, 0])
    receivers = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3])
    assert majority(labels, receivers, 5).tolist() == [2, 1, -1, 0, -1]
    assert majority(np.array([-1]), np.array([0]), 1).tolist() == [-1]


def test_edges_are_counted_by_first_appearance(strip: Mesh) -> None:
    # The walk over (0,2,1), (1,2,3), (2,4,3), (3,4,5) meets its sides in this order.
    expected = [[0, 2], [1, 2], [0, 1], [2, 3], [1, 3], [2, 4], [3, 4], [4, 5], [3, 5]]
    assert file_edges(strip).tolist() == expected


def test_from_edges_to_faces_and_vertices(strip: Mesh) -> None:
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])
    assert convert_labels(labels, strip, source="e", to="f").tolist() == [0, 1, 2, 3]
    # Vertex 0 has edges 0 and 2, a tie of labels 0 and 1.
    assert convert_labels(labels, strip, source="e", to="v").tolist()[:2] == [0, 1]


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("to", KINDS)
def test_a_constant_survives_every_conversion(octahedron: Mesh, source: str, to: str) -> None:
    n = element_counts(octahedron)
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
    assert element_counts(dirty).e == 9
    converted = convert_labels(np.zeros(9, dtype=np.int64), dirty, source="e", to="f")
    assert converted.tolist() == [0, 0, -1, 0, 0]


def test_mirrored_edge_order_names_the_same_edges(octahedron: Mesh) -> None:
    turned = Mesh(octahedron.vertices, octahedron.faces[:, [0, 2, 1]], "turned")
    order = mirrored_edge_order(octahedron)
    assert file_edges(octahedron)[order].tolist() == file_edges(turned).tolist()
