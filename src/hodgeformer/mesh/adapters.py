"""Meshes of other packages: arrays, tensors, trimesh, meshio, PyTorch Geometric.

They are recognized by their attributes, so that none of these packages is required or imported. Their numbers per
vertex or face become columns: `vertex_attributes`, `face_attributes` and colors of trimesh, `point_data` and
`cell_data` of meshio, `x` of PyTorch Geometric.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import PartElement
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.formats.polygons import Content
from hodgeformer.mesh.mesh import COLOR, Column, Mesh, is_column_name, to_colors


class HasVertices(Protocol):
    """`trimesh.Trimesh` (with `faces`), and similar classes."""

    @property
    def vertices(self) -> Any: ...


class HasPoints(Protocol):
    """`meshio.Mesh` (with `cells`)."""

    @property
    def points(self) -> Any: ...


class HasPositions(Protocol):
    """`torch_geometric.data.Data`: `pos` (n, 3) and `face` (3, n)."""

    @property
    def pos(self) -> Any: ...


InMemory = tuple[Any, Any] | HasVertices | HasPoints | HasPositions
"""(vertices, faces) as arrays or tensors, or a mesh of another package."""


def from_memory(given: Any, name: str = "mesh") -> Mesh | Content:
    """The mesh of another package, vertices and faces in its order; polygons are not cut yet."""
    if hasattr(given, "geometry") and hasattr(given, "to_mesh"):  # a trimesh.Scene, from a file with several parts
        given = given.to_mesh()
    of_faces: dict[str, Any] = {}
    if isinstance(given, tuple | list) and len(given) == 2:
        vertices, blocks = given[0], [given[1]]
    elif hasattr(given, "pos") and getattr(given, "face", None) is not None:
        vertices, blocks = given.pos, [_array(given.face, name).T]
    elif hasattr(given, "points") and isinstance(getattr(given, "cells", None), list):
        vertices, blocks = given.points, _surface_cells(given.cells, name)
        is_surface = [_is_surface(cell) for cell in given.cells]
        for key, parts in getattr(given, "cell_data", {}).items():
            of_faces[key] = np.concatenate([part for part, kept in zip(parts, is_surface, strict=True) if kept])
    elif hasattr(given, "vertices") and hasattr(given, "faces"):
        vertices, blocks = given.vertices, [given.faces]
        of_faces = dict(getattr(given, "face_attributes", {}))
    else:
        kind = type(given)
        raise MeshError(
            f"{name}: unsupported type {kind.__module__}.{kind.__qualname__}; pass a path, (vertices, faces), or a "
            "surface of trimesh, meshio or PyTorch Geometric"
        )
    arrays = [_array(block, name) for block in blocks]
    of_vertices = getattr(given, "point_data", None) or getattr(given, "vertex_attributes", None) or {}
    of_vertices = {"x": given.x} if getattr(given, "x", None) is not None else dict(of_vertices)
    painted = getattr(getattr(given, "visual", None), "kind", None)
    if painted in ("vertex", "face"):
        (of_vertices if painted == "vertex" else of_faces)[COLOR] = getattr(given.visual, f"{painted}_colors")
    columns = _columns("face", of_faces, sum(map(len, arrays))) | _columns("vertex", of_vertices, len(vertices))
    return _joined(_array(vertices, name), arrays, name, columns)


def _columns(element: PartElement, given: Mapping[str, Any], n: int) -> dict[str, Column]:
    """The arrays of n rows of numbers, under names that files can store; other data is ignored."""
    columns: dict[str, Column] = {}
    for key, values in given.items():
        name, array = re.sub(r"[^!-~]+", "_", str(key)), np.asarray(_array(values, str(key)))
        array = to_colors(array)[:, :3] if name == COLOR and array.ndim == 2 else array
        if array.dtype.kind in "iufb" and array.ndim in (1, 2) and len(array) == n and array.size:
            parts = {name: array} if array.ndim == 1 else {f"{name}_{i}": part for i, part in enumerate(array.T)}
            columns |= {part: Column(element, row) for part, row in parts.items() if is_column_name(part)}
    return columns


def _joined(
    vertices: NDArray[Any], blocks: Sequence[NDArray[Any]], name: str, columns: Mapping[str, Column]
) -> Mesh | Content:
    """A mesh from blocks of faces (n, k), each with its own number k of corners."""
    blocks = [block for block in blocks if block.size]
    if len(blocks) > 1 and any(block.ndim != 2 or block.shape[1] < 3 for block in blocks):
        raise MeshError(f"{name}: a face must have at least three corners; remove lines and points")
    if all(block.ndim != 2 or block.shape[1] <= 3 for block in blocks):
        faces = np.concatenate(blocks) if blocks else np.zeros((0, 3), dtype=np.int64)
        return Mesh(vertices, faces, name, columns=columns)
    Mesh(vertices, np.concatenate([block[:, :3] for block in blocks]), name)  # validates the arrays
    corners = np.concatenate([block.ravel() for block in blocks]).astype(np.int64)
    n_corners = np.concatenate([np.full(len(block), block.shape[1]) for block in blocks])
    return Content(vertices.astype(np.float64), corners, n_corners, columns=dict(columns))


def _surface_cells(cells: list[Any], name: str) -> list[Any]:
    """The triangles and polygons of a meshio mesh; only the corners of curved ones."""
    corners = {"tri": 3, "qua": 4}
    blocks = [
        np.atleast_2d(_array(cell.data, name))[:, : corners.get(cell.type[:3])] for cell in cells if _is_surface(cell)
    ]
    if not blocks:
        found = ", ".join(sorted({cell.type for cell in cells})) or "none"
        raise MeshError(f"{name}: the mesh has no triangles or polygons, only cells of type {found}; pass its surface")
    return blocks


def _is_surface(cell: Any) -> bool:
    return bool(cell.type.startswith(("triangle", "quad", "polygon")))


def _array(values: Any, name: str) -> NDArray[Any]:
    """A NumPy array from an array or tensor on any device."""
    for step in ("detach", "cpu", "numpy"):
        values = getattr(values, step)() if hasattr(values, step) else values
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise MeshError(f"{name}: vertices and faces must be arrays of numbers ({error})") from None
