"""What a model says about a mesh, on the mesh as its file has it."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hodgeformer.data.colors import RGB
from hodgeformer.data.convert import majority
from hodgeformer.data.dataset import KIND_OF, Element
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.predict.elements import carry

if TYPE_CHECKING:
    from hodgeformer.draw.lettering import Picture
    from hodgeformer.draw.page import Scene

Task = Literal["classification", "segmentation", "regression"]


@dataclass(frozen=True, eq=False)
class Result:
    """Labels, probabilities and class names of one mesh.

    `outputs` has one row per element of the file, or one row for the whole mesh (`element` "mesh"): probabilities of
    the classes, or the values of a regression. `warnings` say where the mesh is unlike the training meshes.
    """

    mesh: Mesh
    task: Task
    element: Element
    outputs: NDArray[np.float32]
    names: tuple[str, ...] = ()
    colors: tuple[RGB, ...] = ()
    warnings: tuple[str, ...] = ()
    path: Path | None = None

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """(n, n_classes), rows sum to one."""
        if self.task == "regression":
            raise ConfigError(f"{self.mesh.name}: a regression has values, not probabilities; use `.values`")
        return self.outputs

    @property
    def values(self) -> NDArray[np.float32]:
        """(n, n_values) of a regression."""
        if self.task != "regression":
            raise ConfigError(f"{self.mesh.name}: a {self.task} has labels and probabilities, not values")
        return self.outputs

    @cached_property
    def labels(self) -> IntArray:
        """(n,) the most probable class of each element; of one element for a classification."""
        labels: IntArray = self.probabilities.argmax(axis=1).astype(np.int64)
        return labels

    @property
    def label(self) -> str:
        """The class of the whole mesh."""
        if self.task != "classification":
            raise ConfigError(f"{self.mesh.name}: a {self.task} has no single label; use `.labels`")
        return self.names[int(self.labels[0])]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(n,) the probability of the label."""
        best: NDArray[np.float32] = self.probabilities.max(axis=1)
        return best

    @cached_property
    def polygon_labels(self) -> IntArray | None:
        """Labels of the polygons of the file where it had faces with more than three corners: the majority."""
        if self.element != "face" or self.mesh.polygons is None:
            return None
        return majority(self.labels, self.mesh.polygons, int(self.mesh.polygons.max()) + 1)

    def on(self, element: Literal["face", "vertex", "edge"]) -> Result:
        """The same answer for another kind of element: means over incident elements."""
        if self.element == "mesh":
            raise ConfigError(f"{self.mesh.name}: a {self.task} of whole meshes says nothing about each {element}")
        outputs = carry(self.outputs, self.mesh, source=KIND_OF[self.element], to=KIND_OF[element])
        return replace(self, element=element, outputs=outputs)

    def parts(self) -> Iterator[tuple[str, Mesh]]:
        """The faces of each class that occurs, as meshes of their own, with the class name."""
        labels = self.on("face").labels
        for label in np.unique(labels):
            used, faces = np.unique(self.mesh.faces[labels == label], return_inverse=True)
            name = self.names[int(label)]
            yield name, Mesh(self.mesh.vertices[used], faces.reshape(-1, 3), name=f"{self.mesh.name} {name}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write PLY, GLB, OBJ or OFF (colored mesh), JSON, NPZ or TXT (numbers), PNG (picture) or HTML (page)."""
        from hodgeformer.predict.saving import save_result

        save_result(self, Path(path))

    def render(self, path: str | os.PathLike[str] | None = None, **look: Any) -> Picture:
        """A picture of the mesh in the colors of its classes; written as PNG if a path is given."""
        from hodgeformer.predict.pictures import picture_of, save_picture

        return picture_of(self, **look) if path is None else save_picture(self, Path(path), **look)

    def scene(self, truth: NDArray[Any] | None = None) -> Scene:
        """What the page shows of this result, with the true labels of its elements if they are known."""
        from hodgeformer.predict.pictures import scene_of

        return scene_of(self, truth)

    def show(self) -> Path:
        """Open the page in the browser; returns where it was written. A notebook shows a result by itself."""
        with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="hodgeformer-", delete=False) as file:
            path = Path(file.name)
        self.save(path)
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        from hodgeformer.predict.pictures import frame_of

        return frame_of(self)

    def __repr__(self) -> str:
        if self.task == "classification":
            answer = f"{self.label} ({self.confidence[0]:.0%})"
        elif self.task == "segmentation":
            found = np.bincount(self.labels, minlength=len(self.names))
            answer = ", ".join(f"{self.names[i]} {found[i]}" for i in np.flatnonzero(found))
        else:
            answer = f"values of shape {self.outputs.shape}"
        return f"Result({self.mesh.name!r}, per {self.element}: {answer})"
