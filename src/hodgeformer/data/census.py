"""One pass over all meshes of a data set before training: problems, sizes, class balance, copies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.data.dataset import CountedMesh, DataSet, Sample
from hodgeformer.data.labels import n_stray_colors
from hodgeformer.data.measured import asymmetry, column_counts, measured_columns, shape_hash, unfit
from hodgeformer.mesh.elements import element_areas, radius, unit_edge_lengths
from hodgeformer.mesh.geometry import to_unit_sphere
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.simplify import simplify

Place = tuple[str, Sample]
"""A sample and the split it is in, which comes first."""

_LONGEST = 400  # characters of a message about one mesh, of several
_SIMPLIFIED = 6  # meshes, to see which classes simplification keeps
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Problem:
    """A mesh that cannot be used, and why."""

    name: str
    split: str
    message: str


Found = dict[str, CountedMesh | Problem]
"""By name."""


@dataclass(frozen=True, eq=False)
class Census:
    """The findings, in the order of the data set; `dataset` contains only the usable meshes.

    `reads` are the names of the columns that a model reads: meshes that differ in them are not copies.
    """

    dataset: DataSet
    meshes: tuple[CountedMesh, ...]
    problems: tuple[Problem, ...]
    reads: tuple[str, ...] = ()

    @property
    def training(self) -> tuple[CountedMesh, ...]:
        return self.of_split("train")

    def of_split(self, split: str) -> tuple[CountedMesh, ...]:
        return tuple(mesh for mesh in self.meshes if mesh.split == split)

    @property
    def labels(self) -> NDArray[Any]:
        """The sum of the labels of the training meshes."""
        total: NDArray[Any] = np.sum([mesh.labels for mesh in self.training], axis=0)
        return total

    def shares_at(self, n_faces: int) -> NDArray[np.float64]:
        """(2, classes): the share of each class among the elements of a few training meshes, and after simplification.

        A thin class may vanish: every element gets the label that most of it had.
        """
        if n_faces not in self._shares:
            counts = np.zeros((2, len(self.dataset.classes)))
            for sample in self.dataset.split("train")[:: -(-len(self.training) // _SIMPLIFIED)]:
                mesh, target = self.dataset.load(sample)
                small = simplify(mesh, n_faces)
                assert self.dataset.kind is not None
                for row, labels in enumerate((target, small.labels_over(target, self.dataset.kind))):
                    counts[row] += np.bincount(labels[labels >= 0], minlength=counts.shape[1])
            self._shares[n_faces] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return self._shares[n_faces]

    @cached_property
    def _shares(self) -> dict[int, NDArray[np.float64]]:
        return {}

    @property
    def fingerprint(self) -> str:
        """Changes with the shapes, labels, names or order of the training meshes."""
        digest = hashlib.sha256()
        for mesh in self.training:
            digest.update(f"{mesh.name} {mesh.identity(self.reads)} ".encode())
            digest.update(np.ascontiguousarray(mesh.labels).tobytes())
        return digest.hexdigest()

    @property
    def copies(self) -> tuple[tuple[CountedMesh, ...], ...]:
        """Groups of meshes of the same shape."""
        groups: dict[str, list[CountedMesh]] = {}
        for mesh in self.meshes:
            groups.setdefault(mesh.identity(self.reads), []).append(mesh)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    @property
    def leaks(self) -> tuple[tuple[CountedMesh, ...], ...]:
        """Copies that span several splits."""
        return tuple(group for group in self.copies if len({mesh.split for mesh in group}) > 1)

    @property
    def learned(self) -> tuple[str, ...]:
        """The names of copies of training meshes in other splits."""
        trained = {mesh.identity(self.reads) for mesh in self.training}
        others = (mesh for mesh in self.meshes if mesh.split != "train")
        return tuple(mesh.name for mesh in others if mesh.identity(self.reads) in trained)

    @property
    def ok(self) -> bool:
        return not self.problems and not self.leaks

    @property
    def warnings(self) -> tuple[str, ...]:
        """Leaks between splits, copies, classes that cannot be learned."""
        leaks = self.leaks
        found = [*self.dataset.notes, *(f"the same shape is in several splits: {_listed(group)}" for group in leaks)]
        found += [
            f"the same shape occurs more than once: {_listed(group)}" for group in self.copies if group not in leaks
        ]
        if stray := [mesh for mesh in self.meshes if mesh.n_stray]:
            listed = ", ".join(f"{mesh.name} ({mesh.n_stray:,})" for mesh in stray[:9])
            more = f" and {len(stray) - 9} other meshes" if len(stray) > 9 else ""
            found.append(f"elements with a color of no class get the class of the nearest color: {listed}{more}")
        if "train" not in self.dataset.splits:
            found.append("there is no training split; this data set can only be used for evaluation")
        elif self.training and self.untrained:
            found.append(self.untrained)
        return tuple(found)

    @property
    def untrained(self) -> str:
        """A warning about classes that no training mesh has, and how much of the other splits they are."""
        counts = {split: np.array(n) for split, n in self.class_counts.items()}
        missing = np.flatnonzero(counts.get("train", np.ones(1)) == 0)
        shares = {split: n[missing].sum() / max(n.sum(), 1) for split, n in counts.items()}
        lost = ", ".join(f"{share:.1%} of the labels in {split}" for split, share in shares.items() if share)
        listed = ", ".join(self.dataset.classes[i] for i in missing[:8]) + (" and others" if len(missing) > 8 else "")
        about = f"classes without training meshes, which are never predicted: {listed}"
        return "" if not len(missing) else f"{about} ({lost})" if lost else about

    @property
    def class_counts(self) -> dict[str, list[int]]:
        """Labeled elements (or meshes) of each class in each split; a regression has none."""
        if not self.dataset.classes:
            return {}
        nothing = np.zeros(len(self.dataset.classes), dtype=np.int64)
        counts = {split: sum((m.labels for m in self.of_split(split)), nothing) for split in self.dataset.splits}
        return {split: n.tolist() for split, n in counts.items()}

    @property
    def unlabeled(self) -> dict[str, int]:
        return {split: sum(mesh.n_unlabelled for mesh in self.of_split(split)) for split in self.class_counts}

    def without(self, names: Collection[str]) -> Census:
        """Only the training meshes, of which those with the names are the split "unseen"."""
        training = self.dataset.split("train")
        splits = {
            "train": [sample for sample in training if sample.name not in names],
            "unseen": [sample for sample in training if sample.name in names],
        }
        meshes = [replace(mesh, split="unseen") if mesh.name in names else mesh for mesh in self.training]
        return Census(self.dataset.with_splits(splits), tuple(meshes), ())

    def usable(self, *, skip_bad: bool) -> DataSet:
        """The data set without its bad meshes if they may be skipped; otherwise an error that names them."""
        if self.problems and not skip_bad:
            first = "; ".join(shortened(problem.message) for problem in self.problems[:3])
            others = f"; and {len(self.problems) - 3} more" if len(self.problems) > 3 else ""
            raise DataError(
                f"some meshes ({len(self.problems)}) cannot be used: {first}{others}; fix the data, or skip such "
                "meshes with --skip-bad"
            )
        for split, samples in self.dataset.splits.items():
            if not samples:
                raise DataError(f"{self.dataset.name}: no mesh of split '{split}' can be used")
        return self.dataset

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        dataset = self.dataset
        return {
            "name": dataset.name,
            "task": dataset.task,
            "element": dataset.element,
            "classes": list(dataset.classes),
            "splits": {split: len(samples) for split, samples in dataset.splits.items()},
            "class_counts": self.class_counts,
            "unlabeled": self.unlabeled,
            "columns": column_counts(mesh.columns for mesh in self.meshes),
            "problems": [vars(problem) for problem in self.problems],
            "leaks": [[[mesh.split, mesh.name] for mesh in group] for group in self.leaks],
            "warnings": list(self.warnings),
            "ok": self.ok,
        }


def take_census(
    dataset: DataSet,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    share: Callable[[Sequence[Place]], Sequence[Place]] = lambda places: places,
    collect: Callable[[Found], list[Found]] = lambda found: [found],
    visit: Callable[[Sample, Mesh, NDArray[Any]], None] | None = None,
    again: bool = False,
    reads: Sequence[str] = (),
) -> Census:
    """Read every mesh and its target once, except those that the data set has counted already.

    `progress(done, total)` is called after each mesh, `visit` with every usable one. With several processes, `share`
    returns the part of this one, and `collect` the findings of all. `again` also reads meshes that are counted
    already, and compares. A mesh without one of the columns `reads` cannot be used.
    """
    places = [(split, sample) for split, samples in dataset.splits.items() for sample in samples]
    known: Found = {
        sample.name: replace(dataset.counted[sample.name], split=split)
        for split, sample in places
        if sample.name in dataset.counted and not (again or visit)
    }
    mine = share([place for place in places if place[1].name not in known])
    found: Found = {}
    for done, place in enumerate(mine, 1):
        found[place[1].name] = _looked_at(dataset, visit, place)
        progress(done, len(mine))
    everything = known | {name: one for part in collect(found) for name, one in part.items()}
    ordered = [_with_columns(place, everything[place[1].name], reads) for place in places]
    meshes = tuple(one for one in ordered if isinstance(one, CountedMesh))
    problems = tuple(one for one in ordered if isinstance(one, Problem))
    if problems:
        usable = {mesh.name for mesh in meshes}
        kept = {split: [s for s in members if s.name in usable] for split, members in dataset.splits.items()}
        dataset = dataset.with_splits(kept)
    return Census(dataset, meshes, problems, tuple(reads))


def _with_columns(place: Place, found: CountedMesh | Problem, reads: Sequence[str]) -> CountedMesh | Problem:
    """The same, or a problem if one of the columns is missing or has values that are not numbers."""
    wrong = "" if isinstance(found, Problem) else unfit(found.columns, reads)
    return Problem(place[1].name, place[0], f"{place[1].where}: {wrong}") if wrong else found


def _looked_at(
    dataset: DataSet, visit: Callable[[Sample, Mesh, NDArray[Any]], None] | None, place: Place
) -> CountedMesh | Problem:
    split, sample = place
    try:
        mesh, target = dataset.load(sample)
        counted = _counted(dataset, sample, split, mesh, target)
        _compare(counted, dataset.counted.get(sample.name))
        if visit is not None:
            visit(sample, mesh, target)
        return counted
    except Exception as error:  # reported with its mesh; the others continue
        return _problem(place, error)


def _compare(found: CountedMesh, stated: CountedMesh | None) -> None:
    """Where an index states what is in a mesh, it has to be true."""
    for key in ("n", "labels", "n_unlabelled", "shape", "columns") if stated else ():
        one, other = getattr(found, key), getattr(stated, key)
        if not (one == other if key == "columns" else np.array_equal(np.asarray(one), np.asarray(other))):
            what = {"n": "vertices, edges and faces", "n_unlabelled": "unlabeled elements"}.get(key, key)
            raise DataError(
                f"{found.name}: the index of the shards does not match the archive: {what} {other} instead of {one}; "
                "write the shards again"
            )


def _problem(place: Place, error: Exception) -> Problem:
    split, sample = place
    if not isinstance(error, HodgeFormerError):
        message = f"{sample.where}: unexpected {type(error).__name__} ({error}); please report this"
    else:
        named = sample.name in str(error) or sample.where in str(error)
        message = str(error) if named else f"{sample.where}: {error}"
    return Problem(sample.name, split, message)


def _counted(dataset: DataSet, sample: Sample, split: str, mesh: Mesh, target: NDArray[Any]) -> CountedMesh:
    lengths = unit_edge_lengths(mesh)
    return CountedMesh(
        name=sample.name,
        split=split,
        n=PerElement(mesh.n_vertices, len(lengths), mesh.n_faces),
        labels=_labels(dataset, target),
        n_unlabelled=int((target < 0).sum()) if dataset.classes else 0,
        shares=_shares(dataset, target, mesh),
        radius=radius(mesh),
        edge_lengths=np.quantile(lengths, QUANTILES),
        asymmetry=asymmetry(mesh) if dataset.kind is None else 0.0,
        shape=shape_hash(mesh),
        columns=measured_columns(mesh),
        n_stray=n_stray_colors(sample.target, mesh),
    )


def _labels(dataset: DataSet, target: NDArray[Any]) -> NDArray[Any]:
    if dataset.task == "regression":
        values = target.astype(np.float64)
        return np.stack([np.full(values.shape[1], len(values)), values.sum(axis=0), (values**2).sum(axis=0)])
    return np.bincount(target[target >= 0], minlength=len(dataset.classes))


def _shares(dataset: DataSet, target: NDArray[Any], mesh: Mesh) -> NDArray[np.float64]:
    if dataset.task != "segmentation" or dataset.kind is None:
        return np.ones(1)
    areas = element_areas(mesh.with_vertices(to_unit_sphere(mesh.vertices, mesh.faces)), dataset.kind)
    known = target >= 0
    covered = np.bincount(target[known], areas[known], len(dataset.classes))
    return covered / max(float(areas.sum()), np.finfo(float).tiny)


def shortened(message: str) -> str:
    """A message whose names may have any length, as in a damaged index."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"


def _listed(group: tuple[CountedMesh, ...]) -> str:
    shown = ", ".join(f"{mesh.split}: {mesh.name}" for mesh in group[:4])
    return shown + (f" and {len(group) - 4} more" if len(group) > 4 else "")
