"""Files, folders and globs on the command line as mesh files, and the names of what is written for them."""

from __future__ import annotations

import glob
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hodgeformer.errors import ConfigError, MeshError


@dataclass(frozen=True)
class Input:
    """A mesh file, and its place below the folder that was named (its own name if it was named itself)."""

    path: Path
    place: Path


def resolve_inputs(paths: list[str]) -> list[Input]:
    """Every file once, in the order given. A file that does not exist is kept, to be reported with the others."""
    found: dict[Path, Input] = {}
    for text in paths:
        for given in _resolved(text):
            found.setdefault(given.path, given)
    return list(found.values())


def named_outputs(inputs: list[Input], out: Path, suffixes: list[str]) -> dict[Path, Path]:
    """For each input the output without suffix. Inputs that share a name keep their suffix in it.

    Nothing that was given is ever overwritten.
    """
    stems = Counter(given.place.with_suffix("") for given in inputs)
    targets = {}
    for given in inputs:
        stem = given.place.with_suffix("")
        targets[given.path] = out / (stem if stems[stem] == 1 else given.place)
    taken = Counter(targets.values())
    for given in inputs:
        if taken[targets[given.path]] > 1:
            raise ConfigError(
                f"{given.path}: several inputs would be written as {targets[given.path]}; name their folder"
            )
    read = {given.path.resolve() for given in inputs}
    for target in targets.values():
        for suffix in suffixes:
            path = target.with_name(target.name + suffix)
            if path.resolve() in read:
                raise ConfigError(f"{path} would be overwritten by its own result; choose another --out")
    return targets


def _resolved(text: str) -> list[Input]:
    from hodgeformer.mesh.io import MESH_SUFFIXES

    path = Path(text)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in MESH_SUFFIXES and file.is_file())
        if not files:
            raise MeshError(f"{path}: no mesh in this folder or below; looked for {', '.join(MESH_SUFFIXES)}")
        return [Input(file, file.relative_to(path)) for file in files]
    if not path.exists() and any(letter in text for letter in "*?["):
        # Path.glob takes no absolute patterns.
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True)) if Path(match).is_file()]  # noqa: PTH207
        if not matches:
            raise MeshError(f"{text}: no file matches")
        return [Input(match, Path(match.name)) for match in matches]
    return [Input(path, Path(path.name))]
