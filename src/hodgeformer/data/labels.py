"""Sources of the target of a mesh. Each is read into one array in the order of the mesh file.

A source is a small frozen object with `read(mesh)`. Class numbers start at 0; -1 is unlabeled and always ignored.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.base.errors import DataError
from hodgeformer.base.palette import RGB, UNLABELED_COLOR, class_colors, hex_color
from hodgeformer.data.label_files import (
    RawLabels,
    labels_inside,
    points_beside,
    read_labels,
    read_numbers,
)
from hodgeformer.mesh.elements import UNLABELED, convert_labels, element_centers, radius
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh

NO_NAME = ("", "-1", "none", "unlabelled", "unlabeled")
SAME_COLOR = 8  # of 255: tolerance for compression and rounding
_FEW = 0.05  # of the elements of a mesh may have a color between those of the classes
_FAR = 0.1  # of the radius of a mesh: points at this distance belong to another mesh


class Target(Protocol):
    """The source of the target of one mesh."""

    def read(self, mesh: Mesh) -> NDArray[Any]: ...


@dataclass(frozen=True)
class WholeMesh:
    """One class number, or one row of regression targets, for the whole mesh."""

    value: int | tuple[float, ...]

    def read(self, mesh: Mesh) -> NDArray[Any]:
        return np.array([self.value], dtype=np.int64 if isinstance(self.value, int) else np.float32)


@dataclass(frozen=True, eq=False)
class Values:
    """Values per element in memory, in the order of the mesh file."""

    array: NDArray[Any]

    def read(self, mesh: Mesh) -> NDArray[Any]:
        return self.array


@dataclass(frozen=True)
class Codes:
    """How classes are written in a file: class i as the number `codes[i]`, by its name or in its color. Numbers below 0
    are unlabeled."""

    codes: tuple[int, ...]
    names: tuple[str, ...] = ()
    colors: tuple[RGB, ...] = ()

    @classmethod
    def counted_from(
        cls, first_label: int, n_classes: int, names: tuple[str, ...] = (), colors: tuple[RGB, ...] = ()
    ) -> Codes:
        return cls(tuple(range(first_label, first_label + n_classes)), names, colors or class_colors(n_classes))

    def decode(self, raw: IntArray, where: str) -> IntArray:
        known = np.array(self.codes, dtype=np.int64)
        order = np.argsort(known, kind="stable")
        place = np.minimum(np.searchsorted(known[order], raw), len(known) - 1)
        labels = order[place]
        bad = np.flatnonzero((known[labels] != raw) & (raw >= 0))
        if bad.size:
            raise DataError(
                f"{where}: label {raw[bad[0]]} at element {bad[0]} is outside the {len(known)} classes, which are "
                f"written as {known.min()}..{known.max()} ({bad.size} such labels); fix the file, `classes` or "
                "`first_label`"
            )
        return np.where(raw < 0, UNLABELED, labels)

    def decode_raw(self, raw: RawLabels, where: str) -> IntArray:
        """Class numbers from numbers, names or colors."""
        values = raw.values
        if values.ndim == 2:
            return self._of_colors(values, where)
        if values.dtype.kind != "U" and not (raw.classes and self.names):
            return self.decode(values, where)
        found, places = np.unique(values, return_inverse=True)
        names = list(map(str, found))
        if values.dtype.kind != "U":  # the file has its own list of classes
            listed = (*raw.classes, "")
            names = [listed[i] for i in Codes(tuple(range(len(raw.classes)))).decode(found, where)]
        numbers = np.array([self._of_name(name, where) for name in names], dtype=np.int64)
        labels: IntArray = numbers[places]
        return labels

    def _of_name(self, name: str, where: str) -> int:
        if name in self.names:
            return self.names.index(name)
        if name.lower() in NO_NAME:
            return UNLABELED
        close = difflib.get_close_matches(name, self.names, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known classes: {', '.join(self.names) or 'none'}"
        raise DataError(f"{where}: unknown class '{name[:40]}'; {hint}")

    def n_stray(self, raw: RawLabels) -> int:
        """The number of elements whose color is that of no class, and which therefore get the nearest."""
        return int(self._nearest(raw.values)[1].sum()) if raw.values.ndim == 2 else 0

    def _nearest(self, colors: NDArray[Any]) -> tuple[IntArray, NDArray[np.bool_]]:
        """The class with the nearest color, and whether that is another color."""
        palette = np.array([*self.colors, UNLABELED_COLOR], dtype=np.int64)
        found, places = np.unique(colors.astype(np.int64), axis=0, return_inverse=True)
        apart = found[:, None] - palette
        nearest = (apart**2).sum(axis=2).argmin(axis=1)
        stray = np.abs(apart[np.arange(len(found)), nearest]).max(axis=1) > SAME_COLOR
        labels = np.where(nearest == len(self.colors), UNLABELED, nearest)
        return labels[places.reshape(-1)], stray[places.reshape(-1)]

    def _of_colors(self, colors: NDArray[Any], where: str) -> IntArray:
        labels, stray = self._nearest(colors)
        if stray.sum() > _FEW * len(colors):
            color = hex_color(tuple(colors[stray.argmax()].tolist()))
            known = ", ".join(hex_color(color) for color in self.colors)
            raise DataError(
                f"{where}: no class has the color {color} (and {stray.sum():,} of {len(colors):,} elements have such "
                f"colors); the colors are {known}; set `colors` to the color of every class"
            )
        return labels


@dataclass(frozen=True)
class LabelFile:
    """A file with one label per element of kind `kind`, or of kind `stored`, converted by majority.

    It may be the file of the mesh, with the labels `inside`.
    """

    path: Path
    stored: ElementKind
    kind: ElementKind
    codes: Codes
    inside: str = ""

    def raw(self, mesh: Mesh | None = None) -> RawLabels:
        return labels_inside(self.path, mesh, self.inside, self.kind) if self.inside else read_labels(self.path)

    def read(self, mesh: Mesh) -> IntArray:
        where, raw = str(self.path), self.raw(mesh)
        points, labels = raw.points, self.codes.decode_raw(raw, where)
        # The length decides, not the name: there are archives whose .eseg files have a label for every face.
        stored = raw.kind or (self.kind if _fits(labels, mesh, self.kind) else self.stored)
        if points is None and not _fits(labels, mesh, stored):
            points = points_beside(self.path)
        if points is not None and len(points) == len(labels):
            return _of_points(labels, points, mesh, self.kind, where)
        if stored == "f" and mesh.polygons is not None and len(labels) == mesh.polygons.max() + 1 != mesh.n_faces:
            labels = labels[mesh.polygons]  # every triangle gets the label of its polygon
        check_count(labels, mesh, stored, where)
        return convert_labels(labels, mesh, source=stored, to=self.kind)


def n_stray_colors(target: Target, mesh: Mesh) -> int:
    """The number of labels of a mesh that are the nearest class to a color of no class."""
    if not isinstance(target, LabelFile) or (target.inside != "ply:color" and target.path.suffix.lower() != ".ply"):
        return 0
    return target.codes.n_stray(target.raw(mesh))


@dataclass(frozen=True)
class ValueFile:
    """A file with one row of numbers per element of some kind: the targets of a regression."""

    path: Path
    kind: ElementKind

    def read(self, mesh: Mesh) -> NDArray[np.float32]:
        values = read_numbers(self.path)
        check_count(values, mesh, self.kind, str(self.path))
        return values


def check_count(values: NDArray[Any], mesh: Mesh, kind: ElementKind, where: str) -> None:
    """An error if there is not one value per element, with a hint at the element that they match."""
    if _fits(values, mesh, kind):
        return
    counts = mesh.n
    others = [ELEMENT_NAMES[other] for other, n in counts.items() if n == len(values)]
    hint = f"; the count matches one per {others[0]}, so check `element`" if others else ""
    raise DataError(
        f"{where}: {len(values)} labels for mesh '{mesh.name}', which has {counts[kind]} {ELEMENT_NAMES[kind]} "
        f"elements ({counts.v} vertices, {counts.e} edges, {counts.f} faces){hint}"
    )


def _fits(values: NDArray[Any], mesh: Mesh, kind: ElementKind) -> bool:
    if kind == "e":
        return len(values) == mesh.count("e")
    return len(values) == (mesh.n_vertices if kind == "v" else mesh.n_faces)


def _of_points(labels: IntArray, points: FloatArray, mesh: Mesh, kind: ElementKind, where: str) -> IntArray:
    """The label of the nearest point for each element; if the points are the vertices, these vote instead."""
    if len(points) == mesh.n_vertices and np.allclose(points, mesh.vertices, atol=1e-3 * radius(mesh)):
        return convert_labels(labels, mesh, source="v", to=kind)
    distances, nearest = cKDTree(points).query(element_centers(mesh, kind))
    if np.median(distances) > _FAR * radius(mesh):
        raise DataError(
            f"{where}: its {len(points)} points are not on mesh '{mesh.name}' (median distance "
            f"{np.median(distances):.3g}); use the same position and scale for both"
        )
    found: IntArray = labels[nearest]
    return found
