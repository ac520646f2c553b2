"""A folder of meshes that a person goes through one by one; corrected labels are saved in one data set."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.base.palette import hex_color
from hodgeformer.data.folder import find_meshes
from hodgeformer.data.folder_spec import FILE_NAME, read_spec
from hodgeformer.data.labels import Codes, LabelFile
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.web.server.intake import Refusal, safe_file_name
from hodgeformer.web.viewer.data_set_file import held_out, natural
from hodgeformer.web.viewer.open_meshes import OpenMesh, OpenMeshes
from hodgeformer.web.viewer.outbox import State, noted_states, numbered


@dataclass(eq=False)
class Series:
    """The meshes of a folder by their names in the data set, in natural order. Only these can be opened."""

    name: str
    files: dict[str, Path]
    data_set: Path
    _ids: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._held_out = held_out(list(self.files))

    @classmethod
    def of(cls, folder: Path, out: Path) -> Series:
        """The meshes of the folder and its subfolders, without those that the viewer saved."""
        files = _by_own_names({n: p for n, p in find_meshes(folder, ".").items() if not _is_below(p, out)})
        if not files:
            raise DataError(f"{folder}: no meshes found besides those that the viewer saved")
        name = safe_file_name(folder.resolve().name)
        series = cls(name, files, out / name)
        series.described()  # a data set that cannot be read is reported before the page opens
        return series

    def described(self) -> dict[str, Any]:
        """Every mesh with its state, and the classes of the corrections."""
        spec = read_spec(self.data_set) if (self.data_set / FILE_NAME).is_file() else None
        return {
            "name": self.name,
            "meshes": [
                {"name": name, "state": state, "held_out": name in self._held_out}
                for name, state in self._states().items()
            ],
            "classes": [] if spec is None else spec.classes,
            "colors": [] if spec is None else [hex_color(color) for color in spec.colors],
        }

    def _states(self) -> dict[str, State]:
        """Saved labels take precedence over recorded states."""
        saved, noted = {path.stem for path in (self.data_set / "labels").glob("*.txt")}, noted_states(self.data_set)

        def state(name: str) -> State:
            if name in saved:
                return "reviewed" if noted.get(name) == "reviewed" else "corrected"
            return "predicted" if name in noted else "untouched"

        return {name: state(name) for name in self.files}

    def open(self, number: int, meshes: OpenMeshes) -> OpenMesh:
        """The mesh with this number; one that is still open keeps its prediction."""
        if not 0 <= number < len(self.files):
            raise Refusal(404, f"The series has {len(self.files)} meshes; reload the page.")
        name = list(self.files)[number]
        with self._lock:
            opened = meshes.find(self._ids.get(name, ""))
            if opened is None:
                mesh = replace(load_mesh(self.files[name]), name=name)
                opened = meshes.add(mesh)
                opened.held_out, opened.corrected = name in self._held_out, self._corrected(mesh)
                self._ids[name] = opened.id
        return opened

    def _corrected(self, mesh: Mesh) -> IntArray | None:
        """The saved labels of the mesh; None if the file contains another mesh by now."""
        path = self.data_set / "labels" / f"{mesh.name}.txt"
        if not path.is_file():
            return None
        n_classes = len(read_spec(self.data_set).classes)
        try:
            return LabelFile(path, "f", "f", Codes.counted_from(0, n_classes)).read(mesh)
        except HodgeFormerError:
            return None


def _by_own_names(found: Mapping[str, Path]) -> dict[str, Path]:
    """The files by names that fit a data set; names that would be equal are numbered."""
    clean = {name: safe_file_name(name.replace("/", "_")) for name in found}
    free, taken, own = set(clean.values()), set(clean.values()), dict[str, str]()
    # Names that already fit come first and are not changed.
    for name in sorted(found, key=lambda name: clean[name] != name):
        own[name] = next(one for one in numbered(clean[name]) if one not in taken or one in free & {clean[name]})
        free.discard(own[name])
        taken.add(own[name])
    return {own[name]: found[name] for name in sorted(found, key=lambda name: natural(own[name]))}


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())
