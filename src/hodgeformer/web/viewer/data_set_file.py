"""`dataset.toml` of a data set that grows in the viewer; a file that a person wrote is not changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import tomli_w

from hodgeformer.base.errors import DataError
from hodgeformer.base.palette import RGB, hex_color
from hodgeformer.data.folder_spec import FILE_NAME, FolderSpec, read_spec
from hodgeformer.web.server.intake import Refusal

_TESTED = 4  # one of this many meshes is held out


def with_member(
    root: Path, stem: str, classes: tuple[str, ...], colors: Sequence[RGB], *, held_out: bool | None = None
) -> str | None:
    """The text of the file with `stem` as a member; None if a file that a person wrote already includes it.

    A mesh never changes its split, so that no model is scored on meshes that an earlier one was trained on. `held_out`
    chooses the split of a new mesh; by default one of four is for the test. What does not fit is refused.
    """
    path = root / FILE_NAME
    if not path.exists():
        return _text(classes, colors, _divided({}, stem, held_out))
    try:
        spec = read_spec(root)
    except DataError as error:
        raise Refusal(409, f"{error}; give the data set another name.") from None
    if classes[: len(spec.classes)] != spec.classes:
        raise Refusal(
            409,
            f"The data set '{root.name}' has the classes {', '.join(spec.classes)}, not {', '.join(classes)}; give the "
            "new one another name, or use the same classes in the same order.",
        )
    rules = spec.split.model_dump(exclude_unset=True)
    if path.read_text(encoding="utf-8") == _text(spec.classes, spec.colors, rules):  # as it is written here
        return _text(classes, colors, _divided(rules, stem, held_out))
    differing = _differing(spec, classes, stem)
    if differing:
        raise Refusal(
            409,
            f"{FILE_NAME} of '{root.name}' was written by hand, and its {', '.join(differing)} would have to change "
            f"for '{stem}'; change it there first, or give the data set another name.",
        )
    return None


def natural(name: str) -> tuple[list[str | int], str]:
    """The key that sorts names by the numbers in them: scan_2 before scan_12."""
    parts = re.split(r"(\d+)", name.casefold())
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


def held_out(names: Sequence[str]) -> frozenset[str]:
    """About a quarter of the meshes of a series, for the test.

    Names that differ in their last number are of one source, such as the frames of a motion. If a source were divided,
    scores would be too optimistic: whole sources are held out if there are several, otherwise every fourth mesh.
    """
    sources: dict[str, list[str]] = {}
    for name in sorted(names):
        sources.setdefault(name.rstrip("0123456789").rstrip("_-. "), []).append(name)
    by_size = sorted(sources.values(), key=len)
    kept: list[str] = []
    for members in by_size:
        if _TESTED * (len(kept) + len(members)) <= len(names):
            kept += members
    if not kept and len(names) >= _TESTED and 2 * len(by_size[0]) <= len(names):
        kept = by_size[0]
    return frozenset(kept or sorted(names)[_TESTED - 1 :: _TESTED])


def _divided(rules: Mapping[str, Any], stem: str, held_out: bool | None) -> dict[str, Any]:
    """The split with the new member in a list; rules other than lists apply to it by themselves."""
    lists = {name: rule for name, rule in rules.items() if isinstance(rule, list)}
    if len(lists) < len(rules) or _is_listed(stem, lists.values()):
        return dict(rules)
    tested = len(lists.get("test", ()))
    if held_out is None:
        held_out = _TESTED * (tested + 1) <= sum(map(len, lists.values())) + 1
    split = "test" if held_out else "train"
    return {**lists, split: sorted([*lists.get(split, ()), stem], key=natural)}


def _is_listed(stem: str, lists: Any) -> bool:
    return any(fnmatchcase(stem, pattern) for patterns in lists for pattern in patterns)


def _differing(spec: FolderSpec, classes: tuple[str, ...], stem: str) -> list[str]:
    """The keys that do not fit the new member."""
    wanted = {"task": "segmentation", "target_element": "face", "meshes": "meshes", "labels": "labels"}
    differing = [name.removeprefix("target_") for name, value in wanted.items() if getattr(spec, name) != value]
    differing += ["first_label"] if spec.first_label else []
    differing += ["classes"] if len(spec.classes) < len(classes) else []
    lists = [rule for rule in spec.split.given.values() if isinstance(rule, list)]
    return differing + (["split"] if lists and not _is_listed(stem, lists) else [])


def _text(classes: Sequence[str], colors: Sequence[RGB], split: Mapping[str, Any]) -> str:
    return tomli_w.dumps({
        "task": "segmentation",
        "element": "face",
        "classes": classes,
        "colors": [hex_color(color) for color in colors],
        "meshes": "meshes",
        "labels": "labels",
        "split": {name: split[name] for name in ("train", "val", "test", "seed") if name in split},
    })  # fmt: skip
