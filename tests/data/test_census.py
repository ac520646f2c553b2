from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.base.errors import DataError
from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.folder import open_folder
from hodgeformer.data.labels import Values
from hodgeformer.data.measured import asymmetry, shape_hash
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_rotation


def renumbered(mesh: Mesh, labels: np.ndarray, seed: int) -> tuple[Mesh, np.ndarray]:
    rng = np.random.default_rng(seed)
    to, faces = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    vertices = np.empty_like(mesh.vertices)
    vertices[to] = mesh.vertices
    turned = np.roll(to[mesh.faces[faces]], 1, axis=1)
    return Mesh(vertices, turned, "copy"), labels[faces]


def test_a_clean_data_set(figures: DataSet) -> None:
    seen: list[tuple[int, int]] = []
    census = take_census(figures, progress=lambda done, total: seen.append((done, total)))
    assert census.ok
    assert census.warnings == ()
    assert census.usable(skip_bad=False) is figures
    assert seen == [(i + 1, 10) for i in range(10)]
    for split, samples in figures.splits.items():
        assert [mesh.name for mesh in census.of_split(split)] == [sample.name for sample in samples]
        assert sum(census.class_counts[split]) == sum(mesh.n.f for mesh in census.of_split(split))
    assert json.loads(json.dumps(census.to_dict()))["splits"] == {"train": 5, "val": 2, "test": 3}


def test_every_bad_mesh_is_named_and_skipped_only_on_demand(figure_folder: Path) -> None:
    (figure_folder / "labels" / "figure_train_0000.txt").unlink()
    (figure_folder / "meshes" / "figure_train_0001.ply").write_text("ply\n")
    labels = figure_folder / "labels" / "figure_train_0002.txt"
    labels.write_text(labels.read_text() + "0\n")
    labels = figure_folder / "labels" / "figure_test_0000.txt"
    labels.write_text(labels.read_text().replace("4", "8", 1))
    dataset = open_folder(figure_folder)
    census = take_census(dataset)
    assert [problem.name for problem in census.problems] == [
        "figure_train_0000",
        "figure_train_0001",
        "figure_train_0002",
        "figure_test_0000",
    ]
    for problem, words in zip(
        census.problems, ("missing", "figure_train_0001", "labels for mesh", "label 8"), strict=True
    ):
        assert words in problem.message
        assert problem.name in problem.message
    with pytest.raises(DataError, match=r"meshes \(4\) .*figure_train_0000.*and 1 more"):
        census.usable(skip_bad=False)
    usable = census.usable(skip_bad=True)
    assert [len(samples) for samples in usable.splits.values()] == [2, 2, 2]
    assert take_census(usable).ok


def test_training_meshes_that_cannot_be_used_are_no_missing_split(figure_folder: Path) -> None:
    for labels in (figure_folder / "labels").glob("figure_train*"):
        labels.unlink()
    census = take_census(open_folder(figure_folder))
    assert len(census.problems) == 5 and census.warnings == ()


def test_a_split_with_nothing_left_is_an_error_even_when_skipping(figure_folder: Path) -> None:
    for path in (figure_folder / "labels").glob("figure_val_*"):
        path.write_text("nonsense")
    with pytest.raises(DataError, match="no mesh of split 'val'"):
        take_census(open_folder(figure_folder)).usable(skip_bad=True)


def test_a_renumbered_moved_copy_in_another_split_is_a_leak(figures: DataSet) -> None:
    mesh, labels = figures.load(figures.split("train")[0])
    copy, copied_labels = renumbered(mesh, labels, seed=3)
    copy = copy.with_vertices(copy.vertices * 2.0 + 7.0)
    leaked = Sample("copy", copy, Values(copied_labels))
    splits = {**figures.splits, "test": (*figures.splits["test"], leaked)}
    census = take_census(replace(figures, splits=splits))
    assert not census.ok
    [group] = census.leaks
    assert [(mesh.split, mesh.name) for mesh in group] == [("train", figures.split("train")[0].name), ("test", "copy")]
    assert "several splits" in census.warnings[0]
    assert census.to_dict()["leaks"] == [[["train", figures.split("train")[0].name], ["test", "copy"]]]
    assert not census.problems


def test_the_hash_sees_changes_of_shape_and_connectivity(octahedron: Mesh) -> None:
    moved = octahedron.vertices.copy()
    moved[0, 0] += 0.01
    assert shape_hash(octahedron) != shape_hash(octahedron.with_vertices(moved))
    assert shape_hash(octahedron) != shape_hash(Mesh(octahedron.vertices, octahedron.faces[:-1]))
    assert shape_hash(octahedron) != shape_hash(Mesh(octahedron.vertices, octahedron.faces[:, ::-1]))


def test_classes_that_no_training_mesh_shows(figures: DataSet) -> None:
    wider = figures.with_classes((*figures.classes, "tail"))
    (warning,) = take_census(wider).warnings
    assert re.search("without training meshes.*: tail$", warning)


def test_other_class_lists_keep_the_meaning(cubes: DataSet) -> None:
    turned = cubes.with_classes((*reversed(cubes.classes), "new"))
    for sample, other in zip(cubes.samples, turned.samples, strict=True):
        assert cubes.classes[cubes.load(sample)[1][0]] == turned.classes[turned.load(other)[1][0]]
    assert turned.colors[2] == cubes.colors[0]
    with pytest.raises(DataError, match="'disc' is not among"):
        cubes.with_classes(("cross", "ring"))


def test_processes_that_share_the_work_find_the_same(figures: DataSet) -> None:
    parts: list[dict[str, object]] = []

    class Enough(Exception):
        pass

    def hand_in(part: dict[str, object]) -> list[dict[str, object]]:
        parts.append(part)
        raise Enough

    for rank in range(2):
        with pytest.raises(Enough):
            take_census(figures, share=lambda places, rank=rank: places[rank::2], collect=hand_in)
    shared = take_census(figures, share=lambda places: [], collect=lambda part: parts)
    assert shared.fingerprint == take_census(figures).fingerprint
    assert len(shared.meshes) == 10


def test_huge_coordinates_and_endless_names_are_no_surprise(octahedron: Mesh) -> None:
    """Coordinates near the largest float; a name as a damaged index may have it."""
    far = replace(octahedron, vertices=octahedron.vertices * 1e200, name="far")
    labels = [Values(np.zeros(n, dtype=np.int64)) for n in (octahedron.n_faces, 3)]
    samples = (Sample("far", far, labels[0]), Sample("n" * 5000, octahedron, labels[1]))
    census = take_census(DataSet("odd", "segmentation", "face", {"train": samples}, ("a", "b")))
    assert [mesh.name for mesh in census.meshes] == ["far"]
    with pytest.raises(DataError) as raised:
        census.usable(skip_bad=False)
    assert len(str(raised.value)) < 1000


def test_a_mirror_image_is_near_where_a_shape_is_symmetric() -> None:
    """A helix of three turns is not its mirror image, a ring is; turning and scaling change nothing."""

    def tube(rise: float) -> Mesh:
        along, around = np.linspace(0, 6 * np.pi, 241), np.linspace(0, 2 * np.pi, 9)[:-1]
        center = np.stack([np.cos(along), np.sin(along), rise * along], axis=1)
        out, up = center * [1, 1, 0], np.array([0, 0, 1.0])
        rings = center[:, None] + 0.2 * (np.cos(around)[:, None] * out[:, None] + np.sin(around)[:, None] * up)
        i, j = np.meshgrid(np.arange(240), np.arange(8), indexing="ij")
        a, b, c, d = (8 * (i + p) + (j + q) % 8 for p, q in ((0, 0), (1, 0), (1, 1), (0, 1)))
        corners = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)
        return Mesh(rings.reshape(-1, 3), corners)

    ring, helix = tube(0), tube(0.15)
    turned = replace(ring, vertices=5 * ring.vertices @ random_rotation(np.random.default_rng(0)).T)
    assert asymmetry(ring) < 0.06 and asymmetry(turned) == pytest.approx(asymmetry(ring), abs=1e-3)
    assert asymmetry(helix) > 0.1
