"""Human: bodies from several sources with eight parts, labels per edge or per face."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hodgeformer.data.dataset import DataSet, Element, Sample
from hodgeformer.data.part_labels import LabelVersion, read_part_labels
from hodgeformer.data.splits import by_fractions
from hodgeformer.errors import DataError

PARTS = ("head", "hand", "lower_arm", "upper_arm", "torso", "upper_leg", "lower_leg", "foot")
FAMILIES = ("MIT_animation", "adobe", "faust", "scape", "shrec")


def family(name: str) -> str:
    """The source of a mesh, by its name: meshes of one source resemble each other far more than others."""
    found = next((family for family in FAMILIES if name.startswith(family)), None)
    return found or name.split("__", maxsplit=1)[0]


def person(name: str) -> str:
    """Who a mesh shows, by its name: FAUST has ten people in ten poses, SCAPE one, Adobe one per mesh.

    MIT has three people; a name tells its motion only, and that counts as one.
    """
    source = family(name)
    if source == "adobe":
        return name
    if source == "faust":
        return f"{source} {int(name.rsplit('_', maxsplit=1)[1]) // 10}"
    return name.split("__")[1] if source == "MIT_animation" else source


def evened(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Meshes of people that are shown rarely are repeated, so that a person counts by the root of their meshes."""
    meshes = Counter(person(sample.name) for sample in samples)
    most = max(meshes.values(), default=1)
    times = [max(round((most / meshes[person(sample.name)]) ** 0.5), 1) for sample in samples]
    return tuple(
        replace(sample, name=f"{sample.name}#{i}") if i else sample
        for sample, n in zip(samples, times, strict=True)
        for i in range(n)
    )


def open_human(
    root: Path,
    *,
    labels: LabelVersion = "face",
    element: Element = "face",
    hold_out: Sequence[str] = (),
    val_fraction: float = 0.0,
    even_people: bool = False,
    seed: int = 0,
) -> DataSet:
    """The splits of the distribution, with a validation split cut from the training meshes if asked for.

    `hold_out` names families, or longer beginnings of names such as one motion, that validate; `val_fraction` draws
    from all of them. The first is the honest estimate: frames of one motion are nearly copies of each other.
    `even_people` repeats the training meshes of people that are shown rarely.
    """
    splits = read_part_labels(root, n_classes=len(PARTS), labels=labels, element=element)
    if hold_out and val_fraction:
        raise DataError("give hold_out or val_fraction, not both")
    train = splits.get("train", ())
    if hold_out:
        held = tuple(sample for sample in train if sample.name.startswith(tuple(hold_out)))
        if not held or len(held) == len(train):
            found = sorted({family(sample.name) for sample in train})
            raise DataError(f"hold_out = {list(hold_out)} takes {len(held)} of {len(train)} meshes; there are {found}")
        splits["train"] = tuple(sample for sample in train if sample not in held)
        splits["val"] = held
    elif val_fraction:
        splits |= by_fractions(train, {"train": 1 - val_fraction, "val": val_fraction}, seed)
    if even_people:
        splits["train"] = evened(splits["train"])
    return DataSet("Human", "segmentation", element, splits, PARTS)
