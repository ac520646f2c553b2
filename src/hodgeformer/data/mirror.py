"""What mirror images do to labels, measured on training meshes: nothing, an exchange of left and right, or neither.

Names are a hint only: classes may be called larm and rarm, or 11 and 21. A shape that is nearly its own mirror image
shows it: across its plane of symmetry every place has a counterpart, with a label of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hodgeformer.base.containers import ElementKind
from hodgeformer.data.dataset import CountedMesh, DataSet
from hodgeformer.mesh.elements import element_areas, element_centers
from hodgeformer.mesh.geometry import centroid
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import principal_axes

_MESHES, _MOST_MESHES = 8, 32  # looked at; more only to see every class twice
_SEEN = 2
_WITNESSES = 1.5  # times the least asymmetry: a body with one arm raised is also nearly symmetric, front to back
_PLACES = 2000  # looked at on a mesh
_TIED = 1.1  # planes whose distances differ by less than this factor are equally good
_OVERLAP = 0.3  # from which a class may lie on the mirror image of another
_AHEAD = 2  # by which factor it has to overlap that one more than any other

_SIDES = re.compile("left|right|Left|Right|LEFT|RIGHT|(?<![A-Za-z0-9])[lrLR](?![A-Za-z0-9])")
_OTHER = {"left": "right", "Left": "Right", "LEFT": "RIGHT", "l": "r", "L": "R"}
_OTHER |= {right: left for left, right in _OTHER.items()}


@dataclass(frozen=True)
class Mirrored:
    """What becomes of the classes in a mirror image.

    `pairs` exchange their names. `unclear` are classes whose image has no certain name, with the reason; where there
    are any, mirror images would teach wrong labels. `measured` tells meshes from names.
    """

    pairs: tuple[tuple[str, str], ...]
    unclear: Mapping[str, str]
    measured: bool


def mirrored_by_name(classes: Sequence[str]) -> Mirrored:
    """Exchanged are classes whose names differ in their side only; a left without a right is unclear."""
    pairs = {tuple(sorted((name, other))) for name in classes if (other := _other_side(name)) != name}
    known = sorted((first, second) for first, second in pairs if {first, second} <= set(classes))
    # A single letter is a side only where there is the other one.
    sided = [name for name in classes if re.search("left|right", name, re.IGNORECASE) and _other_side(name) != name]
    alone = [name for name in sided if _other_side(name) not in classes]
    return Mirrored(tuple(known), {name: f"there is no class '{_other_side(name)}'" for name in alone}, measured=False)


def mirrored_by_place(overlaps: FloatArray, classes: Sequence[str]) -> Mirrored:
    """Exchanged are classes that lie on each other's mirror images; names decide where places do not.

    Where names and places contradict each other, the class is unclear.
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
                unclear[name] = most if first[i] else "no mesh symmetric enough shows it"
        elif by_name.get(name, other) != other:
            unclear[name] = f"its name says '{by_name[name]}', mirrored training meshes say '{other}'"
        else:
            pairs |= {(min(name, other), max(name, other))} if other != name else set()
    pairs |= {pair for pair in named.pairs if not {*pair} & {*unclear}}
    return Mirrored(tuple(sorted(pairs)), unclear, measured=True)


def mirrored_overlaps(dataset: DataSet, meshes: Sequence[CountedMesh]) -> FloatArray:
    """(n_classes, n_classes): by how much each class overlaps the mirror image of each other one, 0 to 1.

    Twice the common area over the sum of both. Only the most symmetric of the meshes are read: a walking body is not
    its own mirror image, and across the plane from a limb may be another. A class without labels overlaps itself.
    """
    if dataset.kind is None or dataset.task != "segmentation":
        raise ValueError("only labels of elements have places")
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
    """A few, and those that show classes which the others hardly show."""
    chosen: list[CountedMesh] = []
    seen = np.zeros(len(meshes[0].labels), dtype=np.int64)
    limit = _WITNESSES * min(mesh.asymmetry for mesh in meshes)
    for mesh in sorted((mesh for mesh in meshes if mesh.asymmetry <= limit), key=lambda mesh: mesh.asymmetry):
        shown = mesh.labels > 0
        if len(chosen) < _MESHES or (len(chosen) < _MOST_MESHES and (seen[shown] < _SEEN).any()):
            chosen.append(mesh)
            seen += shown
    return chosen


def _met(mesh: Mesh, labels: IntArray, *, kind: ElementKind, n_classes: int) -> FloatArray:
    """The share of the area where label i meets label j across the plane of symmetry, or across planes equally good."""
    from scipy.spatial import cKDTree

    areas = np.cumsum(element_areas(mesh, kind))
    met = np.zeros((n_classes, n_classes))
    if areas[-1] == 0:
        return met
    places = np.searchsorted(areas, (np.arange(_PLACES) + 0.5) * areas[-1] / _PLACES)
    _, center = centroid(mesh.vertices, mesh.faces)
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
