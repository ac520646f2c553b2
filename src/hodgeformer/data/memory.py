"""A data set from pairs of meshes and labels in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import Element, Task
from hodgeformer.base.errors import DataError
from hodgeformer.base.palette import RGB
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.folder_spec import Rule, SplitRules
from hodgeformer.data.label_files import RawLabels
from hodgeformer.data.labels import Codes, Target, Values, WholeMesh
from hodgeformer.data.splits import by_rules, with_validation
from hodgeformer.mesh.io import MeshLike, as_mesh

Pairs = Iterable[tuple[MeshLike, Any]] | Mapping[str, Iterable[tuple[MeshLike, Any]]]
"""Pairs (mesh, labels), or a dictionary with pairs for each split."""


class Description(TypedDict, total=False):
    """The options of `open_dataset` for pairs.

    `classes` are the names in the order of the labels; by default those that occur. `task` and `element` are inferred
    from the labels: one per mesh, or one per face unless `element` is set. `split` is as in dataset.toml. `groups` are
    the sources of the meshes, which cross-validation keeps together.
    """

    classes: Sequence[str]
    colors: Sequence[RGB]
    task: Task
    element: Element
    split: Mapping[str, Rule | int]
    groups: Sequence[str]
    name: str


def from_pairs(
    pairs: Pairs,
    *,
    classes: Sequence[str] = (),
    colors: Sequence[RGB] = (),
    task: Task | None = None,
    element: Element | None = None,
    split: Mapping[str, Any] | None = None,
    groups: Sequence[str] = (),
    name: str = "meshes",
) -> DataSet:
    """A data set of meshes in memory; the options are those of `Description`."""
    divided = dict(pairs) if isinstance(pairs, Mapping) else None
    if divided and split is not None:
        raise DataError(f"{name}: the meshes are already split into {', '.join(divided)}; remove `split`")
    given_parts = {"": pairs} if divided is None else divided
    parts = {part: _listed(members, name) for part, members in given_parts.items()}
    meshes, given = zip(*(pair for members in parts.values() for pair in members), strict=True)
    labels = [np.asarray(label) for label in given]
    task = task or _task(labels[0])
    if element is None:
        element = "mesh" if task == "classification" or labels[0].ndim == 0 else "face"
    names = tuple(classes) if classes or task == "regression" else _occurring(labels)
    samples = _samples(meshes, labels, names, element, groups or [""] * len(meshes))
    if divided is not None:
        left = iter(samples)
        splits = {part: tuple(islice(left, len(members))) for part, members in parts.items()}
    else:
        rules = SplitRules.parse(dict(split or {}))
        splits = with_validation(by_rules(samples, rules, Path()), rules)
    n_values = _rows(labels[0], element).shape[1]
    return DataSet(name, task, element, splits, names, tuple(colors), n_values)


def _listed(pairs: Iterable[Any], name: str) -> list[tuple[MeshLike, Any]]:
    found = list(pairs)
    if not found:
        raise DataError(f"{name}: no meshes; pass pairs (mesh, labels)")
    for pair in found:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"{name}: expected pairs (mesh, labels), got a {type(pair).__name__}")
    return found


def _task(label: NDArray[Any]) -> Task:
    if label.dtype.kind == "f":
        return "regression"
    return "segmentation" if label.ndim else "classification"


def _occurring(labels: Sequence[NDArray[Any]]) -> tuple[str, ...]:
    """The names that occur, sorted; numbers from 0 to the largest."""
    if labels[0].dtype.kind == "U":
        return tuple(sorted({str(value) for label in labels for value in np.unique(label)} - {""}))
    return tuple(str(number) for number in range(max(int(label.max(initial=0)) for label in labels) + 1))


def _rows(label: NDArray[Any], element: Element) -> NDArray[Any]:
    """A row per element, or one for the whole mesh."""
    return label.reshape(1 if element == "mesh" else len(label), -1)


def _samples(
    meshes: Sequence[MeshLike],
    labels: Sequence[NDArray[Any]],
    classes: tuple[str, ...],
    element: Element,
    groups: Sequence[str],
) -> tuple[Sample, ...]:
    """Named like their files or the meshes themselves, with a number if these names are not unique."""
    sources = [Path(mesh) if isinstance(mesh, str | os.PathLike) else as_mesh(mesh) for mesh in meshes]
    names = [re.sub(r"[^\w.-]+", "_", mesh.stem if isinstance(mesh, Path) else mesh.name) for mesh in sources]
    if len(set(names)) < len(names):
        names = [f"{name}-{i:04d}" for i, name in enumerate(names)]
    if len(groups) != len(names):
        raise DataError(f"{len(groups)} groups for {len(names)} meshes; pass one for each")
    codes = Codes.counted_from(0, len(classes), classes)

    def target(label: NDArray[Any], name: str) -> Target:
        if not classes:
            rows = _rows(label, element).astype(np.float32)
            return WholeMesh(tuple(rows[0].tolist())) if element == "mesh" else Values(rows)
        if label.dtype.kind not in "iuU" or label.ndim > 1:
            raise DataError(f"{name}: labels must be integers or names, got {label.dtype} of shape {label.shape}")
        numbers = codes.decode_raw(RawLabels(np.atleast_1d(label)), name)
        return Values(numbers) if element != "mesh" else WholeMesh(int(numbers[0]))

    columns = zip(names, sources, labels, groups, strict=True)
    return tuple(Sample(name, mesh, target(label, name), group) for name, mesh, label, group in columns)
