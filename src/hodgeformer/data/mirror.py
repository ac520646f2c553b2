"""How mirror images change labels, measured on training meshes: not at all, or by exchanging left and right.

Names are only a hint: classes may be named larm and rarm, or 11 and 21. Shapes that are nearly their own mirror image
show it: every place has a counterpart across the plane of symmetry, with a label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hodgeformer.base.containers import ElementKind
from hodgeformer.data.dataset import CountedMesh, DataSet
from hodgeformer.mesh.elements import element_areas, element_centers
from hodgeformer.mesh.geometry import area_shares, face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import principal_axes

_MESHES, _MOST_MESHES = 8, 32  # that are used; more only if a class would occur in fewer than two
_SEEN = 2  # meshes of every class
_SYMMETRIC = 1.5  # times the least asymmetry: a body with one arm raised is also nearly symmetric, front to back
_PLACES = 2000  # that are compared on a mesh
_TIED = 1.1  # planes whose distances differ by less than this factor are equally good
_POINTS = 2000  # that represent a surface
_OVERLAP = 0.3  # the least overlap of a class with the mirror image of another
_AHEAD = 2  # the factor by which it must exceed the overlap with any other class

_SIDES = re.compile("left|right|Left|Right|LEFT|RIGHT|(?<![A-Za-z0-9])[lrLR](?![A-Za-z0-9])")
_OTHER = {"left": "right", "Left": "Right", "LEFT": "RIGHT", "l": "r", "L": "R"}
_OTHER |= {right: left for left, right in _OTHER.items()}


@dataclass(frozen=True)
class Mirrored:
    """The classes in a mirror image.

    The classes of `pairs` are exchanged. `unclear` are classes whose mirror image is uncertain, with the reason; if
    there are any, mirror images would have wrong labels. `measured`: determined from meshes, not from names.
    """

    pairs: tuple[tuple[str, str], ...]
    unclear: Mapping[str, str]
    measured: bool


def symmetry(vertices: FloatArray, faces: IntArray) -> tuple[float, FloatArray]:
    """The distance of the surface from its mirror image, and the normal of the plane: the best of three principal ones.

    A mean distance in units of the root mean square radius, between points spread evenly over the area; their own
    spacing is 0.03 to 0.05.
    """
    from scipy.spatial import cKDTree

    areas = np.cumsum(norms(face_vectors(vertices, faces)))
    axes = principal_axes(vertices, faces)
    if areas[-1] == 0:
        return 0.0, axes[:, 0]
    number = np.arange(_POINTS)
    chosen = vertices[faces[np.searchsorted(areas, (number + 0.5) * areas[-1] / _POINTS)]]
    # Two irrational steps cover a triangle evenly.
    first, second = np.sqrt(number * 0.7548776662 % 1), number * 0.5698402910 % 1
    corners = np.stack([1 - first, first * (1 - second), first * second], axis=1)
    points = np.einsum("nc,ncd->nd", corners, chosen)
    points = (points - points.mean(axis=0)) @ axes
    points /= np.sqrt((points**2).sum(axis=1).mean())
    tree = cKDTree(points)
    distances = [float(tree.query(points * plane)[0].mean()) for plane in 1 - 2 * np.eye(3)]
    best = int(np.argmin(distances))
    return distances[best], axes[:, best]


def mirrored_by_name(classes: Sequence[str]) -> Mirrored:
    """Classes whose names differ only in their side are exchanged; a left without a right is unclear."""
    pairs = {tuple(sorted((name, other))) for name in classes if (other := _other_side(name)) != name}
    known = sorted((first, second) for first, second in pairs if {first, second} <= set(classes))
    # A single letter is a side only if the other one exists.
    sided = [name for name in classes if re.search("left|right", name, re.IGNORECASE) and _other_side(name) != name]
    alone = [name for name in sided if _other_side(name) not in classes]
    return Mirrored(tuple(known), {name: f"class '{_other_side(name)}' is missing" for name in alone}, measured=False)


def mirrored_by_place(overlaps: FloatArray, classes: Sequence[str]) -> Mirrored:
    """Classes that overlap each other's mirror images are exchanged; names decide if overlaps do not.

    If names and overlaps contradict each other, the class is unclear.
    """
    named = mirrored_by_name(classes)
    by_name = {a: b for pair in named.pairs for a, b in (pair, pair[::-1])}
    best = overlaps.argmax(axis=1)
    second, first = np.sort(overlaps, axis=1)[:, -2:].T
    clear = (first >= _OVERLAP) & (first >= _AHEAD * second) & (best[best] == np.arange(len(best)))
    pairs, unclear = set(), {}
    for i, name in enumerate(classes):
        other = classes[best[i]]
        if not clear[i]:
            if name not in by_name:
                most = f"in mirrored training meshes it overlaps '{other}' most, by {100 * first[i]:.0f} %"
                unclear[name] = most if first[i] else "no symmetric mesh contains it"
        elif by_name.get(name, other) != other:
            unclear[name] = f"its name suggests '{by_name[name]}', mirrored training meshes suggest '{other}'"
        else:
            pairs |= {(min(name, other), max(name, other))} if other != name else set()
    pairs |= {pair for pair in named.pairs if not {*pair} & {*unclear}}
    return Mirrored(tuple(sorted(pairs)), unclear, measured=True)


def mirrored_overlaps(dataset: DataSet, meshes: Sequence[CountedMesh]) -> FloatArray:
    """(n_classes, n_classes): the overlap of each class with the mirror image of each other one, 0 to 1.

    Twice the common area over the sum of both. Only the most symmetric of the meshes are read: a walking body is not
    its own mirror image, and another limb may be across the plane. A class without labels overlaps itself.
    """
    assert dataset.kind is not None
    samples = {sample.name: sample for sample in dataset.samples}
    n_classes = len(dataset.classes)
    common = np.zeros((n_classes, n_classes))
    for mesh in _most_symmetric(meshes):
        common += _met(*dataset.load(samples[mesh.name]), kind=dataset.kind, n_classes=n_classes)
    common = (common + common.T) / 2
    both = common.sum(axis=1)[:, None] + common.sum(axis=0)
    overlaps: FloatArray = 2 * common / np.where(both > 0, both, 1)
    missing = np.sum([mesh.labels for mesh in meshes], axis=0) == 0
    overlaps[missing, missing] = 1
    return overlaps


def _most_symmetric(meshes: Sequence[CountedMesh]) -> list[CountedMesh]:
    """A few, and more for classes that occur in too few of them."""
    chosen: list[CountedMesh] = []
    n_seen = np.zeros(len(meshes[0].labels), dtype=np.int64)
    limit = _SYMMETRIC * min(mesh.asymmetry for mesh in meshes)
    for mesh in sorted((mesh for mesh in meshes if mesh.asymmetry <= limit), key=lambda mesh: mesh.asymmetry):
        present = mesh.labels > 0
        if len(chosen) < _MESHES or (len(chosen) < _MOST_MESHES and (n_seen[present] < _SEEN).any()):
            chosen.append(mesh)
            n_seen += present
    return chosen


def _met(mesh: Mesh, labels: IntArray, *, kind: ElementKind, n_classes: int) -> FloatArray:
    """The share of the area where label i is opposite label j across the plane of symmetry, or equally good planes."""
    from scipy.spatial import cKDTree

    areas = np.cumsum(element_areas(mesh, kind))
    met = np.zeros((n_classes, n_classes))
    if areas[-1] == 0:
        return met
    places = np.searchsorted(areas, (np.arange(_PLACES) + 0.5) * areas[-1] / _PLACES)
    center = area_shares(mesh.vertices, mesh.faces)[2]
    points = (element_centers(mesh, kind) - center) @ principal_axes(mesh.vertices, mesh.faces)
    tree = cKDTree(points)
    across = [tree.query(points[places] * plane) for plane in 1 - 2 * np.eye(3)]
    distances = np.array([distance.mean() for distance, _ in across])
    equal = np.flatnonzero(distances <= _TIED * distances.min())
    for plane in equal:
        here, there = labels[places], labels[across[plane][1]]
        known = (here >= 0) & (there >= 0)
        np.add.at(met, (here[known], there[known]), 1 / (_PLACES * len(equal)))
    return met


def _other_side(name: str) -> str:
    return _SIDES.sub(lambda found: _OTHER[found[0]], name)
