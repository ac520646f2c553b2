"""What mirror images do to labels is measured, whatever the classes are called."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hodgeformer.base.containers import Element
from hodgeformer.data.census import take_census
from hodgeformer.data.mirror import mirrored_by_name, mirrored_by_place, symmetry
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_rotation
from tiny_sets import bodies


def one_side(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Parts whose mirror images lie half on themselves, half on each other."""
    return np.where(x + y > 0, 0, 1)


@pytest.mark.parametrize("element", ["face", "vertex", "edge"])
def test_sided_classes_are_found_by_their_places(element: Element) -> None:
    found = take_census(bodies(element=element)).mirrored
    assert found.measured and not found.unclear
    assert found.pairs == (("larm", "rarm"),)


@pytest.mark.parametrize("element", ["face", "vertex", "edge"])
def test_classes_on_both_sides_keep_their_names(element: Element) -> None:
    found = take_census(bodies(element=element, parts=lambda x, y: np.where(abs(x) > 0.6, 0, 1))).mirrored
    assert found.measured and not found.unclear and not found.pairs


def test_labels_that_are_not_their_own_mirror_image_are_unclear() -> None:
    found = take_census(bodies(parts=one_side)).mirrored
    assert set(found.unclear) == {"larm", "rarm"} and "overlaps" in found.unclear["larm"]


def test_poses_that_differ_do_not_hide_the_sides() -> None:
    """Most bodies are bent, and not their own mirror images; the others decide."""
    found = take_census(bodies(12, n_bent=8)).mirrored
    assert found.pairs == (("larm", "rarm"),) and not found.unclear


def test_a_part_on_one_side_only_is_unclear() -> None:
    """A heart has no counterpart. Its image lies on the torso, which is not a heart's."""
    found = take_census(bodies(parts=lambda x, y: np.where((x - 0.3) ** 2 + (y - 0.3) ** 2 < 0.05, 0, 2))).mirrored
    assert list(found.unclear) == ["larm"]


def test_classes_that_few_meshes_show_are_looked_for() -> None:
    def torso(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.full(len(x), 2)

    plain = bodies(30, parts=torso)
    two = plain.with_splits({"train": (*plain.samples[2:], *bodies(2).samples)})
    found = take_census(two).mirrored
    assert found.pairs == (("larm", "rarm"),) and not found.unclear
    bent = plain.with_splits({"train": (*plain.samples[2:], *bodies(2, n_bent=2).samples)})
    found = take_census(bent).mirrored
    assert found.unclear["larm"] == "no symmetric mesh contains it"


def test_names_decide_where_places_do_not() -> None:
    halves = np.full((3, 3), 0.3)
    assert mirrored_by_place(halves, ("arm_L", "arm_R", "torso")).unclear.keys() == {"torso"}
    halves[2] = halves[:, 2] = [0, 0, 1]
    found = mirrored_by_place(halves, ("arm_L", "arm_R", "torso"))
    assert found.pairs == (("arm_L", "arm_R"),) and not found.unclear
    assert set(mirrored_by_place(halves, ("front", "back", "torso")).unclear) == {"front", "back"}


def test_names_that_contradict_the_places_are_unclear() -> None:
    found = mirrored_by_place(np.eye(3), ("left arm", "right arm", "torso"))
    assert not found.pairs and re.search("name .*'right arm'.* meshes .*'left arm'", found.unclear["left arm"])


def test_a_word_that_contains_a_side_is_measured_too() -> None:
    assert not mirrored_by_place(np.eye(2), ("upright", "base")).unclear


@pytest.mark.parametrize(
    ("classes", "pairs", "unclear"),
    [
        (("left arm", "right arm", "torso"), (("left arm", "right arm"),), ()),
        (("Foot.L", "Foot.R", "r_hand", "l_hand"), (("Foot.L", "Foot.R"), ("l_hand", "r_hand")), ()),
        (("left arm", "leg"), (), ("left arm",)),
        (("L1", "L2", "spur l"), (), ()),
        (("bright", "cleft"), (), ("bright", "cleft")),
    ],
)
def test_sides_in_names(classes: tuple[str, ...], pairs: tuple[tuple[str, str], ...], unclear: tuple[str, ...]) -> None:
    found = mirrored_by_name(classes)
    assert (found.pairs, tuple(found.unclear), found.measured) == (pairs, unclear, False)


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
    found, normal = symmetry(ring.vertices, ring.faces)
    assert found < 0.06 and np.linalg.norm(normal) == pytest.approx(1)
    found, _ = symmetry(helix.vertices, helix.faces)
    assert found > 0.1
    turned = 3 * helix.vertices @ random_rotation(np.random.default_rng(0)).T + 7
    assert symmetry(turned, helix.faces)[0] == pytest.approx(found, rel=0.01), "points at borders may change sides"
    assert symmetry(np.zeros((3, 3)), np.array([[0, 1, 2]]))[0] == 0
