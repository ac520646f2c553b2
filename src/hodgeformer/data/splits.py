"""Divide samples into splits: by fractions, folders or names; by number per class; or in folds.

Random splits depend on the seed, but not on the order of the samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import SPLITS, Sample
from hodgeformer.data.folder_spec import SplitRules
from hodgeformer.data.labels import WholeMesh

Splits = dict[str, tuple[Sample, ...]]

_ENOUGH = 30  # training meshes, to spare some for validation


def by_rules(samples: Sequence[Sample], rules: SplitRules, root: Path) -> Splits:
    """By the rules; without any, by the folders train, val and test, or else four fifths to train and one to test."""
    given = rules.given
    if not given:
        found = by_folder(samples, root, {name: name for name in SPLITS})
        if any(found.values()):
            return {name: members for name, members in found.items() if members}
        given = {"train": 0.8, "test": 0.2}
    fractions = {name: float(rule) for name, rule in given.items() if isinstance(rule, (int, float))}
    folders = {name: rule for name, rule in given.items() if isinstance(rule, str)}
    splits = by_folder(samples, root, folders) if folders else {}
    splits |= {name: by_name(samples, rule) for name, rule in given.items() if isinstance(rule, list)}
    taken = {sample.name for members in splits.values() for sample in members}
    if fractions:
        splits |= _sources_by_fractions([s for s in samples if s.name not in taken], fractions, rules.seed)
    if given.get("val") == 0:
        splits.pop("val")
    for name, members in splits.items():
        if not members:
            raise DataError(
                f"split '{name}' = {given[name]!r} contains no meshes; add meshes, or set `[split] train = 1.0` to "
                "train on all of them and test on none"
            )
    return {name: splits[name] for name in SPLITS if name in splits}


def with_validation(splits: Splits, rules: SplitRules) -> Splits:
    """By default, use a tenth of the training meshes for validation and calibration if there are enough.

    Classes are balanced; without classes, meshes with neighboring names are used: they are often from one source, such
    as the frames of one motion, and dividing them would make scores too optimistic. A source that is known is never
    divided. `val = 0` disables this.
    """
    train = splits.get("train", ())
    n_of = Counter(sample.source for sample in train)
    if rules.val is not None or "val" in splits or len(train) < _ENOUGH or len(n_of) < 2:
        return splits
    if isinstance(train[0].target, WholeMesh) and isinstance(train[0].target.value, int):
        return splits | _sources_by_fractions(train, {"train": 0.9, "val": 0.1}, rules.seed)
    n = len(train) // 10
    first = n * int(np.random.default_rng(rules.seed).integers(10))
    ordered = sorted(train, key=lambda sample: sample.name)
    taken = Counter(sample.source for sample in ordered[first : first + n])
    val = tuple(sample for sample in ordered[first : first + n] if taken[sample.source] == n_of[sample.source])
    if not val:  # each source is larger than a tenth
        return splits
    names = {sample.name for sample in val}
    divided = {**splits, "train": tuple(s for s in train if s.name not in names), "val": val}
    return {name: divided[name] for name in SPLITS if name in divided}


def in_folds(samples: Sequence[Sample], n: int, seed: int) -> list[tuple[Sample, ...]]:
    """n parts of about the same size, balanced by class; meshes of one source stay together."""
    sources: dict[str, list[Sample]] = {}
    for group in shuffled_classes(samples, seed):
        for sample in group:
            sources.setdefault(sample.source, []).append(sample)
    if len(sources) < n:
        raise DataError(
            f"{n} folds need meshes from at least {n} sources; there are {len(sources)}: {', '.join(sources)}"
        )
    folds: list[list[Sample]] = [[] for _ in range(n)]
    for members in sorted(sources.values(), key=len, reverse=True):
        min(folds, key=len).extend(members)  # the first of the smallest, so that single meshes are dealt in turn
    return [_sorted(fold) for fold in folds]


def by_fractions(samples: Sequence[Sample], fractions: Mapping[str, float], seed: int) -> Splits:
    """Each split gets its fraction of the samples, balanced by class if whole meshes have a class.

    Fractions that add up to one use every sample, and every split gets one if there are enough.
    """
    if min(fractions.values()) < 0 or sum(fractions.values()) > 1 + 1e-9:
        raise DataError(f"split fractions must not be negative and add up to at most 1, got {dict(fractions)}")
    ranked: list[tuple[float, Sample]] = []
    for group in shuffled_classes(samples, seed):
        # Ranks are spread over [0, 1), so that a cut of the merged list divides every class in the same proportion.
        ranked += [((rank + 0.5) / len(group), sample) for rank, sample in enumerate(group)]
    merged = [sample for _, sample in sorted(ranked, key=lambda pair: pair[0])]
    bounds = np.round(np.cumsum([0.0, *fractions.values()]) * len(merged)).astype(int)
    if len(merged) >= len(fractions):  # of two meshes, one is for testing
        wanted = np.array([fraction > 0 for fraction in fractions.values()])
        sizes = np.maximum(np.diff(bounds), wanted)
        while sizes.sum() > len(merged):
            sizes[sizes.argmax()] -= 1
        bounds = np.cumsum([0, *sizes])
    cuts = zip(fractions, bounds[:-1], bounds[1:], strict=True)
    return {name: _sorted(merged[first:last]) for name, first, last in cuts}


def _sources_by_fractions(samples: Sequence[Sample], fractions: Mapping[str, float], seed: int) -> Splits:
    """Each split gets its fraction of the sources, with all their samples."""
    sources: dict[str, list[Sample]] = {}
    for sample in _sorted(samples):
        sources.setdefault(sample.source, []).append(sample)
    if len(sources) < len(fractions) <= len(samples):
        raise DataError(
            f"{len(fractions)} splits need meshes from at least {len(fractions)} sources, because those of one source "
            f"stay together; there are {len(sources)}: {', '.join(sources)}"
        )
    firsts = by_fractions([members[0] for members in sources.values()], fractions, seed)
    return {name: _sorted([s for one in chosen for s in sources[one.source]]) for name, chosen in firsts.items()}


def by_number(samples: Sequence[Sample], n: int, seed: int) -> Splits:
    """n samples of every class for training; the others are for testing."""
    classes = shuffled_classes(samples, seed)
    for members in classes:
        if len(members) <= n:
            raise DataError(
                f"a class has {len(members)} meshes ('{members[0].name}', ...), too few for {n} and at least one for "
                "testing; use fewer per class"
            )
    return {
        "train": _sorted([sample for members in classes for sample in members[:n]]),
        "test": _sorted([sample for members in classes for sample in members[n:]]),
    }


def by_folder(samples: Sequence[Sample], root: Path, folders: Mapping[str, str]) -> Splits:
    """A sample belongs to the split whose folder is part of the path from the root to its file."""
    splits = {}
    for name, folder in folders.items():
        splits[name] = _sorted([s for s in samples if isinstance(s.mesh, Path) and _is_in(s.mesh, root, folder)])
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
            raise DataError(f"the split contains '{name}', but no mesh has this name; check the spelling")
        chosen.update({sample.name: sample for sample in found})
    return tuple(chosen.values())


def shuffled_classes(samples: Sequence[Sample], seed: int) -> list[list[Sample]]:
    """The samples of each class in random order, depending on names and seed; one group if meshes have no class."""
    groups: dict[object, list[Sample]] = {}
    for sample in _sorted(samples):
        target = sample.target
        groups.setdefault(target.value if isinstance(target, WholeMesh) else None, []).append(sample)
    if any(isinstance(key, tuple) for key in groups):  # regression targets are not classes
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


def _is_in(path: Path, root: Path, folder: str) -> bool:
    path = path.relative_to(root) if path.is_relative_to(root) else path
    return f"/{Path(folder).as_posix()}/" in f"/{path.parent.as_posix().removeprefix('/')}/"
