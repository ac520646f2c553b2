from __future__ import annotations

import numpy as np
import pytest

from hodgeformer.base.containers import ElementKind
from hodgeformer.data.augment import (
    AugmentConfig,
    add_noise,
    augmented,
    bend,
    deformed,
    grow,
    slide_along_edges,
    swell,
)
from hodgeformer.mesh.elements import convert_labels, element_centers
from hodgeformer.mesh.geometry import face_centers, face_vectors
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_rotation, rotation_about
from meshes import all_kinds, icosphere

NONE = {"rotation": "none", "slide": 0.0}


def changed(mesh: Mesh, seed: int = 0, **settings: object) -> Mesh:
    labels = np.zeros(mesh.n_faces, dtype=np.int64)
    config = AugmentConfig(**{**NONE, **settings})
    rng = np.random.default_rng(seed)
    mesh, labels = deformed(mesh, labels, config, rng, kind="f")
    return augmented(mesh, labels, config, rng, kind="f")[0]


def volume(mesh: Mesh) -> float:
    return float(np.linalg.det(mesh.vertices[mesh.faces]).sum() / 6)


def distances(mesh: Mesh) -> np.ndarray:
    return np.linalg.norm(mesh.vertices[:, None] - mesh.vertices[None], axis=-1)


def test_nothing_asked_for_nothing_changed(octahedron: Mesh) -> None:
    assert np.array_equal(changed(octahedron).vertices, octahedron.vertices)


@pytest.mark.parametrize("settings", [{"rotation": "so3"}, {"rotation": "axis"}, {"tilt": 30}])
def test_rotations_keep_distances_and_orientation(octahedron: Mesh, settings: dict[str, object]) -> None:
    turned = changed(octahedron, **settings)
    assert np.allclose(distances(turned), distances(octahedron))
    assert volume(turned) == pytest.approx(volume(octahedron))
    assert not np.allclose(turned.vertices, octahedron.vertices)


def test_a_rotation_about_an_axis_keeps_it(octahedron: Mesh) -> None:
    turned = changed(octahedron, rotation="axis", axis="z")
    assert np.allclose(turned.vertices[:, 2], octahedron.vertices[:, 2])


def test_a_tilt_is_small(octahedron: Mesh) -> None:
    for seed in range(20):
        tilted = changed(octahedron, seed=seed, tilt=12)
        cosines = (tilted.vertices * octahedron.vertices).sum(axis=1)
        assert cosines.min() >= np.cos(np.radians(12)) - 1e-12


def test_so3_is_uniform() -> None:
    rng = np.random.default_rng(0)
    turns = np.array([random_rotation(rng) for _ in range(4000)])
    assert np.allclose(turns @ turns.transpose(0, 2, 1), np.eye(3))
    assert np.allclose(np.linalg.det(turns), 1)
    # First and second moments of a uniformly random direction.
    assert np.abs(turns.mean(axis=0)).max() < 0.05
    assert np.allclose((turns**2).mean(axis=0), 1 / 3, atol=0.02)


def test_rotation_about_follows_the_right_hand() -> None:
    quarter = rotation_about(np.array([0.0, 0.0, 1.0]), np.pi / 2)
    assert np.allclose(quarter @ [1, 0, 0], [0, 1, 0])


def test_one_setting_leaves_the_draws_of_another_alone(octahedron: Mesh) -> None:
    slid = changed(octahedron, slide=0.1).vertices
    both = changed(octahedron, slide=0.1, scale=0.2, mirror=1.0).vertices
    factors = both[[0, 2, 4], [0, 1, 2]] / slid[[0, 2, 4], [0, 1, 2]]
    assert np.allclose(both, factors * slid)
    turned = changed(octahedron, rotation="so3", seed=4).vertices
    # Scaling comes before the rotation; undo it to see that the rotation is the same one.
    both = changed(octahedron, rotation="so3", scale=0.3, seed=4).vertices
    scaled = both @ np.linalg.lstsq(octahedron.vertices, turned, rcond=None)[0].T
    assert np.allclose(scaled, np.where(octahedron.vertices == 0, 0, scaled))


def test_scale_and_noise_are_bounded(octahedron: Mesh) -> None:
    scaled = changed(octahedron, scale=0.2)
    factors = np.abs(scaled.vertices).max(axis=0)
    assert np.all((factors >= 0.8) & (factors <= 1.2))
    assert len(set(factors.tolist())) == 3
    noisy = changed(octahedron, noise=0.01)
    assert 0 < np.abs(noisy.vertices - octahedron.vertices).max() < 0.1


def test_a_mirror_image_keeps_normals_outward(octahedron: Mesh) -> None:
    vertices = octahedron.vertices + np.array([0.3, 0.2, 0.1])
    mirrored = changed(octahedron.with_vertices(vertices), mirror=1.0)
    assert np.allclose(mirrored.vertices, vertices * [-1, 1, 1])
    centers = mirrored.vertices[mirrored.faces].mean(axis=1) - mirrored.vertices.mean(axis=0)
    assert ((face_vectors(mirrored.vertices, mirrored.faces) * centers).sum(axis=1) > 0).all()


def test_edge_labels_follow_a_mirror_image(octahedron: Mesh) -> None:
    labels = np.arange(12)
    mesh, target = augmented(octahedron, labels, AugmentConfig(**NONE, mirror=1.0), np.random.default_rng(0), kind="e")
    before = {frozenset(edge): label for edge, label in zip(octahedron.topology.edges.tolist(), labels, strict=True)}
    after = {frozenset(edge): label for edge, label in zip(mesh.topology.edges.tolist(), target, strict=True)}
    assert before == after


def test_face_and_vertex_labels_stay_where_they_are(octahedron: Mesh) -> None:
    labels = np.arange(8)
    config = AugmentConfig(mirror=1.0, scale=0.1)
    mesh, target = augmented(octahedron, labels, config, np.random.default_rng(0), kind="f")
    assert target.tolist() == labels.tolist()
    assert [set(face) for face in mesh.faces.tolist()] == [set(face) for face in octahedron.faces.tolist()]
    assert convert_labels(target, mesh, source="f", to="v").tolist() == (
        convert_labels(labels, octahedron, source="f", to="v").tolist()
    )


@pytest.mark.parametrize("kind", ["v", "e", "f"])
def test_a_cut_takes_faces_away_and_keeps_every_target_with_its_element(kind: ElementKind) -> None:
    def places(mesh: Mesh) -> np.ndarray:
        edges, faces = mesh.vertices[mesh.topology.edges].mean(axis=1), face_centers(mesh.vertices, mesh.faces)
        return {"v": mesh.vertices, "e": edges, "f": faces}[kind]

    mesh = icosphere(2)
    config = AugmentConfig(slide=0.0, cut=0.5)
    cuts = [deformed(mesh, places(mesh), config, np.random.default_rng(seed), kind=kind) for seed in range(40)]
    cut, target = min(cuts, key=lambda each: each[0].n_faces)
    assert 0 < sum(each.n_faces < mesh.n_faces for each, _ in cuts) < 20
    assert mesh.n_faces / 2 <= cut.n_faces < mesh.n_faces
    assert len(np.unique(cut.faces)) == cut.n_vertices
    np.testing.assert_allclose(target, places(cut))


@pytest.mark.parametrize("settings", [{"cut": 0.5}, {"mirror": 1.0}], ids=["cut", "mirror"])
def test_columns_stay_with_their_elements_and_are_not_mirrored(settings: dict[str, float]) -> None:
    mesh, kinds = icosphere(2), {"vertex": "v", "edge": "e", "face": "f"}
    mesh = mesh.with_columns({f"at_{name}": (name, element_centers(mesh, kind)) for name, kind in kinds.items()})
    other = min((changed(mesh, seed, **settings) for seed in range(40)), key=lambda each: each.n_faces)
    assert (other.n_faces < mesh.n_faces) == ("cut" in settings)
    signs = [-1.0 if "mirror" in settings else 1.0, 1.0, 1.0]
    for name, kind in kinds.items():
        found = np.stack([other.columns[f"at_{name}_{i}"].values for i in range(3)], axis=1)
        np.testing.assert_allclose(found, signs * element_centers(other, kind), atol=1e-12)


def lengths(vertices: np.ndarray, mesh: Mesh) -> np.ndarray:
    sides = vertices[np.roll(mesh.faces, -1, axis=1)] - vertices[mesh.faces]
    return np.linalg.norm(sides, axis=-1)


def cross_of_tubes() -> Mesh:
    """Four limbs that meet in the origin: a sphere drawn out along x and y."""
    ball = icosphere(3)
    stretch = 1 + 4 * np.abs(ball.vertices[:, :2]).max(axis=1, keepdims=True) ** 8
    return ball.with_vertices(ball.vertices * stretch)


@pytest.mark.parametrize("back", [False, True])
def test_sliding_stays_on_edges_within_its_share(octahedron: Mesh, back: bool) -> None:
    moved = slide_along_edges(octahedron.vertices, octahedron.faces, 0.1, np.random.default_rng(1), back=back)
    # Towards a neighbor is inward on a convex surface.
    assert (np.linalg.norm(moved, axis=1) > 1).any() == back
    steps = moved - octahedron.vertices
    # All edges of the octahedron have length sqrt(2).
    lengths = np.linalg.norm(steps, axis=1)
    assert 0 < lengths.max() <= 0.1 * np.sqrt(2)
    neighbors = octahedron.vertices[None] - octahedron.vertices[:, None]
    joined = np.abs(np.linalg.norm(neighbors, axis=-1) - np.sqrt(2)) < 1e-9
    along = np.linalg.norm(np.cross(steps[:, None], neighbors), axis=-1) < 1e-12
    assert (along & joined).any(axis=1).all()


def test_isolated_vertices_do_not_slide(strip: Mesh) -> None:
    vertices = np.concatenate([strip.vertices, [[9.0, 9.0, 9.0]]])
    moved = slide_along_edges(vertices, strip.faces, 0.1, np.random.default_rng(0))
    assert moved[-1].tolist() == [9, 9, 9]


@pytest.mark.parametrize("seed", range(5))
def test_a_bent_body_keeps_most_of_its_edge_lengths(seed: int) -> None:
    body = cross_of_tubes()
    bent = bend(body.vertices, body.faces, 60, 1, np.random.default_rng(seed))
    ratios = lengths(bent, body) / lengths(body.vertices, body)
    moved = np.linalg.norm(bent - body.vertices, axis=1)
    assert (np.abs(ratios - 1) < 1e-9).mean() > 0.4, "all but the belt moves rigidly"
    assert (moved < 1e-12).mean() > 0.3, "the rest of the body stays"
    assert moved.max() > 0.01


def test_it_is_limbs_that_turn() -> None:
    body = cross_of_tubes()
    heights = []
    for seed in range(40):
        bent = bend(body.vertices, body.faces, 90, 1, np.random.default_rng(seed))
        moved = np.linalg.norm(bent - body.vertices, axis=1)
        heights.append(np.linalg.norm(body.vertices[moved.argmax()]))
    on_limbs = np.linalg.norm(body.vertices, axis=1) > 2.5
    assert on_limbs.mean() < 0.25
    assert (np.array(heights) > 2.5).mean() > 0.6, "mostly it is the end of a limb that moves farthest"


@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_any_mesh_can_be_deformed(mesh: Mesh) -> None:
    with_stray = np.concatenate([mesh.vertices, [[5.0, 5.0, 5.0]]])
    for seed in range(8):
        rng = np.random.default_rng(seed)
        assert np.isfinite(bend(with_stray, mesh.faces, 90, 5, rng)).all()
    assert np.isfinite(swell(mesh.vertices, mesh.faces, 0.05, np.random.default_rng(0))).all()
    assert np.isfinite(grow(mesh.vertices, mesh.faces, 0.5, 3, np.random.default_rng(0))).all()


def test_a_point_cloud_without_extent_stays_finite() -> None:
    vertices, faces = np.zeros((3, 3)), np.array([[0, 1, 2]])
    rng = np.random.default_rng(0)
    with np.errstate(all="raise"):
        assert np.isfinite(swell(bend(vertices, faces, 90, 3, rng), faces, 0.05, rng)).all()


def test_noise_is_counted_in_edges() -> None:
    ball = icosphere(3)
    noisy = add_noise(ball.vertices, ball.faces, 0.1, np.random.default_rng(0)) - ball.vertices
    assert noisy.std() == pytest.approx(0.1 * lengths(ball.vertices, ball).mean(), rel=0.05)


def test_swelling_moves_along_the_normals_by_little() -> None:
    ball = icosphere(3)
    moved = swell(ball.vertices, ball.faces, 0.02, np.random.default_rng(0)) - ball.vertices
    size = np.linalg.norm(np.ptp(ball.vertices, axis=0))
    along = np.einsum("ij,ij->i", moved, ball.vertices / np.linalg.norm(ball.vertices, axis=1, keepdims=True))
    assert 0 < np.abs(moved).max() < 0.1 * size
    assert np.abs(along).sum() > 0.95 * np.linalg.norm(moved, axis=1).sum()


def test_a_part_grows_and_the_rest_stays() -> None:
    body = cross_of_tubes()
    factors = []
    for seed in range(20):
        grown = grow(body.vertices, body.faces, 0.5, 1, np.random.default_rng(seed))
        factors.append(lengths(grown, body) / lengths(body.vertices, body))
    assert all((factor.round(6) == 1).mean() > 0.2 for factor in factors)  # a part, not the whole
    assert np.exp(0.3) < max(factor.max() for factor in factors) < 1.3 * np.exp(0.5)
