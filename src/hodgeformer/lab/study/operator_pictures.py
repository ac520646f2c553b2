"""Pictures of learned operators: attention around an element, and rows of eigenfunctions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.draw.camera import Up, View, rotation, upright
from hodgeformer.draw.colormap import field_colors, field_limits
from hodgeformer.draw.lettering import ColorBar, Picture, title_band
from hodgeformer.draw.render import render, save_png, stacked
from hodgeformer.lab.study.operator_report import OperatorReport
from hodgeformer.mesh.geometry import face_centers, face_vectors
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.operators import Eigenpairs

_MARK = (20, 22, 26)
_PANEL = 240
_WIDTH = 1200
_HIGHEST = 50.0


def save_operator_pictures(report: OperatorReport, mesh: Mesh, folder: Path, *, up: Up) -> list[Path]:
    """attention.png and eigenfunctions.png."""
    attention, functions = folder / "attention.png", folder / "eigenfunctions.png"
    save_png(stacked([_attention(report, mesh, name, up) for name in report.attention]), attention)
    rows = [_row("cotangent Laplacian, smallest", report.cotangent, mesh, "v", up)]
    for kind, found in report.eigen.items():
        title = f"L_{kind} of layer {report.layer}, head {report.head}"
        rows.append(_row(title + (", absolute values" if kind == "e" else ""), found, mesh, kind, up))
    save_png(stacked(rows), functions)
    return [attention, functions]


def _attention(report: OperatorReport, mesh: Mesh, name: str, up: Up) -> Picture:
    weights, kind = np.abs(report.attention[name]), report.kind
    limits = field_limits(weights, "warmth")
    colors = field_colors(weights, "warmth", (0.0, limits[1]))
    colors[report.picked] = _MARK
    neighbors = int(np.isfinite(weights).sum())
    title = (
        f"{name}, layer {report.layer}, head {report.head}: what {ELEMENT_NAMES[kind]} {report.picked} (black) reads, "
        f"{neighbors} neighbors, weight on itself {weights[report.picked]:.3f}"
    )
    key = ColorBar((0.0, limits[1]), "warmth", "attention weight; gray: not in its pattern")
    views = facing(mesh, kind, report.picked, up)
    shown: dict[str, Any] = {"views": views, "up": up, "title": title, "key": key, "edges": 0.25, "width": _WIDTH}
    if kind == "v":
        return render(mesh, vertex_colors=colors, blend=False, **shown)
    if kind == "e":
        weights = weights.copy()
        weights[report.picked] = np.inf
        colors = _face_colors_of_edges(mesh, weights, limits[1])
    return render(mesh, face_colors=colors, **shown)


def _face_colors_of_edges(mesh: Mesh, weights: NDArray[np.float64], high: float) -> NDArray[np.uint8]:
    """The largest weight among the sides of each face; the two faces at the picked edge are marked."""
    of_sides = np.where(np.isnan(weights), -1.0, weights)[_sides(mesh)].max(axis=1)
    colors = field_colors(np.where(of_sides < 0, np.nan, np.minimum(of_sides, high)), "warmth", (0.0, high))
    colors[np.isinf(of_sides)] = _MARK
    return colors


def _sides(mesh: Mesh) -> NDArray[np.int64]:
    """The edges (n_f, 3) of each face, numbered by first appearance; a face that repeats a vertex shows edge 0."""
    proper, topology = mesh.proper_faces, mesh.topology
    sides = np.zeros((mesh.n_faces, 3), dtype=np.int64)
    sides[proper] = topology.face_edges
    return sides


def facing(mesh: Mesh, kind: ElementKind, picked: int, up: Up) -> list[View]:
    """A view straight at the picked element, one from the side, one from behind."""
    if kind == "v":
        faces = np.flatnonzero((mesh.faces == picked).any(axis=1))
    else:
        faces = np.flatnonzero((_sides(mesh) == picked).any(axis=1)) if kind == "e" else np.array([picked])
    normal = face_vectors(mesh.vertices, mesh.faces[faces]).sum(axis=0)
    if not np.linalg.norm(normal):
        normal = face_centers(mesh.vertices, mesh.faces[faces]).mean(axis=0) - mesh.vertices.mean(axis=0)
    right, above, toward = rotation(View(0, 0), upright(mesh, up)) @ normal
    azimuth = float(np.degrees(np.arctan2(right, toward)))
    elevation = float(np.degrees(np.arctan2(above, np.hypot(right, toward))))
    tilt = float(np.clip(elevation, -_HIGHEST, _HIGHEST))
    return [View(azimuth, tilt), View(azimuth + 90, 12), View(azimuth + 180, 12)]


def _row(title: str, found: Eigenpairs, mesh: Mesh, kind: ElementKind, up: Up) -> Picture:
    """One picture per eigenfunction, real parts, side by side under a title."""
    panels = []
    for i in found.distinct():
        values = found.functions[:, i].real
        value = complex(np.round(found.values[i], 9))
        name = f"{value.real:.3g} ± {abs(value.imag):.2g}i" if found.is_pair(i) else f"{value.real + 0.0:.3g}"
        if kind == "e":  # a 1-form has the sign of the edge's direction, which shows nothing on a face
            face_values = np.abs(values)[_sides(mesh)].mean(axis=1)
            colors = field_colors(face_values, "sequential")
        else:
            colors = field_colors(values, "diverging")
        paint = {"vertex_colors" if kind == "v" else "face_colors": colors}
        panels.append(render(mesh, views=[View(25)], width=_PANEL, up=up, title=name, **paint))  # type: ignore[arg-type]
    if not panels:
        return title_band(f"{title}: none converged", _PANEL, 20)
    row = np.concatenate(panels, axis=1)
    return np.concatenate([title_band(title, row.shape[1], 20), row])
