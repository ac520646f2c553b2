"""Mutations: what they leave alone, what they change, and that the same seed makes the same mesh."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from hodgeformer.base.errors import MeshError
from hodgeformer.lab.study.mutations import (
    ORIGINAL,
    Mutation,
    cut_away,
    diagonal,
    face_removal,
    flipped_winding,
    further_mutations,
    gaussian_noise,
    limbs_cut_away,
    mixed_resolution,
    paper_mutations,
    patch_removal,
    remesh,
    renumbering,
    rotation,
    scale,
    subdivision,
)
from hodgeformer.mesh.check import check_mesh
from hodgeformer.mesh.geometry import face_centers, face_vectors, norms
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.subdivision import subdivided
from meshes import all_kinds, icosphere, open_grid, tetrahedron

ALL = [ORIGINAL, *paper_mutations(), *further_mutations()]
RNG = np.random.default_rng(0)


def area(mesh: Mesh) -> float:
    return float(norms(face_vectors(mesh.vertices, mesh.faces)).sum() / 2)


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_the_same_seed_makes_the_same_mesh(mutation: Mutation) -> None:
    mesh = icosphere(3)
    first, second = mutation(mesh, seed=3), mutation(mesh, seed=3)
    np.testing.assert_array_equal(first.mesh.vertices, second.mesh.vertices)
    np.testing.assert_array_equal(first.mesh.faces, second.mesh.faces)
    assert first.in_place.shape == first.mesh.vertices.shape
    assert first.origin is None or first.origin.shape == (first.mesh.n_faces,)


def test_other_seeds_and_other_meshes_are_changed_differently() -> None:
    noise = Mutation("noise", partial(gaussian_noise, level=0.01))
    meshes = [noise(icosphere(1), seed=0), noise(icosphere(1), seed=1), noise(icosphere(1, name="other"), seed=0)]
    for i, first in enumerate(meshes):
        for second in meshes[:i]:
            assert not np.array_equal(first.mesh.vertices, second.mesh.vertices)


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_odd_meshes_survive_every_mutation(mesh: Mesh) -> None:
    for mutation in ALL:
        mutated = mutation(mesh)
        assert mutated.mesh.n_faces >= 1
        assert np.isfinite(mutated.mesh.vertices).all()


def test_noise_is_as_strong_as_it_says() -> None:
    mesh = icosphere(4)
    moved = gaussian_noise(mesh, np.random.default_rng(0), 0.01).mesh.vertices - mesh.vertices
    assert moved.std() == pytest.approx(0.01 * diagonal(mesh), rel=0.03)


@pytest.mark.parametrize("share", [0.04, 0.20])
def test_faces_are_removed_by_their_probability(share: float) -> None:
    mesh = icosphere(4)
    mutated = face_removal(mesh, np.random.default_rng(0), share)
    assert mutated.mesh.n_faces == pytest.approx((1 - share) * mesh.n_faces, rel=0.02)
    corners = mesh.vertices[mesh.faces[mutated.origin]]
    np.testing.assert_array_equal(mutated.mesh.vertices[mutated.mesh.faces], corners)
    assert len(np.unique(mutated.mesh.faces)) == mutated.mesh.n_vertices


def test_patches_are_connected_and_of_8_to_15_faces() -> None:
    mesh = icosphere(4)
    rng = np.random.default_rng(1)
    mutated = patch_removal(mesh, rng, 0.0004)
    n_patches = int((np.random.default_rng(1).random(mesh.n_faces) < 0.0004).sum())
    removed = mesh.n_faces - mutated.mesh.n_faces
    assert n_patches > 0
    assert 8 <= removed <= 15 * n_patches
    seed = next(s for s in range(50) if (np.random.default_rng(s).random(mesh.n_faces) < 1 / mesh.n_faces).sum() == 1)
    hole = patch_removal(mesh, np.random.default_rng(seed), 1 / mesh.n_faces, (9, 9)).mesh
    assert mesh.n_faces - hole.n_faces == 9
    assert check_mesh(hole).n_components == 1


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_plane_leaves_one_side(share: float) -> None:
    mesh = icosphere(3)
    mutated = cut_away(mesh, np.random.default_rng(5), share)
    assert mutated.mesh.n_faces == pytest.approx((1 - share) * mesh.n_faces, rel=0.02)
    lost = np.setdiff1d(np.arange(mesh.n_faces), mutated.origin)
    centers = face_centers(mesh.vertices, mesh.faces)
    direction = centers[lost].mean(axis=0) - centers[mutated.origin].mean(axis=0)
    assert check_mesh(mutated.mesh).n_components == 1
    assert (centers[lost] @ direction).mean() > (centers[mutated.origin] @ direction).mean()


def test_every_limb_takes_more_away() -> None:
    mesh = icosphere(3)
    left = [limbs_cut_away(mesh, np.random.default_rng(0), n).mesh.n_faces for n in range(4)]
    assert left[0] == mesh.n_faces
    assert all(after < before for before, after in pairwise(left))


def test_motions_are_looked_up_where_they_started() -> None:
    mesh = icosphere(2)
    for change in (rotation, scale):
        mutated = change(mesh, np.random.default_rng(0))
        np.testing.assert_array_equal(mutated.in_place, mesh.vertices)
        assert not np.allclose(mutated.mesh.vertices, mesh.vertices)
    turned = rotation(mesh, np.random.default_rng(0)).mesh.vertices
    np.testing.assert_allclose(turned @ turned.T, mesh.vertices @ mesh.vertices.T, atol=1e-12)


def test_renumbering_keeps_the_triangles() -> None:
    mesh = open_grid()
    mutated = renumbering(mesh, np.random.default_rng(0))
    before = np.sort(mesh.vertices[mesh.faces[mutated.origin]], axis=1)
    np.testing.assert_array_equal(np.sort(mutated.mesh.vertices[mutated.mesh.faces], axis=1), before)
    np.testing.assert_allclose(  # turned corners are no flip
        face_vectors(mutated.mesh.vertices, mutated.mesh.faces),
        face_vectors(mesh.vertices, mesh.faces)[mutated.origin],
        atol=1e-12,
    )


def test_flipping_turns_normals() -> None:
    mesh = icosphere(2)
    before = face_vectors(mesh.vertices, mesh.faces)
    all_flipped = flipped_winding(mesh, np.random.default_rng(0)).mesh
    np.testing.assert_allclose(face_vectors(all_flipped.vertices, all_flipped.faces), -before, atol=1e-15)
    half = flipped_winding(mesh, np.random.default_rng(0), 0.5).mesh
    assert 0.4 < ((face_vectors(half.vertices, half.faces) * before).sum(axis=1) < 0).mean() < 0.6


@pytest.mark.parametrize("mesh", [tetrahedron(), icosphere(1), open_grid()], ids=lambda mesh: mesh.name)
def test_subdividing_a_part_leaves_no_crack_and_the_same_surface(mesh: Mesh) -> None:
    for share in (0.0, 0.2, 0.5, 1.0):
        chosen = np.random.default_rng(1).random(mesh.n_faces) < share
        traced = subdivided(mesh, chosen)
        assert area(traced.mesh) == pytest.approx(area(mesh))
        report, before = check_mesh(traced.mesh), check_mesh(mesh)
        assert report.euler_characteristic == before.euler_characteristic
        assert report.n_nonmanifold_edges == 0
        assert report.winding_consistent
        pieces = np.bincount(traced.origin, norms(face_vectors(traced.mesh.vertices, traced.mesh.faces)))
        np.testing.assert_allclose(pieces, norms(face_vectors(mesh.vertices, mesh.faces)))
    assert subdivision(mesh, RNG).mesh.n_faces == 4 * mesh.n_faces


@pytest.mark.parametrize("n_faces", [200, 500])
def test_remeshing_reaches_fewer_and_more_faces(n_faces: int) -> None:
    mesh = icosphere(2)  # 320 faces
    mutated = remesh(mesh, RNG, n_faces)
    assert mutated.mesh.n_faces == pytest.approx(n_faces, rel=0.02)
    assert mutated.origin is None
    assert area(mutated.mesh) == pytest.approx(area(mesh), rel=0.05)
    with pytest.raises(MeshError, match="at least 4"):
        remesh(mesh, RNG, 3)


def test_mixed_resolution_has_both() -> None:
    mesh = mixed_resolution(icosphere(3), np.random.default_rng(0)).mesh
    areas = norms(face_vectors(mesh.vertices, mesh.faces))
    assert np.quantile(areas, 0.9) > 3 * np.quantile(areas, 0.2)
    assert check_mesh(mesh).n_boundary_edges == 0
