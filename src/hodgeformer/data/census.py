"""Look at every mesh of a data set before anything is learned from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.data.cache import Cache, load_cached
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.errors import DataError, HodgeFormerError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.order import canonical_faces
from hodgeformer.mesh.topology import repeats_a_vertex


@dataclass(frozen=True)
class Problem:
    """A mesh that cannot be used, and why."""

    name: str
    split: str
    message: str


@dataclass(frozen=True, eq=False)
class DataReport:
    """What was found. `dataset` holds only the usable meshes.

    `class_counts[split][i]` counts the labelled elements (or meshes) of class i, `unlabelled[split]` the others.
    `n_faces[name]` is the size of a mesh. `copies` are groups of meshes of the same shape, as (split, name); a group
    that spans several splits is a leak.
    """

    dataset: DataSet
    problems: tuple[Problem, ...]
    copies: tuple[tuple[tuple[str, str], ...], ...]
    class_counts: Mapping[str, tuple[int, ...]]
    unlabelled: Mapping[str, int]
    n_faces: Mapping[str, int]

    @property
    def leaks(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        return tuple(group for group in self.copies if len({split for split, _ in group}) > 1)

    @property
    def ok(self) -> bool:
        return not self.problems and not self.leaks

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is no mistake in itself but is worth knowing: leaks, copies, classes that cannot be learned."""
        found = [f"the same shape is in several splits: {_listed(group)}" for group in self.leaks]
        found += [f"the same shape occurs more than once: {_listed(g)}" for g in self.copies if g not in self.leaks]
        counts = self.class_counts.get("train", ())
        missing = [name for name, n in zip(self.dataset.classes, counts, strict=False) if n == 0]
        if counts and missing:
            found.append(f"no training mesh shows {', '.join(missing[:8])}{' and others' if len(missing) > 8 else ''}")
        if not self.dataset.splits.get("train"):
            found.append("there is no training split, so this data set can only be evaluated on")
        return tuple(found)

    def usable(self, *, skip_bad: bool = False) -> DataSet:
        """The data set without its bad meshes; with any, an error that names them unless skip_bad is set."""
        if self.problems and not skip_bad:
            first = "; ".join(problem.message for problem in self.problems[:3])
            others = f" (and {len(self.problems) - 3} others)" if len(self.problems) > 3 else ""
            raise DataError(f"{len(self.problems)} of the meshes cannot be used: {first}{others}; repair or skip them")
        for split, samples in self.dataset.splits.items():
            if not samples:
                raise DataError(f"{self.dataset.name}: no mesh of split '{split}' can be used")
        return self.dataset

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        dataset = self.dataset
        return {
            "name": dataset.name,
            "task": dataset.task,
            "element": dataset.element,
            "classes": list(dataset.classes),
            "splits": {split: len(samples) for split, samples in dataset.splits.items()},
            "class_counts": {split: list(counts) for split, counts in self.class_counts.items()},
            "unlabelled": dict(self.unlabelled),
            "problems": [vars(problem) for problem in self.problems],
            "leaks": [[list(place) for place in group] for group in self.leaks],
            "warnings": list(self.warnings),
            "ok": self.ok,
        }


def verify(
    dataset: DataSet, *, progress: Callable[[int, int], None] | None = None, cache: Cache | None = None
) -> DataReport:
    """Read every mesh and its labels: counts, values, class balance, copies within and between splits.

    `progress(done, total)` is called after each mesh.
    """
    problems: list[Problem] = []
    usable: list[Sample] = []
    places: dict[str, list[tuple[str, str]]] = {}
    counts = {split: np.zeros(len(dataset.classes) + 1, dtype=np.int64) for split in dataset.splits}
    n_faces: dict[str, int] = {}
    todo = [(split, sample) for split, samples in dataset.splits.items() for sample in samples]
    for done, (split, sample) in enumerate(todo):
        try:
            mesh, target = load_cached(cache, dataset, sample)
        except HodgeFormerError as error:
            message = str(error) if sample.name in str(error) else f"{sample.where}: {error}"
            problems.append(Problem(sample.name, split, message))
        else:
            usable.append(sample)
            n_faces[sample.name] = mesh.n_faces
            places.setdefault(shape_hash(mesh), []).append((split, sample.name))
            counts[split] += _count(target, len(dataset.classes))
        if progress is not None:
            progress(done + 1, len(todo))
    return DataReport(
        dataset=dataset.keep(usable) if problems else dataset,
        problems=tuple(problems),
        copies=tuple(tuple(group) for group in places.values() if len(group) > 1),
        class_counts={split: tuple(n[1:].tolist()) for split, n in counts.items()} if dataset.classes else {},
        unlabelled={split: int(n[0]) for split, n in counts.items()} if dataset.classes else {},
        n_faces=n_faces,
    )


def shape_hash(mesh: Mesh) -> str:
    """Equal for copies of a mesh however they are numbered, moved or scaled (not turned)."""
    faces = mesh.faces[~repeats_a_vertex(mesh.faces)]
    used, corners = np.unique(faces, return_inverse=True)
    points = mesh.vertices[used]
    low = points.min(axis=0) if len(points) else np.zeros(3)
    extent = float((points - low).max()) if len(points) else 0.0
    grid = np.rint((points - low) / (extent or 1.0) * 1e5).astype(np.int64)
    places, number = np.unique(grid, axis=0, return_inverse=True)
    digest = hashlib.sha256(places.tobytes())
    if len(faces):
        digest.update(canonical_faces(number.reshape(-1)[corners.reshape(-1, 3)])[0].tobytes())
    return digest.hexdigest()


def _count(target: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """How often -1, 0, 1, ... occur."""
    if not n_classes:
        return np.zeros(1, dtype=np.int64)
    return np.bincount(target + 1, minlength=n_classes + 1).astype(np.int64)


def _listed(group: tuple[tuple[str, str], ...]) -> str:
    shown = ", ".join(f"{split}: {name}" for split, name in group[:4])
    return shown + (f" and {len(group) - 4} more" if len(group) > 4 else "")
