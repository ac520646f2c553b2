"""Divide samples into splits: by fractions, by number per class, by folder or by name.

Seeded, and independent of the order in which the samples come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from hodgeformer.data.dataset import Sample
from hodgeformer.data.labels import WholeMesh
from hodgeformer.errors import DataError

Splits = dict[str, tuple[Sample, ...]]


def by_fractions(samples: Sequence[Sample], fractions: Mapping[str, float], seed: int) -> Splits:
    """Each split gets its fraction of the samples, of every class alike where the whole mesh has a class.

    Fractions that add up to one share out every sample; less leaves some out.
    """
    if min(fractions.values()) < 0 or sum(fractions.values()) > 1 + 1e-9:
        raise DataError(f"split fractions must not be negative and add up to at most 1, got {dict(fractions)}")
    ranked: list[tuple[float, Sample]] = []
    for group in shuffled_classes(samples, seed):
        # Ranks spread over [0, 1), so that a cut through the merged list cuts every class in the same proportion.
        ranked += [((rank + 0.5) / len(group), sample) for rank, sample in enumerate(group)]
    merged = [sample for _, sample in sorted(ranked, key=lambda pair: pair[0])]
    bounds = np.round(np.cumsum([0.0, *fractions.values()]) * len(merged)).astype(int)
    cuts = zip(fractions, bounds[:-1], bounds[1:], strict=True)
    return {name: _sorted(merged[first:last]) for name, first, last in cuts}


def by_number(samples: Sequence[Sample], numbers: Mapping[str, int], rest: str, seed: int) -> Splits:
    """Each split gets this many samples of every class; what is left goes to the split `rest`."""
    splits: dict[str, list[Sample]] = {name: [] for name in (*numbers, rest)}
    needed = sum(numbers.values())
    for group in shuffled_classes(samples, seed):
        if len(group) <= needed:
            raise DataError(
                f"a class with {len(group)} meshes ('{group[0].name}', ...) cannot give {needed} and leave one for "
                f"'{rest}'; ask for fewer per class"
            )
        first = 0
        for name, number in numbers.items():
            splits[name] += group[first : first + number]
            first += number
        splits[rest] += group[first:]
    return {name: _sorted(members) for name, members in splits.items()}


def by_folder(samples: Sequence[Sample], root: Path, folders: Mapping[str, str]) -> Splits:
    """A sample belongs to the split whose folder lies on the way from the root to its file."""
    splits = {}
    for name, folder in folders.items():
        wanted = Path(folder).parts
        members = [s for s in samples if isinstance(s.mesh, Path) and _contains(_parts(s.mesh, root), wanted)]
        splits[name] = _sorted(members)
    return splits


def by_name(samples: Sequence[Sample], names: Sequence[str]) -> tuple[Sample, ...]:
    """The samples with these names (or file names, or patterns such as `scape*`), in this order."""
    by_own_name: dict[str, list[Sample]] = {}
    for sample in samples:
        for own in _names(sample):
            by_own_name.setdefault(own, []).append(sample)
    chosen: dict[str, Sample] = {}
    for name in names:
        found = by_own_name.get(name) or [
            sample for own, owners in by_own_name.items() if fnmatchcase(own, name) for sample in owners
        ]
        if not found:
            raise DataError(f"the split names '{name}', but there is no such mesh; check the spelling")
        chosen.update({sample.name: sample for sample in found})
    return tuple(chosen.values())


def shuffled_classes(samples: Sequence[Sample], seed: int) -> list[list[Sample]]:
    """The samples of each class in random order, a function of names and seed; one group where meshes have no class."""
    groups: dict[object, list[Sample]] = {}
    for sample in _sorted(samples):
        target = sample.target
        groups.setdefault(target.value if isinstance(target, WholeMesh) else None, []).append(sample)
    if any(isinstance(key, tuple) for key in groups):  # regression targets are no classes
        groups = {None: list(_sorted(samples))}
    shuffled = []
    for number, (_, group) in enumerate(sorted(groups.items(), key=lambda pair: pair[1][0].name)):
        rng = np.random.default_rng([seed, number])
        shuffled.append([group[i] for i in rng.permutation(len(group))])
    return shuffled


def _sorted(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(sorted(samples, key=lambda sample: sample.name))


def _names(sample: Sample) -> set[str]:
    names = {sample.name, sample.name.rsplit("/", 1)[-1]}
    return names | {sample.mesh.name} if isinstance(sample.mesh, Path) else names


def _parts(path: Path, root: Path) -> tuple[str, ...]:
    return path.relative_to(root).parts[:-1] if path.is_relative_to(root) else path.parts[:-1]


def _contains(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return any(parts[i : i + len(wanted)] == wanted for i in range(len(parts) - len(wanted) + 1))
