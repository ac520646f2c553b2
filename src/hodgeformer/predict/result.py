"""The answer of a model for a mesh: as arrays, in the order of its file; as a picture, as a page, and as a file."""

from __future__ import annotations

import importlib
import io
import json
import os
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KIND_OF, Element, PartElement, Task
from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import place, write_atomically
from hodgeformer.base.palette import RGB
from hodgeformer.base.settings import UpName
from hodgeformer.draw.colormap import field_colors, field_limits
from hodgeformer.draw.page import FieldLayer, Scene, embedded_page, in_notebook, labeled_scene, page
from hodgeformer.mesh.elements import convert_values, element_areas, majority
from hodgeformer.mesh.geometry import in_range
from hodgeformer.mesh.io import WRITTEN, save_mesh
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import UP_AXES
from hodgeformer.mesh.up import part_centers, up_from_parts, up_from_shape

if TYPE_CHECKING:  # pictures are drawn by large packages
    from hodgeformer.draw.lettering import Picture

COLORED = (".ply", ".glb", ".obj", ".off")
FORMATS = (*COLORED, ".png", ".json", ".npz", ".txt", ".html")


def known_format(suffix: str, given: object) -> str:
    """The suffix in lower case, if results can be written in this format."""
    if suffix.lower() not in FORMATS:
        raise ConfigError(f"{given}: unsupported format '{suffix}'; use one of {', '.join(FORMATS)}")
    return suffix.lower()


@dataclass(frozen=True, eq=False)
class Result:
    """Labels, probabilities and class names of one mesh.

    `outputs` has one row per element of the file, or one row for the whole mesh (`element` "mesh"): probabilities of
    the classes, or the values of a regression. `warnings` list differences from the training meshes, and `familiarity`
    is the similarity to them from 0 to 1, if the model was calibrated. `working_faces` is the number of faces at the
    working resolution. `up_axis` points up in the file; "auto" finds it by `heights`, where the classes usually are.
    """

    mesh: Mesh
    task: Task
    element: Element
    outputs: NDArray[np.float32]
    names: tuple[str, ...] = ()
    colors: tuple[RGB, ...] = ()
    warnings: tuple[str, ...] = ()
    path: Path | None = None
    working_faces: int | None = None
    familiarity: float | None = None
    up_axis: UpName = "auto"
    heights: tuple[float, ...] = ()

    @property
    def resolution(self) -> str:
        """How the mesh was resized for the model; empty if it was not."""
        if self.working_faces is None or self.working_faces == self.mesh.n_faces:
            return ""
        where = "" if self.element == "mesh" else f"; every original {self.element} gets an answer"
        how = "simplified" if self.working_faces < self.mesh.n_faces else "subdivided"
        return f"{self.mesh.n_faces:,} faces, {how} to {self.working_faces:,} for the model{where}"

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """(n_classes,) the share of the surface of each class."""
        areas = np.ones(1) if self.element == "mesh" else element_areas(in_range(self.mesh), KIND_OF[self.element])
        covered = np.bincount(self.labels, areas if areas.any() else None, len(self.names))
        return np.asarray(covered / covered.sum())

    @cached_property
    def counts(self) -> IntArray:
        """(n_classes,) the number of elements of each class."""
        return np.bincount(self.labels, minlength=len(self.names))

    @cached_property
    def up(self) -> FloatArray:
        """The direction that points up in the file: as given, or guessed from the parts or from the shape."""
        if self.up_axis != "auto":
            return np.array(UP_AXES[self.up_axis], dtype=np.float64)
        guess = up_from_shape(self.mesh)
        if not self.heights or self.element == "mesh":
            return guess
        centers, shares = part_centers(self.mesh, self.on("face").labels, len(self.names))
        return up_from_parts(centers, shares, np.array(self.heights), otherwise=guess)

    @property
    def summary(self) -> str:
        """The answer in one line; for a segmentation, the share of the surface and the number of elements per class."""
        if self.task == "classification":
            return f"{self.label} ({self.confidence[0]:.0%})"
        if self.task == "regression":
            mean = ", ".join(f"{value:.4g}" for value in self.values.mean(axis=0))
            return mean if self.element == "mesh" else f"mean {mean}"
        order = [i for i in np.argsort(-self.shares, kind="stable") if self.counts[i]]
        parts = [f"{self.names[i]} {self.shares[i]:.0%} ({self.counts[i]:,})" for i in order]
        counted = "vertices" if self.element == "vertex" else f"{self.element}s"
        return f"{', '.join(parts)}; percent of the surface (number of {counted})"

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """(n, n_classes), rows sum to one."""
        if self.task == "regression":
            raise ConfigError(f"{self.mesh.name}: a regression has values, not probabilities; use `.values`")
        return self.outputs

    @property
    def values(self) -> NDArray[np.float32]:
        """(n, n_values) the values of a regression."""
        if self.task != "regression":
            raise ConfigError(f"{self.mesh.name}: a {self.task} has labels and probabilities, not values")
        return self.outputs

    @cached_property
    def labels(self) -> IntArray:
        """(n,) the most probable class of each element, or of the mesh."""
        return np.asarray(self.probabilities.argmax(axis=1), np.int64)

    @property
    def label(self) -> str:
        """The class of the whole mesh."""
        if self.task != "classification":
            raise ConfigError(f"{self.mesh.name}: a {self.task} has no single label; use `.labels`")
        return self.names[int(self.labels[0])]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(n,) the probability of the label."""
        return np.asarray(self.probabilities.max(axis=1))

    @cached_property
    def polygon_labels(self) -> IntArray | None:
        """Labels of the polygons of the file, by majority; None if all its faces are triangles."""
        polygons = self.mesh.polygons if self.element == "face" else None
        return None if polygons is None else majority(self.labels, polygons, int(polygons.max()) + 1)

    @property
    def element_colors(self) -> NDArray[np.uint8]:
        """(n, 3) the color of the class of each row, or of the first value of a regression."""
        if self.task != "regression":
            return np.array(self.colors, dtype=np.uint8)[self.labels]
        return field_colors(self.values[:, 0])

    def on(self, element: PartElement) -> Self:
        """The same answer for another kind of element: means over incident elements."""
        if self.element == "mesh":
            raise ConfigError(f"{self.mesh.name}: a {self.task} of whole meshes has no answer for each {element}")
        outputs = convert_values(self.outputs, self.mesh, source=KIND_OF[self.element], to=KIND_OF[element])
        return replace(self, element=element, outputs=outputs)

    def parts(self) -> Iterator[tuple[str, Mesh]]:
        """The faces of each class that occurs, as separate meshes, with the class name."""
        labels = self.on("face").labels
        for label in np.unique(labels):
            used, faces = np.unique(self.mesh.faces[labels == label], return_inverse=True)
            name = self.names[int(label)]
            yield name, Mesh(self.mesh.vertices[used], faces.reshape(-1, 3), name=f"{self.mesh.name} {name}")

    def to_dict(self) -> dict[str, Any]:
        """Everything except the mesh itself, in plain types."""
        content: dict[str, Any] = {
            "mesh": self.mesh.name,
            "file": str(self.path) if self.path else None,
            "task": self.task,
            "element": self.element,
            "n_vertices": self.mesh.n_vertices,
            "n_faces": self.mesh.n_faces,
            "working_faces": self.working_faces,
            "notes": list(self.mesh.notes),
            "warnings": list(self.warnings),
            "familiarity": None if self.familiarity is None else round(self.familiarity, 4),
        }
        rows = self.outputs.astype(np.float64).round(5).tolist()
        if self.task == "regression":
            return content | {"values": rows}
        content |= {"classes": list(self.names), "colors": [list(color) for color in self.colors]}
        if self.task == "classification":
            content["label"] = self.label
        else:
            shares = zip(self.names, self.shares.tolist(), self.counts.tolist(), strict=True)
            content["parts"] = {name: {"area_share": round(s, 5), "count": n} for name, s, n in shares if n}
        content["labels"] = self.labels.tolist()
        if self.polygon_labels is not None:
            content["polygon_labels"] = self.polygon_labels.tolist()
        return content | {"probabilities": rows}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write PLY, GLB, OBJ or OFF (colored mesh), JSON, NPZ or TXT (numbers), PNG (picture) or HTML (3D page)."""
        path = place(path)
        suffix = known_format(path.suffix, path)
        if self.element == "mesh" and suffix in COLORED:
            save_mesh(self.mesh, path)
        elif suffix in COLORED:
            self._save_colored(path, suffix)
        elif suffix == ".png":
            self.render(path)
        else:
            write_atomically(path, self._content(suffix))

    def render(self, path: str | os.PathLike[str] | None = None, **look: Any) -> Picture:
        """A picture with the classes that occur, written as PNG if a path is given; `look` as in `draw.render`."""
        from hodgeformer.draw.lettering import ColorBar, Legend
        from hodgeformer.draw.render import render, save_png

        title = f"{self.mesh.name}: {self.summary}" if self.task == "classification" else self.mesh.name
        paint: dict[str, Any] = {"title": title, "up": self.up}
        if self.element != "mesh":
            shown = self._paintable()
            paint[f"{shown.element}_colors"] = shown.element_colors
            if self.task == "regression":
                paint["key"] = ColorBar(field_limits(shown.values[:, 0]), label="value")
            else:
                present = ((self.names[i], self.colors[i]) for i in np.unique(shown.labels))
                paint |= {"key": Legend(tuple(present)), "blend": False}
        picture = render(self.mesh, **{**paint, **look})
        if path is not None:
            save_png(picture, path)
        return picture

    def scene(self, truth: NDArray[Any] | None = None) -> Scene:
        """This result for the HTML page, with its layers; `truth` are the true labels of its elements."""
        about: dict[str, Any] = {"caption": "; ".join(filter(None, [self.resolution, *self.warnings])), "up": self.up}
        if self.element == "mesh":
            answer, scores = ", ".join(f"{value:.4g}" for value in self.outputs[0]), []
            if self.task == "classification":
                order = np.argsort(-self.probabilities[0], kind="stable")
                answer, scores = self.label, [(self.names[i], float(self.probabilities[0, i])) for i in order]
            about["caption"] = " · ".join(filter(None, [answer, about["caption"]]))
            return Scene(self.mesh, scores=tuple(scores), **about)
        shown: Any = self._paintable()
        if self.task == "regression":
            named = ((f"value {i}", column, shown.element) for i, column in enumerate(shown.values.T, start=1))
            return Scene(self.mesh, tuple(FieldLayer(*layer) for layer in named), **about)
        about |= {"labels": shown.labels, "probabilities": shown.probabilities, "truth": truth}
        return labeled_scene(self.mesh, classes=self.names, colors=self.colors, element=shown.element, **about)

    def show(self) -> Path | None:
        """Show the result in a notebook; elsewhere open it as a page in the browser and return its path."""
        if in_notebook():
            importlib.import_module("IPython.display").display(self)
            return None
        path = Path(tempfile.mkdtemp(prefix="hodgeformer-"), "result.html")
        self.save(path)
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        return embedded_page([self.scene()])

    def __repr__(self) -> str:
        answer = f"values of shape {self.outputs.shape}" if self.task == "regression" else self.summary
        return f"Result({self.mesh.name!r}, per {self.element}: {answer})"

    def _paintable(self) -> Self:
        """The result on faces or vertices, which can be colored; edges cannot."""
        return self.on("face") if self.element == "edge" else self

    def _save_colored(self, path: Path, suffix: str) -> None:
        """The original mesh with the class of each face or vertex as color and, if the format supports it, as label."""
        shown = self._paintable()
        given: dict[str, Any] = {f"{shown.element}_colors": shown.element_colors}
        if self.task != "regression" and f"{shown.element}_labels" in WRITTEN[suffix]:
            given[f"{shown.element}_labels"] = shown.labels
        if suffix == ".ply" and shown.element == "face":  # Blender reads the colors of vertices only
            given["vertex_colors"] = self.on("vertex").element_colors
        given |= {kind: colors for kind, colors in self.mesh.own_colors.items() if kind in WRITTEN[suffix]}
        # Other programs, such as trimesh and meshio, cannot read a file with columns of edges.
        columns = {name: column for name, column in self.mesh.columns.items() if column.element != "edge"}
        save_mesh(replace(self.mesh, columns=columns), path, **given)

    def _content(self, suffix: str) -> bytes:
        """The bytes of a JSON, NPZ, TXT or HTML file; a data set can read TXT, one row per line, as `labels`."""
        if suffix == ".html":
            return page([self.scene()], title=self.mesh.name).encode()
        if suffix == ".json":
            return json.dumps(self.to_dict(), allow_nan=False).encode()
        if suffix == ".txt":
            rows, number = (self.values, "{:.7g}".format) if self.task == "regression" else (self.labels[:, None], str)
            return "".join(f"{' '.join(map(number, row))}\n" for row in rows.tolist()).encode()
        arrays: dict[str, Any] = {"values": self.outputs}
        if self.task != "regression":
            arrays = {"labels": self.labels, "probabilities": self.outputs, "classes": np.array(self.names, np.str_)}
        np.savez_compressed(stream := io.BytesIO(), **arrays)
        return stream.getvalue()
