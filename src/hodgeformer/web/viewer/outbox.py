"""Everything the viewer writes: labels, colored meshes and data sets, all below one chosen folder."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from filelock import FileLock

from hodgeformer.base.files import write_atomically
from hodgeformer.base.palette import RGB, UNLABELED_COLOR, hex_color
from hodgeformer.data.folder_spec import FILE_NAME
from hodgeformer.mesh.elements import UNLABELED
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.web.server.intake import Refusal, cut, safe_file_name
from hodgeformer.web.viewer.data_set_file import with_member
from hodgeformer.web.viewer.open_meshes import OpenMesh

_LOCK = ".saving.lock"
_STATES = "states.json"
State = Literal["untouched", "predicted", "corrected", "reviewed"]
"""The state of a mesh of a series: labels of corrected meshes are in the data set, reviewed ones were confirmed."""


@dataclass(frozen=True, eq=False)
class Annotation:
    """Labels per face (-1 unlabeled), with the names and colors of the classes."""

    labels: IntArray
    classes: tuple[str, ...]
    colors: tuple[RGB, ...]

    def check(self, mesh: Mesh) -> None:
        """Refuse what does not fit the mesh."""
        if self.labels.shape != (mesh.n_faces,):
            raise Refusal(400, f"{self.labels.size} labels for {mesh.n_faces} faces; open the mesh again.")
        if len(self.classes) != len(self.colors) or len(set(self.classes)) < len(self.classes):
            raise Refusal(400, "Every class needs a color and a unique name.")
        if any(not name.strip() or not name.isprintable() for name in self.classes):
            raise Refusal(400, "A class has no name, or a name with line breaks; type one in the list of classes.")
        if self.labels.min() < UNLABELED or self.labels.max() >= len(self.classes):
            raise Refusal(400, f"Labels must lie in -1..{len(self.classes) - 1}.")

    @property
    def face_colors(self) -> IntArray:
        # -1 is the last row.
        return np.array([*self.colors, UNLABELED_COLOR], dtype=np.int64)[self.labels]


@dataclass(frozen=True, eq=False)
class Outbox:
    """Writes below `folder` and nowhere else. An earlier file of another mesh is never overwritten."""

    folder: Path

    def save(self, opened: OpenMesh, annotation: Annotation) -> list[str]:
        """Labels as text and JSON, the colored mesh as PLY and GLB; their names."""
        annotation.check(opened.mesh)
        with self._alone() as folder:
            stem = opened.saved_as or _free_stem(folder, Path(safe_file_name(opened.mesh.name)).name)
            files = [folder / f"{stem}{suffix}" for suffix in (".txt", ".json", ".ply", ".glb")]
            text, described, ply, glb = files
            write_text(text, label_lines(annotation.labels))
            write_text(described, _description(opened, annotation))
            for path in (ply, glb):
                save_mesh(opened.mesh, path, face_colors=annotation.face_colors, face_labels=annotation.labels)
            opened.saved_as = stem
        return [path.name for path in files]

    def data_set(self, name: str) -> Path:
        """The folder of a data set; it may not exist yet."""
        return self.folder / safe_file_name(name or "dataset")

    def add_to_data_set(
        self, opened: OpenMesh, annotation: Annotation, name: str, *, reviewed: bool = False
    ) -> tuple[Path, int]:
        """Add the mesh with its labels to the data set `name`; returns its folder and its number of meshes."""
        annotation.check(opened.mesh)
        if len(annotation.classes) < 2:
            raise Refusal(400, "A data set needs at least two classes; add one to the list of classes.")
        if (annotation.labels == UNLABELED).all():
            raise Refusal(400, "No face is labeled yet; paint or predict first.")
        with self._alone():
            root = self._inside(self.data_set(name))
            meshes, labels = self._inside(root / "meshes"), self._inside(root / "labels")
            stem = _stem_in_data_set(meshes, opened.mesh)
            text = with_member(root, stem, annotation.classes, annotation.colors, held_out=opened.held_out)
            is_new = not (meshes / f"{stem}.ply").exists()
            # In this order the data set stays readable whenever the process is killed: the classes of a member before
            # its labels, and a new member before the list that names it.
            if text is not None and not is_new:
                write_text(root / FILE_NAME, text)
            write_text(labels / f"{stem}.txt", label_lines(annotation.labels))
            if is_new:
                save_mesh(opened.mesh, meshes / f"{stem}.ply")
            if text is not None and is_new:
                write_text(root / FILE_NAME, text)
            opened.corrected = annotation.labels
            if opened.held_out is not None:
                _note(root, stem, "reviewed" if reviewed else "corrected")
        return root, sum(1 for _ in meshes.glob("*.ply"))

    def note_prediction(self, opened: OpenMesh, name: str) -> None:
        """Record that a mesh of the series `name` was predicted, unless its state is recorded already."""
        with self._alone():
            root = self._inside(self.data_set(name))
            if opened.mesh.name not in noted_states(root):
                _note(root, opened.mesh.name, "predicted")

    @contextmanager
    def _alone(self) -> Iterator[Path]:
        """The folder, locked for other tabs and viewers."""
        folder = self._inside(self.folder)
        lock = FileLock(folder / _LOCK)
        try:
            lock.acquire()
        except OSError as error:
            raise Refusal(409, f"{folder} cannot be written ({error.strerror}); choose another --out.") from None
        try:
            yield folder
        finally:
            lock.release()

    def _inside(self, folder: Path) -> Path:
        """The folder, created if necessary; refused if a link leads out of the output folder."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refusal(
                409, f"{folder} cannot be created ({error.strerror}); choose another name or --out."
            ) from None
        if not folder.resolve().is_relative_to(self.folder.resolve()):
            raise Refusal(403, f"{folder.name} leads out of the output folder; nothing was written.")
        return folder


def noted_states(root: Path) -> dict[str, State]:
    """The recorded states of the meshes of a series; empty if they cannot be read (labels are stored elsewhere)."""
    try:
        return dict(json.loads((root / _STATES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _note(root: Path, name: str, state: State) -> None:
    write_text(root / _STATES, json.dumps(noted_states(root) | {name: state}, indent=2, ensure_ascii=False) + "\n")


def label_lines(labels: IntArray) -> str:
    """One label per line, in the order of the faces."""
    return "\n".join(map(str, labels.tolist())) + "\n"


def write_text(path: Path, text: str) -> None:
    write_atomically(path, text.encode(), lambda message: Refusal(500, message))


def _free_stem(folder: Path, name: str) -> str:
    taken = {path.stem for path in folder.iterdir()}
    return next(stem for stem in numbered(name) if stem not in taken)


def numbered(name: str) -> Iterator[str]:
    """The name, then the name followed by 2, 3 and so on, all of which `safe_file_name` leaves unchanged."""
    yield name
    short = cut(name[:90], 190)
    yield from (f"{short}_{number}" for number in itertools.count(2))


def _stem_in_data_set(meshes: Path, mesh: Mesh) -> str:
    """The name of the same mesh in the data set, so that new labels replace old ones; else a free name."""
    for stem in numbered(safe_file_name(mesh.name)):
        path = meshes / f"{stem}.ply"
        if not path.exists():
            return stem
        saved = load_mesh(path)
        if np.array_equal(saved.vertices, mesh.vertices) and np.array_equal(saved.faces, mesh.faces):
            return stem
    raise AssertionError("names never run out")


def _description(opened: OpenMesh, annotation: Annotation) -> str:
    counts = np.bincount(annotation.labels + 1, minlength=len(annotation.classes) + 1)
    content = {
        "mesh": opened.mesh.name,
        "element": "face",
        "classes": list(annotation.classes),
        "colors": [hex_color(color) for color in annotation.colors],
        "faces": dict(zip(("unlabeled", *annotation.classes), counts.tolist(), strict=True)),
        "model": None if opened.prediction is None else opened.prediction.model,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
