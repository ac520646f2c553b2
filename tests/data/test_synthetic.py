from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.figures import PARTS, isosurface
from hodgeformer.data.synthetic import GLYPHS, engraved_cube, synthetic_cubes, synthetic_figures
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.topology import MeshComplex


def is_sphere(mesh: Mesh) -> bool:
    """Closed, consistently wound, one piece, no handles, normals outward."""
    topology = MeshComplex.from_faces(mesh.faces, mesh.n_vertices)
    counts = np.bincount(topology.face_edges.ravel(), minlength=topology.n.e)
    signs = np.bincount(topology.face_edges.ravel(), topology.face_signs.ravel(), minlength=topology.n.e)
    corners = mesh.vertices[mesh.faces]
    volume = np.linalg.det(corners).sum() / 6
    euler = topology.n.v - topology.n.e + topology.n.f
    return bool((counts == 2).all() and (signs == 0).all() and volume > 0 and euler == 2)


def n_pieces(mesh: Mesh, chosen: np.ndarray) -> int:
    """Pieces of a set of faces that are joined by edges."""
    topology = MeshComplex.from_faces(mesh.faces[chosen], mesh.n_vertices)
    rows = np.repeat(np.arange(topology.n.f), 3)
    incidence = coo_array((np.ones(len(rows)), (rows, topology.face_edges.ravel()))).tocsr()
    return int(connected_components(incidence @ incidence.T, directed=False)[0])


def test_isosurface_of_a_ball() -> None:
    grid = np.stack(np.meshgrid(*[np.linspace(-1.2, 1.2, 25)] * 3, indexing="ij"), axis=-1)
    field = np.linalg.norm(grid, axis=-1) - 1
    vertices, faces = isosurface(field, origin=np.full(3, -1.2), spacing=0.1)
    mesh = Mesh(vertices, faces)
    assert is_sphere(mesh)
    assert np.allclose(np.linalg.norm(vertices, axis=1), 1, atol=5e-3)
    assert np.linalg.det(vertices[faces]).sum() / 6 == pytest.approx(4 / 3 * np.pi, rel=0.01)


def test_figures_are_closed_bodies_with_all_parts(figures: DataSet) -> None:
    for sample in figures.samples:
        mesh, labels = figures.load(sample)
        assert is_sphere(mesh), mesh.name
        assert 380 <= mesh.n_faces <= 450
        assert set(labels.tolist()) == set(range(len(PARTS)))


def test_parts_are_connected_one_or_two_pieces() -> None:
    dataset = synthetic_figures(n_train=4, n_test=0, n_faces=1200, seed=2)
    for sample in dataset.samples:
        mesh, labels = dataset.load(sample)
        pieces = {part: n_pieces(mesh, labels == i) for i, part in enumerate(PARTS)}
        # Thighs may touch each other, nothing else on the left meets its like on the right.
        assert pieces.pop("upper_leg") in (1, 2)
        assert pieces == {part: 1 if part in ("head", "torso") else 2 for part in PARTS if part != "upper_leg"}


def test_the_head_is_above_the_feet(figures: DataSet) -> None:
    for sample in figures.samples:
        mesh, labels = figures.load(sample)
        heights = mesh.vertices[mesh.faces].mean(axis=1)[:, 1]
        head, torso, leg = (heights[labels == PARTS.index(part)].mean() for part in ("head", "torso", "lower_leg"))
        assert head > torso > leg


@pytest.mark.parametrize("glyph", GLYPHS)
def test_cubes_are_closed_and_engraved_on_one_side(glyph: str) -> None:
    assert is_sphere(engraved_cube(np.random.default_rng(5), glyph, n_faces=300))
    plain = engraved_cube(np.random.default_rng(5), glyph, n_faces=10**6)
    # The unit cube bulges by less than a tenth; an engraving goes at least 0.16 deep.
    assert np.abs(plain.vertices).max(axis=1).min() < 0.9


def test_glyphs_differ_from_each_other() -> None:
    u, v = np.meshgrid(np.linspace(-1, 1, 40), np.linspace(-1, 1, 40))
    masks = {name: glyph(u, v) < 0 for name, glyph in GLYPHS.items()}
    for name, mask in masks.items():
        assert 0.08 < mask.mean() < 0.75
        for other, other_mask in masks.items():
            assert name == other or (mask ^ other_mask).mean() > 0.04, (name, other)


def test_the_same_seed_gives_the_same_data_and_another_does_not() -> None:
    first, second, third = (
        synthetic_cubes(n_classes=2, n_train=1, n_test=1, n_faces=100, seed=seed) for seed in (3, 3, 4)
    )
    for a, b, c in zip(first.samples, second.samples, third.samples, strict=True):
        assert np.array_equal(first.load(a)[0].vertices, second.load(b)[0].vertices)
        assert not np.array_equal(first.load(a)[0].vertices, third.load(c)[0].vertices)


def test_more_meshes_keep_the_ones_before() -> None:
    few, many = (synthetic_figures(n_train=n, n_test=0, n_faces=150) for n in (1, 2))
    assert np.array_equal(few.load(few.samples[0])[0].vertices, many.load(many.samples[0])[0].vertices)


def test_sizes_that_make_no_sense() -> None:
    with pytest.raises(DataError, match="2 to 6 classes"):
        synthetic_cubes(n_classes=7)
    with pytest.raises(DataError, match="at least one training mesh"):
        synthetic_figures(n_train=0)
    with pytest.raises(DataError, match="n_faces"):
        synthetic_figures(n_train=1, n_faces=(500, 400))
