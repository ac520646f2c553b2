"""Hidden patches: nothing of them is told but where they are, and what was there is the target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hodgeformer.data.folder import write_folder
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.data.source import BatchSource, Key
from hodgeformer.data.unlabelled import N_RECONSTRUCTED, open_unlabelled, with_hidden_patches
from hodgeformer.errors import ConfigError, DataError
from hodgeformer.mesh.features import GROUPS, feature_widths
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from meshes import icosphere
from tiny_sets import parts, stretched

CONFIG = PrepareConfig(features=GROUPS)


@pytest.fixture(scope="module")
def whole() -> PreparedMesh:
    return prepare(icosphere(3), CONFIG)


def masked(whole: PreparedMesh, seed: int = 0) -> PreparedMesh:
    return with_hidden_patches(whole, GROUPS, 0.5, np.random.default_rng(seed))


def test_about_the_share_is_hidden_and_a_seed_hides_the_same(whole: PreparedMesh) -> None:
    first, again, other = masked(whole), masked(whole), masked(whole, 1)
    assert first.target is not None and again.target is not None and other.target is not None
    assert first.target.shape == (whole.n.v, N_RECONSTRUCTED)
    hidden = ~np.isnan(first.target).any(axis=1)
    assert 0.35 < hidden.mean() < 0.65
    np.testing.assert_array_equal(first.target, again.target)
    assert (np.isnan(first.target) != np.isnan(other.target)).any()


def test_a_hidden_vertex_moved_within_its_patch_changes_no_input(whole: PreparedMesh) -> None:
    """All that elements around it know is the center of the patch, so two opposite moves cannot be seen."""
    seen = masked(whole)
    assert seen.target is not None
    hidden = ~np.isnan(seen.target).any(axis=1)
    faces = whole.topology.faces
    inner = np.flatnonzero(hidden[faces].all(axis=1))[0]
    assert not seen.x_in.f[inner, 9:].any(), "no normal, no area, no distances"
    centers = seen.x_in.v[faces[inner], :3]
    np.testing.assert_array_equal(seen.x_in.f[inner, :9], centers.ravel())
    touched = hidden[faces].any(axis=1)
    np.testing.assert_array_equal(seen.x_in.f[~touched], whole.x_in.f[~touched])
    np.testing.assert_array_equal(seen.x_in.v[~hidden], whole.x_in.v[~hidden])
    edges = whole.topology.face_edges[touched].ravel()
    width = feature_widths(("coords",)).e
    assert not seen.x_in.e[edges, width:].any()
    # On the sphere a visible vertex has radius one; no coordinate of a hidden one is left anywhere.
    known = {tuple(row) for row in whole.x_in.v[hidden, :3].round(5).tolist()}
    for kind in ("v", "e", "f"):
        points = seen.x_in[kind][:, : feature_widths(("coords",))[kind]].reshape(-1, 3).round(5)
        assert not known & {tuple(row) for row in points.tolist()}


def test_the_target_is_what_was_hidden(whole: PreparedMesh) -> None:
    seen = masked(whole)
    assert seen.target is not None
    hidden = ~np.isnan(seen.target).any(axis=1)
    offsets = whole.x_in.v[hidden, :3] - seen.x_in.v[hidden, :3]
    scale = np.linalg.norm(offsets) / np.linalg.norm(seen.target[hidden, :3])
    np.testing.assert_allclose(seen.target[hidden, :3] * scale, offsets, atol=1e-6)
    assert seen.target[hidden, :3].std() == pytest.approx(1, abs=0.02), "in units that a network likes"
    np.testing.assert_array_equal(seen.target[hidden, 3:6], whole.x_in.v[hidden, 3:6])
    np.testing.assert_allclose(seen.target[hidden, 6:], whole.x_in.v[hidden, 7:], atol=1e-6)


def test_any_meshes_below_a_folder_and_new_patches_every_epoch(tmp_path: Path) -> None:
    for i, place in enumerate(("a.ply", "deep/er/b.obj")):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        save_mesh(stretched(i, (1.0, 1.2, 2.0), "egg"), tmp_path / place)
    (tmp_path / "notes.txt").write_text("not a mesh")
    dataset = open_dataset(DataConfig(name="unlabelled", path=tmp_path, hide=0.25))
    assert [sample.name for sample in dataset.split("train")] == ["a", "deep/er/b"] and dataset.hide == 0.25
    source = BatchSource(dataset, dataset.split("train"), prepare=CONFIG, augment=None, seed=0)
    first, again, later = (source.batch(Key(epoch, (0, 1))).target for epoch in (0, 0, 1))
    assert first is not None and again is not None and later is not None
    assert first.isnan().equal(again.isnan()) and not first.isnan().equal(later.isnan())


def test_of_a_configuration_the_training_meshes_alone_are_taken(tmp_path: Path) -> None:
    write_folder(parts(), tmp_path / "eggs")
    (tmp_path / "eggs.toml").write_text(f'[data]\npath = "{(tmp_path / "eggs").as_posix()}"\n')
    dataset = open_dataset(DataConfig(name="unlabelled", path=tmp_path / "eggs.toml", seed=3))
    assert dataset.name == "eggs" and dataset.hide == 0.5
    assert [sample.name for sample in dataset.samples] == [f"train_{i}" for i in range(6)]
    assert not dataset.load(dataset.samples[0])[1].any(), "labels are not read"


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no meshes found"):
        open_unlabelled(tmp_path)
    with pytest.raises(ConfigError, match="has no meaning for 'figures'"):
        open_dataset(DataConfig(name="figures", hide=0.5))
