"""Label files and other sources of a target, each read into one array in the order of the mesh file.

A source is a small frozen value with `read(mesh)`. Class numbers run from 0; -1 is unlabelled and ignored everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hodgeformer.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.errors import DataError
from hodgeformer.mesh.elements import UNLABELLED, convert_labels, element_counts
from hodgeformer.mesh.mesh import Attribute, IntArray, Mesh

LABEL_SUFFIXES = (".txt", ".npy", ".seg", ".eseg", ".fseg", ".csv")


class Target(Protocol):
    """Where the target of one mesh comes from."""

    def read(self, mesh: Mesh) -> NDArray[Any]: ...


@dataclass(frozen=True)
class WholeMesh:
    """One class number, or one row of regression targets, for the whole mesh."""

    value: int | tuple[float, ...]

    def read(self, mesh: Mesh) -> NDArray[Any]:
        if isinstance(self.value, int):
            return np.array([self.value], dtype=np.int64)
        return np.array([self.value], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Values:
    """Values per element that are already in memory, in the order of the mesh file."""

    array: NDArray[Any]

    def read(self, mesh: Mesh) -> NDArray[Any]:
        return self.array


@dataclass(frozen=True)
class Codes:
    """How the numbers of a label file become class numbers: class i is written as `codes[i]`, anything below 0 is
    unlabelled."""

    codes: tuple[int, ...]

    @classmethod
    def counted_from(cls, first_label: int, n_classes: int) -> Codes:
        return cls(tuple(range(first_label, first_label + n_classes)))

    def decode(self, raw: IntArray, where: str) -> IntArray:
        known = np.array(self.codes, dtype=np.int64)
        order = np.argsort(known, kind="stable")
        place = np.minimum(np.searchsorted(known[order], raw), len(known) - 1)
        labels = order[place]
        bad = np.flatnonzero((known[labels] != raw) & (raw >= 0))
        if bad.size:
            raise DataError(
                f"{where}: label {raw[bad[0]]} at element {bad[0]} is outside the {len(known)} classes, which are "
                f"written as {known.min()}..{known.max()} ({bad.size} such labels); correct the file, the list of "
                "classes or first_label"
            )
        return np.where(raw < 0, UNLABELLED, labels)


@dataclass(frozen=True)
class LabelFile:
    """A file with one label per element of kind `stored`, carried to elements of kind `kind` by majority."""

    path: Path
    stored: ElementKind
    kind: ElementKind
    codes: Codes

    def read(self, mesh: Mesh) -> IntArray:
        raw = _per_triangle(read_integers(self.path), mesh, self.stored)
        _check_count(len(raw), mesh, self.stored, str(self.path))
        return convert_labels(self.codes.decode(raw, str(self.path)), mesh, source=self.stored, to=self.kind)


@dataclass(frozen=True)
class FileAttribute:
    """Labels that the mesh file carries itself, such as the property `label` of a PLY file."""

    kind: ElementKind
    codes: Codes

    def read(self, mesh: Mesh) -> NDArray[Any]:
        if self.kind == "e":
            raise DataError(f"{mesh.name}: mesh files carry labels per face or vertex, not per edge")
        names: dict[str, Attribute] = {"v": "vertex_labels", "f": "face_labels"}
        name = names[self.kind]
        if name not in mesh.attributes:
            found = ", ".join(mesh.attributes) or "none"
            raise DataError(
                f"{mesh.name}: the mesh file has no {ELEMENT_NAMES[self.kind]} labels (found: {found}); add an integer "
                "property 'label' to that element, or give a folder of label files"
            )
        raw = np.asarray(mesh.attributes[name]).astype(np.int64)
        _check_count(len(raw), mesh, self.kind, mesh.name)
        return self.codes.decode(raw, mesh.name)


@dataclass(frozen=True)
class ValueFile:
    """A file with one row of numbers per element: the targets of a regression."""

    path: Path
    kind: ElementKind

    def read(self, mesh: Mesh) -> NDArray[np.float32]:
        values = read_numbers(self.path)
        _check_count(len(values), mesh, self.kind, str(self.path))
        return values


def read_integers(path: Path) -> IntArray:
    """The integers of a text file (spaces, commas or line breaks between them) or of a one-column .npy file."""
    if path.suffix == ".npy":
        values = _load_npy(path)
    else:
        text = _read_text(path).replace(",", " ").split()
        try:
            values = np.array(text, dtype=np.int64) if text else np.empty(0, dtype=np.int64)
        except (ValueError, OverflowError):
            values = _parse_floats(text, path)
    values = values.reshape(-1) if values.ndim == 2 and 1 in values.shape else values
    if values.ndim != 1:
        raise DataError(f"{path}: expected one label per element, found an array of shape {values.shape}")
    if not np.issubdtype(values.dtype, np.integer):
        whole = np.isfinite(values) & (values == np.round(values))
        if not whole.all():
            at = int(np.flatnonzero(~whole)[0])
            raise DataError(f"{path}: label {values[at]} at element {at} is not a whole number")
    return values.astype(np.int64)


def read_numbers(path: Path) -> NDArray[np.float32]:
    """(n, columns) finite numbers of a text file, one row per line, or of a .npy file."""
    if path.suffix == ".npy":
        values = _load_npy(path)
    else:
        rows = [line.replace(",", " ").split() for line in _read_text(path).splitlines() if line.strip()]
        if len({len(row) for row in rows}) > 1:
            raise DataError(f"{path}: every line must hold the same number of values")
        values = _parse_floats([word for row in rows for word in row], path).reshape(len(rows), -1)
    values = values.reshape(len(values), -1).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise DataError(f"{path}: the value at element {bad[0]} is not finite ({bad.size} such values)")
    return values


def label_file(folder: Path, name: str) -> Path | None:
    """The label file of mesh `name` ("part/scan_1") under a folder: the same path, or the same stem."""
    for stem in dict.fromkeys((name, Path(name).name)):
        for suffix in LABEL_SUFFIXES:
            # Not with_suffix: names may contain dots.
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                return path
    return None


def _per_triangle(raw: IntArray, mesh: Mesh, kind: ElementKind) -> IntArray:
    """Labels of polygons, where a file has them, as labels of the triangles cut from them."""
    if kind == "f" and mesh.polygons is not None and len(raw) == mesh.polygons.max() + 1 != mesh.n_faces:
        return raw[mesh.polygons]
    return raw


def _check_count(found: int, mesh: Mesh, kind: ElementKind, where: str) -> None:
    counts = element_counts(mesh)
    if found == counts[kind]:
        return
    others = [ELEMENT_NAMES[other] for other, n in counts.items() if n == found]
    hint = f"; the count fits one per {others[0]}, so check `element`" if others else ""
    raise DataError(
        f"{where}: {found} labels for mesh '{mesh.name}', which has {counts[kind]} {ELEMENT_NAMES[kind]} elements "
        f"({counts.v} vertices, {counts.e} edges, {counts.f} faces){hint}"
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: the label file is missing; add it or take its mesh out of the data set") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the label file cannot be read as text ({error})") from None


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        values: NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path}: the label file is missing; add it or take its mesh out of the data set") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: the label file cannot be read as a NumPy array ({error})") from None
    if values.dtype.kind not in "biuf":
        raise DataError(f"{path}: expected an array of numbers, found {values.dtype}")
    return values


def _parse_floats(words: list[str], path: Path) -> NDArray[np.float64]:
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        for at, word in enumerate(words):
            try:
                float(word)
            except ValueError:
                raise DataError(f"{path}: value {at} is not a number: {word[:40]!r}") from None
        raise
