"""What is in the data, looked at once before training: bad meshes, sizes, class balance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.checkpoint import DataStatistics
from hodgeformer.containers import PerElement
from hodgeformer.data.convert import element_counts, file_edges
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.errors import DataError, HodgeFormerError
from hodgeformer.mesh.geometry import norms, to_unit_sphere
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.train.distributed import Processes

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Entry:
    """One mesh: element counts, labels per class (or sums of values), radius in the file, edge lengths at unit size."""

    name: str
    n: PerElement[int]
    labels: NDArray[Any]
    radius: float
    edge_lengths: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Inventory:
    """The meshes of the training split, in order, and the bad ones of all splits with the reason."""

    entries: tuple[Entry, ...]
    bad: dict[str, str]

    @property
    def n_faces(self) -> list[int]:
        return [entry.n.f for entry in self.entries]

    @property
    def labels(self) -> NDArray[Any]:
        """Labels per class; for a regression the rows (count, sum, sum of squares)."""
        total: NDArray[Any] = np.sum([entry.labels for entry in self.entries], axis=0)
        return total

    def statistics(self) -> DataStatistics:
        def spread(values: Sequence[float]) -> tuple[float, float, float]:
            return float(min(values)), float(np.median(values)), float(max(values))

        lengths = np.mean([entry.edge_lengths for entry in self.entries], axis=0)
        q5, q25, q50, q75, q95 = (float(length) for length in lengths)
        return DataStatistics(
            n_meshes=len(self.entries),
            n={kind: spread([entry.n[kind] for entry in self.entries]) for kind in ("v", "e", "f")},
            size=spread([entry.radius for entry in self.entries]),
            edge_length=(q5, q25, q50, q75, q95),
        )


def take_inventory(
    dataset: DataSet,
    splits: Sequence[str],
    processes: Processes,
    progress: Callable[[int, int], None] | None = None,
) -> Inventory:
    """Read every mesh of the splits once, each process its share; the first split is the one to train on."""
    samples = [(split, sample) for split in splits for sample in dataset.split(split)]
    entries: dict[str, Entry] = {}
    bad: dict[str, str] = {}
    mine = processes.share(samples)
    for done, (split, sample) in enumerate(mine):
        try:
            entry = _entry(dataset, sample)
            if split == splits[0]:
                entries[sample.name] = entry
        except (HodgeFormerError, OSError) as error:
            bad[sample.name] = str(error)
        if progress is not None:
            progress(done + 1, len(mine))
    merged: dict[str, Entry] = {}
    all_bad: dict[str, str] = {}
    for part_entries, part_bad in processes.collect((entries, bad)):
        merged |= part_entries
        all_bad |= part_bad
    good = [sample.name for sample in dataset.split(splits[0]) if sample.name in merged]
    return Inventory(tuple(merged[name] for name in good), all_bad)


def without_bad(dataset: DataSet, inventory: Inventory, splits: Sequence[str], *, skip: bool) -> DataSet:
    """The data set without its bad meshes if they may be skipped; an error that names the first one if not."""
    if not inventory.bad:
        return dataset
    if not skip:
        first = next(iter(inventory.bad.values()))
        more = f" ({len(inventory.bad)} bad meshes in all)" if len(inventory.bad) > 1 else ""
        raise DataError(f"{first}{more}; correct the data, or leave such meshes out with --skip-bad")
    kept = dataset.keep([sample for sample in dataset.samples if sample.name not in inventory.bad])
    for split in splits:
        kept.split(split)
    return kept


def _entry(dataset: DataSet, sample: Sample) -> Entry:
    mesh, target = dataset.load(sample)
    return Entry(
        name=sample.name,
        n=element_counts(mesh),
        labels=_label_counts(dataset, target),
        radius=_radius(mesh),
        edge_lengths=_edge_lengths(mesh),
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
