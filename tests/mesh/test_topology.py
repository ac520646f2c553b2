"""The complex: identities that hold for any soup."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import meshes
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.topology import MeshComplex, edges_by_first_appearance, incidence_lists
from soups import soups, usable


def complex_of(mesh: Mesh) -> MeshComplex:
    return MeshComplex.from_faces(usable(mesh), mesh.n_vertices)


@given(soups())
def test_d1_d0_is_zero(mesh: Mesh) -> None:
    topology = complex_of(mesh)
    assert abs(topology.d1_matrix() @ topology.d0_matrix()).sum() == 0


@given(soups())
def test_signs_and_sides(mesh: Mesh) -> None:
    topology = complex_of(mesh)
    assert (topology.edges[:, 0] < topology.edges[:, 1]).all()
    assert len(np.unique(topology.edges, axis=0)) == topology.n.e
    for side in range(3):
        walked = topology.faces[:, [side, (side + 1) % 3]]
        edge = topology.edges[topology.face_edges[:, side]]
        forward = topology.face_signs[:, side] > 0
        np.testing.assert_array_equal(np.where(forward[:, None], walked, walked[:, ::-1]), edge)


@given(soups())
def test_d0_subtracts_the_tail_from_the_head(mesh: Mesh) -> None:
    topology = complex_of(mesh)
    values = np.arange(topology.n.v) ** 2
    expected = values[topology.edges[:, 1]] - values[topology.edges[:, 0]]
    np.testing.assert_array_equal(topology.d0_matrix() @ values, expected)


@pytest.mark.parametrize(
    ("mesh", "euler"),
    [
        (meshes.tetrahedron(), 2),
        (meshes.icosphere(2), 2),
        (meshes.open_grid(), 1),
        (meshes.moebius_strip(), 0),
        (meshes.single_triangle(), 1),
        (meshes.two_components(), 5),  # two spheres and a point
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_euler_characteristic(mesh: Mesh, euler: int) -> None:
    n = complex_of(mesh).n
    assert n.v - n.e + n.f == euler


def test_a_closed_oriented_surface_has_no_boundary() -> None:
    topology = complex_of(meshes.icosphere(1))
    np.testing.assert_array_equal(topology.d1_matrix().T @ np.ones(topology.n.f), 0)


def test_first_appearance_order() -> None:
    topology = MeshComplex.from_faces(np.array([[2, 0, 3], [0, 1, 2]]), 4)
    walk = topology.edges[edges_by_first_appearance(topology.face_edges, topology.n.e)]
    np.testing.assert_array_equal(walk, [[0, 2], [0, 3], [2, 3], [0, 1], [1, 2]])


@given(soups())
def test_incidence_lists_are_the_transpose(mesh: Mesh) -> None:
    topology = complex_of(mesh)
    offsets, rows = incidence_lists(topology.face_edges, topology.n.e)
    for edge in range(topology.n.e):
        expected = np.flatnonzero((topology.face_edges == edge).any(axis=1))
        np.testing.assert_array_equal(rows[offsets[edge] : offsets[edge + 1]], expected)


def test_a_face_that_repeats_a_vertex_has_no_place() -> None:
    with pytest.raises(MeshError, match="face 1 repeats a vertex"):
        MeshComplex.from_faces(np.array([[0, 1, 2], [2, 2, 1]]), 3)
