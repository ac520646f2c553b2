"""What is in the data, looked at once before training: bad meshes, sizes, class balance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.checkpoint import DataStatistics
from hodgeformer.containers import KINDS, PerElement
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.verify import shape_hash
from hodgeformer.errors import DataError, HodgeFormerError
from hodgeformer.mesh.elements import element_counts, file_edges
from hodgeformer.mesh.geometry import norms, to_unit_sphere
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.train.distributed import Processes

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Entry:
    """One mesh: element counts, labels per class (or sums of values), radius in the file, edge lengths at unit size."""

    split: str
    name: str
    n: PerElement[int]
    labels: NDArray[Any]
    radius: float
    edge_lengths: tuple[float, ...]
    shape: str


@dataclass(frozen=True, eq=False)
class Inventory:
    """The meshes of the training split, in order; the bad meshes of all splits with the reason; and `leaks`, meshes of
    other splits whose shape the training split holds too."""

    entries: tuple[Entry, ...]
    bad: dict[str, str]
    leaks: tuple[str, ...] = ()

    @property
    def n_faces(self) -> list[int]:
        return [entry.n.f for entry in self.entries]

    @property
    def labels(self) -> NDArray[Any]:
        """Labels per class; for a regression the rows (count, sum, sum of squares)."""
        total: NDArray[Any] = np.sum([entry.labels for entry in self.entries], axis=0)
        return total

    @property
    def fingerprint(self) -> str:
        """Changes with the shapes, labels, names or order of the training meshes."""
        digest = hashlib.sha256()
        for entry in self.entries:
            digest.update(f"{entry.name} {entry.shape} ".encode() + np.ascontiguousarray(entry.labels).tobytes())
        return digest.hexdigest()

    def statistics(self) -> DataStatistics:
        def spread(values: Sequence[float]) -> tuple[float, float, float]:
            return float(min(values)), float(np.median(values)), float(max(values))

        lengths = np.mean([entry.edge_lengths for entry in self.entries], axis=0)
        q5, q25, q50, q75, q95 = (float(length) for length in lengths)
        return DataStatistics(
            n_meshes=len(self.entries),
            n={kind: spread([entry.n[kind] for entry in self.entries]) for kind in KINDS},
            size=spread([entry.radius for entry in self.entries]),
            edge_length=(q5, q25, q50, q75, q95),
        )


def take_inventory(
    dataset: DataSet, processes: Processes, progress: Callable[[int, int], None] | None = None
) -> Inventory:
    """Read every mesh once, each process its share."""
    samples = [(split, sample) for split in dataset.splits for sample in dataset.split(split)]
    entries: dict[str, Entry] = {}
    bad: dict[str, str] = {}
    mine = processes.share(samples)
    for done, (split, sample) in enumerate(mine):
        try:
            entries[sample.name] = _entry(dataset, sample, split)
        except HodgeFormerError as error:
            named = sample.name in str(error) or sample.where in str(error)
            bad[sample.name] = str(error) if named else f"{sample.where}: {error}"
        if progress is not None:
            progress(done + 1, len(mine))
    for part_entries, part_bad in processes.collect((entries, bad)):
        entries |= part_entries
        bad |= part_bad
    training = [entries[sample.name] for sample in dataset.split("train") if sample.name in entries]
    seen = {entry.shape for entry in training}
    leaks = sorted(entry.name for entry in entries.values() if entry.split != "train" and entry.shape in seen)
    return Inventory(tuple(training), dict(sorted(bad.items())), tuple(leaks))


def without_bad(dataset: DataSet, inventory: Inventory, *, skip: bool) -> DataSet:
    """The data set without its bad meshes if they may be skipped; an error that names them if not."""
    if not inventory.bad:
        return dataset
    if not skip:
        first = "; ".join(list(inventory.bad.values())[:3])
        more = f" (and {len(inventory.bad) - 3} others)" if len(inventory.bad) > 3 else ""
        raise DataError(f"{first}{more}; correct the data, or leave such meshes out with --skip-bad")
    kept = dataset.keep([sample for sample in dataset.samples if sample.name not in inventory.bad])
    for split in kept.splits:
        kept.split(split)
    return kept


def _entry(dataset: DataSet, sample: Sample, split: str) -> Entry:
    mesh, target = dataset.load(sample)
    return Entry(
        split=split,
        name=sample.name,
        n=element_counts(mesh),
        labels=_label_counts(dataset, target),
        radius=_radius(mesh),
        edge_lengths=_edge_lengths(mesh),
        shape=shape_hash(mesh),
    )


def _label_counts(dataset: DataSet, target: NDArray[Any]) -> NDArray[Any]:
    if dataset.task == "regression":
        values = target.astype(np.float64)
        return np.stack([np.full(values.shape[1], len(values)), values.sum(axis=0), (values**2).sum(axis=0)])
    return np.bincount(target[target >= 0], minlength=len(dataset.classes))


def _radius(mesh: Mesh) -> float:
    used = mesh.vertices[mesh.faces.ravel()]
    return float(norms(used - used.mean(axis=0)).max())


def _edge_lengths(mesh: Mesh) -> tuple[float, ...]:
    tail, head = file_edges(mesh).T
    vertices = to_unit_sphere(mesh.vertices, mesh.faces)
    return tuple(np.quantile(norms(vertices[head] - vertices[tail]), _QUANTILES).tolist())
