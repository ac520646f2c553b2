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

LABEL_SUFFIXES = (".txt", ".npy", ".seg", ".eseg", ".seseg", ".fseg", ".csv")
COUNTED: dict[str, ElementKind] = {".eseg": "e", ".seseg": "e", ".fseg": "f"}
"""What a label file counts by its suffix."""
_LARGEST = 1 << 53  # beyond it floating-point numbers are no longer whole ones


class Target(Protocol):
    """Where the target of one mesh comes from."""

    def read(self, mesh: Mesh) -> NDArray[Any]: ...


@dataclass(frozen=True)
class WholeMesh:
    """One class number, or one row of regression targets, for the whole mesh."""

    value: int | tuple[float, ...]

    def read(self, mesh: Mesh) -> NDArray[Any]:
        return np.array([self.value], dtype=np.int64 if isinstance(self.value, int) else np.float32)


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
    """A file with one label per element of kind `kind`, or else of kind `stored`, carried over by majority."""

    path: Path
    stored: ElementKind
    kind: ElementKind
    codes: Codes

    def read(self, mesh: Mesh) -> IntArray:
        where = str(self.path)
        if self.path.suffix == ".seseg":
            raw = _strongest(read_numbers(self.path), self.codes, where)
        else:
            raw = read_integers(self.path)
        # The length decides, not the name: there are archives whose .eseg files have a label for every face.
        stored = self.kind if _fits(raw, mesh, self.kind) else self.stored
        if stored == "f" and mesh.polygons is not None and len(raw) == mesh.polygons.max() + 1 != mesh.n_faces:
            raw = raw[mesh.polygons]  # of the triangles that were cut from a polygon
        check_count(raw, mesh, stored, where)
        return convert_labels(self.codes.decode(raw, where), mesh, source=stored, to=self.kind)


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
        return self.codes.decode(_whole(np.asarray(mesh.attributes[name]), mesh.name), mesh.name)


@dataclass(frozen=True)
class ValueFile:
    """A file with one row of numbers per element of some kind: the targets of a regression."""

    path: Path
    kind: ElementKind

    def read(self, mesh: Mesh) -> NDArray[np.float32]:
        values = read_numbers(self.path)
        check_count(values, mesh, self.kind, str(self.path))
        return values


def read_integers(path: Path) -> IntArray:
    """The integers of a text file (spaces, commas or line breaks between them) or of a one-column .npy file."""
    values = _load_npy(path) if path.suffix == ".npy" else _parsed(read_text(path).replace(",", " ").split(), path)
    values = values.reshape(-1) if values.ndim == 2 and 1 in values.shape else values
    if values.ndim != 1:
        raise DataError(f"{path}: expected one label per element, found an array of shape {values.shape}")
    return _whole(values, str(path))


def read_numbers(path: Path) -> NDArray[np.float32]:
    """(n, columns) finite numbers of a text file, one row per line, or of a .npy file."""
    if path.suffix == ".npy":
        values = _load_npy(path)
    else:
        rows = [line.replace(",", " ").split() for line in read_text(path).splitlines() if line.strip()]
        if len({len(row) for row in rows}) > 1:
            raise DataError(f"{path}: every line must hold the same number of values")
        values = _parsed([word for row in rows for word in row], path).reshape(len(rows), -1 if rows else 0)
    with np.errstate(over="ignore"):  # what is too large for single precision is not finite
        values = values.reshape(len(values), -1 if values.size else 0).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise DataError(f"{path}: the value at element {bad[0]} is not finite ({bad.size} such values)")
    return values


def label_files(folder: Path) -> dict[str, Path]:
    """The label files below a folder by their paths without suffix ("part/scan_1"); of several the first suffix."""
    found = [path for path in folder.rglob("*") if path.suffix in LABEL_SUFFIXES]
    found.sort(key=lambda path: LABEL_SUFFIXES.index(path.suffix), reverse=True)
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def check_count(values: NDArray[Any], mesh: Mesh, kind: ElementKind, where: str) -> None:
    """An error where there is not one value per element, with a hint at the element that they fit."""
    if _fits(values, mesh, kind):
        return
    counts = element_counts(mesh)
    others = [ELEMENT_NAMES[other] for other, n in counts.items() if n == len(values)]
    hint = f"; the count fits one per {others[0]}, so check `element`" if others else ""
    raise DataError(
        f"{where}: {len(values)} labels for mesh '{mesh.name}', which has {counts[kind]} {ELEMENT_NAMES[kind]} "
        f"elements ({counts.v} vertices, {counts.e} edges, {counts.f} faces){hint}"
    )


def _fits(values: NDArray[Any], mesh: Mesh, kind: ElementKind) -> bool:
    if kind == "e":
        return len(values) == element_counts(mesh).e
    return len(values) == (mesh.n_vertices if kind == "v" else mesh.n_faces)


def _strongest(shares: NDArray[np.float32], codes: Codes, where: str) -> IntArray:
    """Of soft labels, a row of shares per element, the class with the largest one; unlabelled where all are zero."""
    if shares.shape[1] > len(codes.codes):
        raise DataError(f"{where}: {shares.shape[1]} soft labels per element for {len(codes.codes)} classes")
    known = np.array(codes.codes, dtype=np.int64)
    return np.where(shares.any(axis=1), known[shares.argmax(axis=1)], UNLABELLED)


def _whole(values: NDArray[Any], where: str) -> IntArray:
    """Numbers as int64, refused where they are not whole or so large that they would become others."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.isfinite(values) & (values == np.round(values)) & (abs(values) <= _LARGEST)))
    if bad.size:
        raise DataError(f"{where}: label {values[bad[0]]} at element {bad[0]} is not a whole number, or far too large")
    return values.astype(np.int64)


def read_text(path: Path) -> str:
    """The text of a label file or table."""
    _check_file(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the label file cannot be read as text ({error})") from None


def _load_npy(path: Path) -> NDArray[Any]:
    _check_file(path)
    try:
        # Mapped, a header that promises more than the file holds costs no memory.
        values: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        kind = values.dtype.kind
    except Exception as error:  # NumPy answers damaged headers with errors of many kinds
        raise DataError(f"{path}: the label file cannot be read as a NumPy array ({error})") from None
    if kind not in "biuf":
        raise DataError(f"{path}: expected an array of numbers, found {values.dtype}")
    return np.array(values)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: the label file is missing; add it or take its mesh out of the data set")
    if not path.is_file():  # a pipe would never end
        raise DataError(f"{path}: this is no file that labels could be read from")


def _parsed(words: list[str], path: Path) -> NDArray[Any]:
    try:
        return np.array(words, dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        for at, word in enumerate(words):
            try:
                float(word)
            except ValueError:
                raise DataError(f"{path}: value {at} is not a number: {word[:40]!r}") from None
        raise
