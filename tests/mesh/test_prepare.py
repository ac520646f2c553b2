"""The same surface gives the same PreparedMesh, whatever its file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import meshes
from hodgeformer.base.containers import KINDS, PerElement
from hodgeformer.base.errors import BatchError, ConfigError, MeshError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import canonical_order
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.topology import inverse_permutation
from soups import renumbered, soups

HAND_MADE = [
    meshes.icosphere(2),
    meshes.open_grid(),
    meshes.non_manifold_fan(),
    meshes.two_components(),
    meshes.duplicate_faces(),
    meshes.moebius_strip(),
    meshes.single_triangle(),
]


def assert_identical(a: PreparedMesh, b: PreparedMesh) -> None:
    assert a.n == b.n
    np.testing.assert_array_equal(a.positions, b.positions)
    for kind in KINDS:
        np.testing.assert_array_equal(a.x_in[kind], b.x_in[kind])
        np.testing.assert_array_equal(a.patterns[kind].offsets, b.patterns[kind].offsets)
        np.testing.assert_array_equal(a.patterns[kind].indices, b.patterns[kind].indices)
    for name in ("faces", "edges", "face_edges", "face_signs"):
        np.testing.assert_array_equal(getattr(a.topology, name), getattr(b.topology, name))


def looks(x_in: np.ndarray, kind: str) -> np.ndarray:
    """Features that do not depend on the first corner of a face.

    Two faces that a symmetry of the mesh exchanges look alike, but nothing can say which of them comes first, and where
    vertices coincide their first corners may lie in different places.
    """
    if kind != "f":
        return x_in
    turns = [np.roll(x_in[:, :9], 3 * k, axis=1) for k in range(3)]
    corners = [min(rows, key=tuple) for rows in zip(*turns, strict=True)]
    return np.concatenate([corners, x_in[:, 9:]], axis=1)


def assert_renumbering_changes_nothing(mesh: Mesh, config: PrepareConfig, seed: int) -> None:
    other, new_vertex, new_face = renumbered(mesh, seed)
    before, after = prepare(mesh, config), prepare(other, config)
    assert_identical(before, after)
    for kind, new_number in (("v", new_vertex), ("f", new_face)):
        n = before.n[kind]
        features = looks(before.x_in[kind], kind)  # equal elements may swap places, so compare what they look like
        np.testing.assert_array_equal(
            before.to_file_order(features, kind), after.to_file_order(features, kind)[new_number]
        )
        assert sorted(before.order[kind]) == sorted(set(before.order[kind]))
        assert len(before.order[kind]) == n


@pytest.mark.parametrize("config", [PrepareConfig(), PrepareConfig(pose="frame")], ids=str)
@pytest.mark.parametrize("mesh", HAND_MADE, ids=lambda m: m.name)
def test_renumbering_gives_the_identical_prepared_mesh(mesh: Mesh, config: PrepareConfig) -> None:
    for seed in range(3):
        assert_renumbering_changes_nothing(mesh, config, seed)


EXCHANGEABLE = Mesh(
    np.array([[2.0, 1, 0], [0, 1, 2], [2, 1, 0]]),
    np.array([[1, 2, 2], [0, 1, 2], [1, 0, 2], [2, 2, 2]]),
    "exchangeable",
)


@example(EXCHANGEABLE, 0)
@given(soups(), st.integers(0, 1000))
def test_renumbering_any_soup_changes_nothing(mesh: Mesh, seed: int) -> None:
    assert_renumbering_changes_nothing(mesh, PrepareConfig(), seed)


def two_copies_in_one_place() -> Mesh:
    ball = meshes.icosphere(1)
    return Mesh(np.tile(ball.vertices, (2, 1)), np.concatenate([ball.faces, ball.faces + ball.n_vertices]))


def unwelded(mesh: Mesh) -> Mesh:
    return Mesh(mesh.vertices[mesh.faces.ravel()], np.arange(3 * mesh.n_faces).reshape(-1, 3))


@pytest.mark.parametrize(
    "mesh", [two_copies_in_one_place(), unwelded(meshes.icosphere(1)), unwelded(two_copies_in_one_place())]
)
def test_vertices_in_one_place_are_told_apart_by_their_faces(mesh: Mesh) -> None:
    for seed in range(3):
        assert_renumbering_changes_nothing(mesh, PrepareConfig(), seed)


@given(soups(), st.integers(0, 1000))
@example(two_copies_in_one_place(), 1)
def test_order_maps_are_permutations_and_undo_each_other(mesh: Mesh, seed: int) -> None:
    order = canonical_order(mesh.vertices, mesh.faces)
    np.testing.assert_array_equal(np.sort(order), np.arange(mesh.n_vertices))
    np.testing.assert_array_equal(order[inverse_permutation(order)], np.arange(mesh.n_vertices))
    prepared = prepare(mesh)
    for kind in KINDS:
        np.testing.assert_array_equal(np.sort(prepared.order.e), np.arange(prepared.n.e))
        values = np.arange(prepared.n[kind])
        there = prepared.to_file_order(values, kind)
        np.testing.assert_array_equal(prepared.from_file_order(there, kind), values)


@given(soups())
def test_any_soup_prepares_without_a_nan(mesh: Mesh) -> None:
    for config in (PrepareConfig(), PrepareConfig(pose="frame")):
        prepared = prepare(mesh, config)
        assert np.isfinite(prepared.positions).all()
        for x in prepared.x_in:
            assert np.isfinite(x).all()
        assert len(prepared.face_source) == mesh.n_faces


def test_positions_and_faces_are_those_of_the_file() -> None:
    mesh = meshes.two_components()
    prepared = prepare(mesh)
    here = prepared.positions[prepared.topology.faces]
    there = mesh.vertices[mesh.faces[prepared.order.f]]
    apart = np.linalg.norm(here - np.roll(here, 1, axis=1), axis=2).sum(axis=1)
    apart_there = np.linalg.norm(there - np.roll(there, 1, axis=1), axis=2).sum(axis=1)
    np.testing.assert_allclose(apart_there / apart, (apart_there / apart)[0])  # one scale for the whole mesh


def test_edges_of_the_file_are_counted_by_first_appearance() -> None:
    mesh = meshes.open_grid()
    prepared = prepare(mesh)
    seen: dict[tuple[int, int], int] = {}
    for face in mesh.faces:
        for side in range(3):
            a, b = sorted((int(face[side]), int(face[(side + 1) % 3])))
            seen.setdefault((a, b), len(seen))
    ends = np.sort(prepared.order.v[prepared.topology.edges], axis=1)
    np.testing.assert_array_equal(prepared.order.e, [seen[int(a), int(b)] for a, b in ends])


def test_a_face_that_repeats_a_vertex_gets_the_nearest_answer() -> None:
    grid = meshes.open_grid(6, 6)
    needle = np.array([[0, 0, 1], [48, 48, 47]])
    mesh = Mesh(grid.vertices, np.concatenate([needle[:1], grid.faces, needle[1:]]))
    prepared = prepare(mesh)
    assert prepared.n.f == grid.n_faces
    centers = mesh.vertices[mesh.faces].mean(axis=1)
    nearest = 1 + np.linalg.norm(centers[1:-1] - centers[[0, -1], None], axis=2).argmin(axis=1)
    answers = prepare(grid).to_file_order(np.arange(grid.n_faces), "f")
    np.testing.assert_array_equal(prepared.to_file_order(np.arange(grid.n_faces), "f")[[0, -1]], answers[nearest - 1])


def test_a_stray_vertex_moves_nothing() -> None:
    mesh = meshes.icosphere(1)
    stray = Mesh(np.vstack([mesh.vertices, [[1e6, 0, 0]]]), mesh.faces)
    prepared, alone = prepare(stray), prepare(mesh)
    used = prepared.order.v < mesh.n_vertices
    np.testing.assert_allclose(prepared.positions[used], alone.positions, atol=1e-12)


@pytest.mark.parametrize("length", [3.0, 40.0])
@pytest.mark.parametrize("size", ["sphere", "area"])
def test_a_spike_changes_only_the_vertex_at_its_tip(length: float, size: str) -> None:
    mesh = meshes.icosphere(3)
    spiky, pit = mesh.vertices.copy(), mesh.vertices.copy()
    spiky[7] *= 1 + length
    around = np.setdiff1d(mesh.faces[(mesh.faces == 7).any(axis=1)], [7])
    pit[7] = mesh.vertices[around].mean(axis=0)
    config = PrepareConfig(features=("coords", "normals", "distances"), size=size)
    found, wanted = (prepare(mesh.with_vertices(vertices), config) for vertices in (spiky, pit))
    for kind in KINDS:
        np.testing.assert_allclose(found.x_in[kind], wanted.x_in[kind], atol=1e-6)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1.0, 1e150, 1e307])
def test_any_unit_of_length_gives_the_same_features(unit: float) -> None:
    mesh = meshes.icosphere(1)
    for x, y in zip(prepare(mesh.with_vertices(unit * mesh.vertices)).x_in, prepare(mesh).x_in, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


@pytest.mark.parametrize("frame", range(4))
def test_a_frame_does_not_depend_on_rotation(frame: int) -> None:
    mesh = Mesh(
        meshes.icosphere(2).vertices * [3, 2, 1] + [[0.3, 0.2, 0.1]] * meshes.icosphere(2).vertices ** 2,
        meshes.icosphere(2).faces,
    )
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    rotation *= np.sign(np.linalg.det(rotation))
    config = PrepareConfig(pose="frame_average")
    straight = prepare(mesh, config, frame=frame)
    turned = prepare(mesh.with_vertices(mesh.vertices @ rotation.T), config, frame=frame)
    for x, y in zip(straight.x_in, turned.x_in, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_the_four_frames_differ_by_half_turns() -> None:
    mesh = meshes.icosphere(1)
    clouds = [prepare(mesh, PrepareConfig(pose="frame_average"), frame=frame) for frame in range(4)]
    in_file_order = [c.to_file_order(c.positions, "v") for c in clouds]
    for cloud, signs in zip(in_file_order, ([1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]), strict=True):
        np.testing.assert_allclose(cloud, in_file_order[0] * signs, atol=1e-12)


def test_settings_of_an_older_file_that_name_the_order_are_read() -> None:
    assert PrepareConfig.parse({"order": "morton", "seed": 3}) == PrepareConfig(seed=3)
    with pytest.raises(ConfigError, match=r"unknown setting prepare\.order"):
        PrepareConfig.parse({"order": "rcm"})


def test_features_can_be_chosen() -> None:
    mesh = meshes.icosphere(1)
    config = PrepareConfig(features=("areas", "coords"))
    assert config.widths == PerElement(4, 18, 10)
    prepared = prepare(mesh, config)
    assert [x.shape[1] for x in prepared.x_in] == [4, 18, 10]
    with pytest.raises(BatchError, match="expected 42 values of kind 'v', got 41"):
        prepared.from_file_order(np.arange(41), "v")


def test_neighbor_sizes() -> None:
    mesh = meshes.icosphere(3)  # 642 vertices, 1920 edges, 1280 faces
    for config, expected in (
        (PrepareConfig(), (25, 44, 36)),
        (PrepareConfig(max_neighbors={"v": 10, "e": 20, "f": 30}), (10, 20, 30)),
        (PrepareConfig(n_neighbors={"v": 32, "e": 48, "f": 32}), (32, 48, 32)),
        (PrepareConfig(n_neighbors=7, max_neighbors=None), (7, 7, 7)),
    ):
        prepared = prepare(mesh, config)
        assert tuple(p.nnz // len(p) for p in prepared.patterns) == expected


def test_bad_settings_and_meshes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"n_neighbours.*did you mean 'n_neighbors'"):
        PrepareConfig(n_neighbours=3)
    with pytest.raises(ConfigError, match="random_share"):
        PrepareConfig(random_share=1.0)
    with pytest.raises(MeshError, match="every face repeats a vertex"):
        prepare(Mesh(np.eye(3), np.array([[0, 0, 1]])))


@pytest.mark.real_data
@pytest.mark.slow
def test_every_real_mesh_prepares(real_data) -> None:
    from hodgeformer.mesh.io import load_mesh

    paths = [path for suffix in ("obj", "off") for path in sorted(real_data.rglob(f"*.{suffix}"))]
    assert len(paths) >= 480 + 381 + 24 + 337
    for path in paths:
        mesh = load_mesh(path)
        prepared = prepare(mesh)
        assert len(prepared.face_source) == mesh.n_faces
        assert all(np.isfinite(x).all() for x in prepared.x_in), path


@pytest.mark.parametrize("embedded", [("v",), ("v", "e"), ("f",)])
def test_what_a_model_does_not_read_changes_nothing_of_what_it_reads(embedded) -> None:
    config = PrepareConfig(features=("coords", "normals", "areas", "distances"), n_neighbors=4)
    whole = prepare(meshes.open_grid(), config)
    part = prepare(meshes.open_grid(), config, embedded=embedded, patterned=embedded)
    for kind in KINDS:
        assert part.x_in[kind].shape == whole.x_in[kind].shape
        if kind in embedded:
            np.testing.assert_array_equal(part.x_in[kind], whole.x_in[kind])
            np.testing.assert_array_equal(part.patterns[kind].indices, whole.patterns[kind].indices)
        else:
            assert np.isnan(part.x_in[kind]).all()
            assert part.patterns[kind].nnz == 0
