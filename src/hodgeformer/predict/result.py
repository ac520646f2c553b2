"""The answer of a model for a mesh: as a picture, as a page, and as a file."""

from __future__ import annotations

import importlib
import io
import json
import os
import tempfile
import time
import webbrowser
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import place, write_atomically
from hodgeformer.mesh.io import WRITTEN, save_mesh
from hodgeformer.predict.result_data import ResultData

if TYPE_CHECKING:  # drawing is imported on first use
    from hodgeformer.draw.lettering import Picture
    from hodgeformer.draw.page import Scene

COLORED = (".ply", ".glb", ".obj", ".off")
FORMATS = (*COLORED, ".png", ".json", ".npz", ".txt", ".html")
_SHOWN = "hodgeformer-shown-"  # how the names of pages begin that `show` writes
_KEPT_SECONDS = 86_400


@dataclass(frozen=True, eq=False)
class Result(ResultData):
    """The answer for one mesh; also draws itself and writes itself in the formats of other programs."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write PLY, GLB, OBJ or OFF (colored mesh), JSON, NPZ or TXT (numbers), PNG (picture) or HTML (3D page)."""
        path = place(path)
        suffix = path.suffix.lower()
        if suffix not in FORMATS:
            raise ConfigError(f"{path}: unsupported format '{suffix}'; use one of {', '.join(FORMATS)}")
        if suffix in COLORED:
            self._save_colored(path, suffix)
        elif suffix == ".png":
            self.render(path)
        else:
            write_atomically(path, self._content(suffix))

    def render(self, path: str | os.PathLike[str] | None = None, **look: Any) -> Picture:
        """A picture with the classes that occur, written as PNG if a path is given; `look` as in `draw.render`."""
        from hodgeformer.draw.colormap import field_limits
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
                present = np.unique(shown.labels)
                legend = Legend(tuple((self.names[i], self.colors[i]) for i in present))
                paint |= {"key": legend, "blend": False}
        picture = render(self.mesh, **{**paint, **look})
        if path is not None:
            save_png(picture, path)
        return picture

    def scene(self, truth: NDArray[Any] | None = None) -> Scene:
        """This result for the HTML page, with its layers; `truth` are the true labels of its elements."""
        from hodgeformer.draw.page import FieldLayer, Scene, labeled_scene

        caption = "; ".join(filter(None, [self.resolution, *self.warnings]))
        if self.element == "mesh":
            answer, scores = ", ".join(f"{value:.4g}" for value in self.outputs[0]), []
            if self.task == "classification":
                order = np.argsort(-self.probabilities[0], kind="stable")
                answer, scores = self.label, [(self.names[i], float(self.probabilities[0, i])) for i in order]
            caption = " · ".join(filter(None, [answer, caption]))
            return Scene(self.mesh, caption=caption, scores=tuple(scores), up=self.up)
        shown = self._paintable()
        element: Any = shown.element
        if self.task == "regression":
            columns = enumerate(shown.values.T, start=1)
            layers = tuple(FieldLayer(f"value {i}", column, element) for i, column in columns)
            return Scene(self.mesh, layers, caption, up=self.up)
        return labeled_scene(
            self.mesh,
            labels=shown.labels,
            classes=self.names,
            colors=self.colors,
            element=element,
            probabilities=shown.probabilities,
            truth=truth,
            caption=caption,
            up=self.up,
        )

    def show(self) -> Path | None:
        """Show the result in a notebook; elsewhere open it as a page in the browser and return its path."""
        from hodgeformer.draw.page import in_notebook

        if in_notebook():
            importlib.import_module("IPython.display").display(self)
            return None
        with tempfile.NamedTemporaryFile("w", suffix=".html", prefix=_SHOWN, delete=False) as file:
            path = Path(file.name)
        self.save(path)
        for earlier in path.parent.glob(f"{_SHOWN}*.html"):  # the browser may still need today's
            with suppress(OSError):
                if time.time() - earlier.stat().st_mtime > _KEPT_SECONDS:
                    earlier.unlink()
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        from hodgeformer.draw.page import embedded_page

        return embedded_page([self.scene()])

    def __repr__(self) -> str:
        answer = f"values of shape {self.outputs.shape}" if self.task == "regression" else self.summary
        return f"Result({self.mesh.name!r}, per {self.element}: {answer})"

    def _paintable(self) -> Self:
        """The result on faces or vertices, which can be colored; edges cannot."""
        return self.on("face") if self.element == "edge" else self

    def _save_colored(self, path: Path, suffix: str) -> None:
        """The original mesh with the class of each face or vertex as color and, if the format supports it, as label."""
        if self.element == "mesh":
            save_mesh(self.mesh, path)
            return
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
            from hodgeformer.draw.page import page

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
