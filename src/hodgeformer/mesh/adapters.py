"""Meshes of other packages: arrays, tensors, trimesh, meshio, Open3D, PyVista, PyTorch Geometric.

They are recognized by their attributes, so that none of these packages is required or imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.formats.content import Content
from hodgeformer.mesh.mesh import Mesh


class HasVertices(Protocol):
    """`trimesh.Trimesh` (with `faces`), Open3D's legacy `TriangleMesh` (with `triangles`), and similar classes."""

    @property
    def vertices(self) -> Any: ...


class HasPoints(Protocol):
    """`meshio.Mesh` (with `cells`) and `pyvista.PolyData` (with `faces`)."""

    @property
    def points(self) -> Any: ...


class HasPositions(Protocol):
    """`torch_geometric.data.Data`: `pos` (n, 3) and `face` (3, n)."""

    @property
    def pos(self) -> Any: ...


class HasAttributes(Protocol):
    """Open3D's `t.geometry.TriangleMesh`: `vertex.positions` and `triangle.indices`."""

    @property
    def vertex(self) -> Any: ...


InMemory = tuple[Any, Any] | HasVertices | HasPoints | HasPositions | HasAttributes
"""(vertices, faces) as arrays or tensors, or a mesh of another package."""


def from_memory(given: Any, name: str = "mesh") -> Mesh:
    """The mesh of another package, vertices and faces in its order; polygons are cut into triangles."""
    if hasattr(given, "geometry") and hasattr(given, "to_mesh"):  # a trimesh.Scene, from a file with several parts
        given = given.to_mesh()
    if isinstance(given, tuple | list) and len(given) == 2:
        vertices, blocks = given[0], [given[1]]
    elif hasattr(given, "pos") and getattr(given, "face", None) is not None:
        vertices, blocks = given.pos, [_array(given.face, name).T]
    elif hasattr(given, "vertex") and hasattr(given, "triangle"):
        vertices, blocks = given.vertex["positions"], [given.triangle["indices"]]
    elif hasattr(given, "points") and isinstance(getattr(given, "cells", None), list):
        vertices, blocks = given.points, _surface_cells(given.cells, name)
    elif hasattr(given, "points") and isinstance(getattr(given, "faces", None), np.ndarray):
        vertices, blocks = given.points, _counted_polygons(given.faces, name)
    elif hasattr(given, "vertices") and (hasattr(given, "faces") or hasattr(given, "triangles")):
        vertices, blocks = given.vertices, [given.faces if hasattr(given, "faces") else given.triangles]
    else:
        kind = type(given)
        raise MeshError(
            f"{name}: unsupported type {kind.__module__}.{kind.__qualname__}; pass a path, (vertices, faces), or a "
            "surface of trimesh, meshio, Open3D, PyVista or PyTorch Geometric"
        )
    return _joined(_array(vertices, name), [_array(block, name) for block in blocks], name)


def _joined(vertices: NDArray[Any], blocks: Sequence[NDArray[Any]], name: str) -> Mesh:
    """A mesh from blocks of faces (n, k), each with its own number k of corners."""
    blocks = [block for block in blocks if block.size]
    if len(blocks) > 1 and any(block.ndim != 2 or block.shape[1] < 3 for block in blocks):
        raise MeshError(f"{name}: a face must have at least three corners; remove lines and points")
    if all(block.ndim != 2 or block.shape[1] <= 3 for block in blocks):
        faces = np.concatenate(blocks) if blocks else np.zeros((0, 3), dtype=np.int64)
        return Mesh(vertices, faces, name)
    Mesh(vertices, np.concatenate([block[:, :3] for block in blocks]), name)  # validates the arrays
    corners = np.concatenate([block.ravel() for block in blocks]).astype(np.int64)
    n_corners = np.concatenate([np.full(len(block), block.shape[1]) for block in blocks])
    return Content(vertices.astype(np.float64), corners, n_corners).to_mesh(Path(name))


def _surface_cells(cells: list[Any], name: str) -> list[Any]:
    """The triangles and polygons of a meshio mesh; only the corners of curved ones."""
    corners = {"tri": 3, "qua": 4}
    blocks = [
        np.atleast_2d(_array(cell.data, name))[:, : corners.get(cell.type[:3])]
        for cell in cells
        if cell.type.startswith(("triangle", "quad", "polygon"))
    ]
    if not blocks:
        found = ", ".join(sorted({cell.type for cell in cells})) or "none"
        raise MeshError(f"{name}: the mesh has no triangles or polygons, only cells of type {found}; pass its surface")
    return blocks


def _counted_polygons(flat: NDArray[Any], name: str) -> list[NDArray[Any]]:
    """Polygons from one array in which each is preceded by its number of corners."""
    if len(flat) % 4 == 0 and (flat[::4] == 3).all():
        return [flat.reshape(-1, 4)[:, 1:]]
    polygons, at = [], 0
    while at < len(flat):
        if not 0 < flat[at] < len(flat) - at:
            raise MeshError(f"{name}: a face has {flat[at]} corners, but only {len(flat) - at - 1} numbers follow")
        polygons.append(flat[at + 1 : at + 1 + flat[at]])
        at += 1 + flat[at]
    return [np.stack(list(run)) for _, run in groupby(polygons, key=len)]


def _array(values: Any, name: str) -> NDArray[Any]:
    """A NumPy array from an array or tensor on any device."""
    for step in ("detach", "cpu", "numpy"):
        values = getattr(values, step)() if hasattr(values, step) else values
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise MeshError(f"{name}: vertices and faces must be arrays of numbers ({error})") from None
