"""A data set: named meshes with targets, in splits. Meshes are read on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KIND_OF, Element, ElementKind, PerElement, Task
from hodgeformer.base.errors import DataError, MeshError
from hodgeformer.base.palette import RGB, class_colors
from hodgeformer.data.labels import Target, check_count
from hodgeformer.data.measured import MeasuredColumns, identity
from hodgeformer.mesh.elements import UNLABELED
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import IntArray, Mesh

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class CountedMesh:
    """Counts and measures of a usable mesh.

    `labels` are its labeled elements per class, or for a regression the rows (count, sum, sum of squares) of its
    values. `shares` are the area shares of the classes, in a segmentation. `radius` is in the units of the file,
    `edge_lengths` are quantiles at unit size. `asymmetry` is the distance of a mesh with a single target to its mirror
    image, `shape` is a hash. `n_stray` labels are colors of no class, which count as the nearest. `columns` are all
    that the mesh has.
    """

    name: str
    split: str
    n: PerElement[int]
    labels: NDArray[Any]
    n_unlabelled: int
    shares: NDArray[np.float64]
    radius: float
    edge_lengths: NDArray[np.float64]
    asymmetry: float
    shape: str
    n_stray: int = 0
    columns: MeasuredColumns = field(default_factory=dict)

    def identity(self, reads: Iterable[str]) -> str:
        """Equal for copies in the eyes of a model that reads these columns."""
        return identity(self.shape, self.columns, reads)


@dataclass(frozen=True, eq=False)
class Sample:
    """One mesh (a file or in memory) and the source of its target; the name is unique in the data set.

    Meshes of one `group` have one source, such as a person, and are more similar to each other than to others.
    """

    name: str
    mesh: Path | Mesh
    target: Target
    group: str = ""

    @property
    def source(self) -> str:
        """Its group, or if there is none the mesh itself."""
        return self.group or self.name

    @property
    def where(self) -> str:
        return self.name if isinstance(self.mesh, Mesh) else str(self.mesh)


@dataclass(frozen=True, eq=False)
class DataSet:
    """A task with its meshes and targets, in splits.

    `element` is what a target belongs to; "mesh" for a class or a value of the whole mesh. `classes` are the class
    names in label order, empty for a regression, which has `n_values` columns instead. `notes` are shown to the user.
    `counted` are meshes, by name, whose sizes and labels are known without reading them.
    """

    name: str
    task: Task
    element: Element
    splits: Mapping[str, tuple[Sample, ...]]
    classes: tuple[str, ...] = ()
    colors: tuple[RGB, ...] = ()
    n_values: int = 1
    notes: tuple[str, ...] = ()
    counted: Mapping[str, CountedMesh] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.task == "classification" and self.element != "mesh":
            raise DataError(f"{self.name}: in a classification the label belongs to the mesh, not the {self.element}")
        if self.task == "segmentation" and self.element == "mesh":
            raise DataError(f"{self.name}: in a segmentation a label belongs to a face, a vertex or an edge")
        if self.task != "regression" and len(self.classes) < 2:
            raise DataError(f"{self.name}: at least two classes are needed, found {list(self.classes)}")
        if len(set(self.classes)) < len(self.classes):
            raise DataError(f"{self.name}: class names must be unique, found {list(self.classes)}")
        colors = self.colors or class_colors(len(self.classes))
        if len(colors) != len(self.classes):
            raise DataError(f"{self.name}: {len(colors)} colors for {len(self.classes)} classes; set one for each")
        wrong = [color for color in colors if not all(0 <= part <= 255 for part in color)]
        if wrong:
            raise DataError(f"{self.name}: the components of a color must be 0 to 255, found {list(wrong[0])}")
        object.__setattr__(self, "colors", tuple(colors))
        seen: set[str] = set()
        for sample in self.samples:
            if sample.name in seen:
                raise DataError(
                    f"{self.name}: mesh '{sample.name}' occurs twice; names must be unique, also across splits"
                )
            seen.add(sample.name)

    @property
    def kind(self) -> ElementKind | None:
        """The element kind of the target, None for the whole mesh."""
        return KIND_OF.get(self.element)

    @property
    def n_outputs(self) -> int:
        """The number of outputs of a model for this data set."""
        return self.n_values if self.task == "regression" else len(self.classes)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples of all splits."""
        return tuple(sample for split in self.splits.values() for sample in split)

    def split(self, name: str) -> tuple[Sample, ...]:
        """The samples of a split, at least one."""
        if name not in self.splits:
            raise DataError(f"{self.name}: unknown split '{name}'; found {', '.join(self.splits) or 'none'}")
        if not self.splits[name]:
            raise DataError(f"{self.name}: split '{name}' is empty; add at least one mesh")
        return self.splits[name]

    def load(self, sample: Sample) -> tuple[Mesh, NDArray[Any]]:
        """The mesh and its target in the order of the file: class numbers (int64) or values (float32, n x columns).

        The target of a whole mesh has one row.
        """
        mesh = _read_mesh(sample)
        target = sample.target.read(mesh)
        self._check_target(target, mesh, sample)
        return mesh, target

    def with_splits(self, splits: Mapping[str, Iterable[Sample]]) -> DataSet:
        return replace(self, splits={name: tuple(samples) for name, samples in splits.items()})

    def with_classes(self, classes: tuple[str, ...]) -> DataSet:
        """The same labels numbered by another list of class names, such as that of a trained model."""
        missing = [name for name in self.classes if name not in classes]
        if missing:
            raise DataError(
                f"{self.name}: class '{missing[0]}' is not among the classes {', '.join(classes)}; "
                f"rename or remove the unknown classes ({len(missing)})"
            )
        if classes == self.classes:
            return self
        color_of = dict(zip(self.classes, self.colors, strict=True))
        colors = tuple(color_of.get(name, own) for name, own in zip(classes, class_colors(len(classes)), strict=True))
        numbers = tuple(classes.index(name) for name in self.classes)

        def renumbered(sample: Sample) -> Sample:
            return replace(sample, target=Renumbered(sample.target, numbers))

        splits = {split: tuple(renumbered(s) for s in members) for split, members in self.splits.items()}
        return replace(self, classes=classes, colors=colors, splits=splits, counted={})

    def _check_target(self, target: NDArray[Any], mesh: Mesh, sample: Sample) -> None:
        if self.kind is not None:
            check_count(target, mesh, self.kind, sample.where)
        elif len(target) != 1:
            raise DataError(f"{sample.where}: {len(target)} targets for one mesh, expected 1")
        if self.task == "regression":
            expected = (len(target), self.n_values)
            if target.shape != expected:
                raise DataError(f"{sample.where}: targets of shape {target.shape}, expected {expected}")
            return
        bad = np.flatnonzero((target < UNLABELED) | (target >= len(self.classes)))
        if bad.size:
            raise DataError(
                f"{sample.where}: label {target[bad[0]]} at {self.element} {bad[0]} is out of range for "
                f"{len(self.classes)} classes"
            )


@dataclass(frozen=True)
class Renumbered:
    """The labels of another source, with label i replaced by numbers[i]."""

    source: Target
    numbers: tuple[int, ...]

    def read(self, mesh: Mesh) -> IntArray:
        labels = self.source.read(mesh)
        table = np.array([*self.numbers, UNLABELED], dtype=np.int64)  # the last entry is for -1
        renumbered: IntArray = table[labels]
        return renumbered


def _read_mesh(sample: Sample) -> Mesh:
    """The mesh, with the name of the sample."""
    if isinstance(sample.mesh, Mesh):
        mesh = sample.mesh
    else:
        try:
            mesh = load_mesh(sample.mesh)
        except MeshError as error:
            text = str(error)
            raise type(error)(text if str(sample.mesh) in text else f"{sample.where}: {text}") from None
    return mesh if mesh.name == sample.name else replace(mesh, name=sample.name)
