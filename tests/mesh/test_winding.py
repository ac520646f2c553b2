"""A reversed file gives the same surface."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from hodgeformer.mesh.geometry import face_vectors
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import outward
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.mesh.topology import edges_by_first_appearance
from meshes import icosphere, open_grid
from soups import renumbered, soups, usable

OUTWARD = PrepareConfig(winding="outward")


def turned(mesh: Mesh, which: np.ndarray) -> Mesh:
    return Mesh(mesh.vertices, np.where(which[:, None], mesh.faces[:, ::-1], mesh.faces), name=mesh.name)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_closed_surface_is_turned_outward(share):
    mesh = icosphere(2)
    which = np.random.default_rng(0).random(mesh.n_faces) < share
    faces = outward(mesh.vertices, turned(mesh, which).faces)
    normals = face_vectors(mesh.vertices, faces)
    assert (np.einsum("fi,fi->f", normals, mesh.vertices[faces].mean(axis=1)) > 0).all()


def test_two_pieces_are_turned_one_by_one_and_a_cut_one_too():
    mesh = icosphere(2)
    half = mesh.faces[mesh.vertices[mesh.faces].mean(axis=1)[:, 0] > -0.3]
    vertices = np.concatenate([mesh.vertices, mesh.vertices + 5])
    faces = np.concatenate([half, half[:, ::-1] + mesh.n_vertices])
    result = outward(vertices, faces)
    assert (result[: len(half)] == half).all()
    np.testing.assert_allclose(face_vectors(vertices, result[len(half) :]), face_vectors(vertices, half))


def test_what_has_no_inside_keeps_the_winding_of_most_of_it():
    x, y = np.meshgrid(np.arange(5.0), np.arange(5.0))
    flat = Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), open_grid(4, 4).faces)
    few = np.arange(flat.n_faces) % 4 == 0
    up = face_vectors(flat.vertices, flat.faces)
    np.testing.assert_allclose(face_vectors(flat.vertices, outward(flat.vertices, turned(flat, few).faces)), up)


def moebius() -> Mesh:
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    rows = [np.stack([(2 + s * np.cos(a / 2)) * np.array([np.cos(a), np.sin(a)])[i] for i in range(2)]
                     + [s * np.sin(a / 2)]) for a in angle for s in (-0.5, 0.5)]  # fmt: skip
    faces = []
    for i in range(12):
        a, b = 2 * i, 2 * i + 1
        c, d = (2 * i + 2, 2 * i + 3) if i < 11 else (1, 0)
        faces += [(a, c, b), (b, c, d)]
    return Mesh(np.array(rows), np.array(faces))


def test_what_cannot_be_oriented_is_left_alone():
    band = moebius()
    assert (outward(band.vertices, band.faces) == band.faces).all()


def test_a_reversed_file_is_prepared_to_the_same_bits():
    mesh = icosphere(2)
    one, other = prepare(mesh, OUTWARD), prepare(turned(mesh, np.ones(mesh.n_faces, dtype=bool)), OUTWARD)
    assert (one.topology.faces == other.topology.faces).all()
    assert all((a == b).all() for a, b in zip(one.x_in, other.x_in, strict=True))


@settings(max_examples=80, deadline=None)
@given(soups())
def test_any_soup_keeps_its_edges_and_faces(mesh):
    """Values return to the right elements of the file where faces were flipped."""
    prepared = prepare(mesh, OUTWARD)
    topology, order = prepared.topology, prepared.order
    assert (np.sort(order.v[topology.faces], axis=1) == np.sort(mesh.faces[order.f], axis=1)).all()
    faces = usable(mesh)
    ends = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    _, first, numbers = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    in_file = ends[np.sort(first)]  # edges by first appearance
    assert (np.sort(order.v[topology.edges], axis=1) == in_file[order.e]).all()
    assert len(edges_by_first_appearance(numbers.reshape(-1, 3), len(first))) == len(first)


@settings(max_examples=50, deadline=None)
@given(soups(coincident=False))
def test_renumbering_still_changes_nothing(mesh):
    other, _, _ = renumbered(mesh, seed=1)
    one, two = prepare(mesh, OUTWARD), prepare(other, OUTWARD)
    assert all((a == b).all() for a, b in zip(one.x_in, two.x_in, strict=True))
