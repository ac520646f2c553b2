"""The content of a mesh file, before it becomes a `Mesh`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hodgeformer.base.errors import MeshError, MeshFormatError
from hodgeformer.mesh.columns import Column
from hodgeformer.mesh.elements import edge_rows
from hodgeformer.mesh.formats.source import LineOf, Source
from hodgeformer.mesh.mesh import Attributes, FloatArray, IntArray, Mesh
from hodgeformer.mesh.polygons import triangulate
from hodgeformer.mesh.topology import is_used, repeats_a_vertex


@dataclass(frozen=True, eq=False)
class Content:
    """Vertices, and polygons as one array of corners with the number of corners of each.

    Attributes and columns of faces belong to polygons here. `vertex_line` and `face_line` give the line of an element
    in the file; a binary file has none. `edges` (n, 2) are the ends of the edges that columns of edges belong to.
    """

    vertices: FloatArray
    corners: IntArray
    n_corners: IntArray
    attributes: Attributes = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    vertex_line: LineOf | None = None
    face_line: LineOf | None = None
    columns: dict[str, Column] = field(default_factory=dict)
    edges: IntArray | None = None

    def to_mesh(self, path: Path, source: Source | None = None) -> Mesh:
        """Check every number, cut the polygons into triangles, and copy face attributes to the triangles.

        The memory of a file is limited by the budget of its `source`.
        """
        self._check(path)
        if source is not None:
            self._count(source)
        notes = list(self.notes)
        attributes, columns = dict(self.attributes), dict(self.columns)
        polygons: IntArray | None = None
        if (self.n_corners == 3).all():
            faces = self.corners.reshape(-1, 3)
        else:
            faces, polygons, cut = triangulate(self.vertices, self.corners, self.n_corners)
            notes.extend(cut)
            for kind in [kind for kind in attributes if kind.startswith("face")]:
                attributes[kind] = attributes[kind][polygons]
            for column, (element, values) in columns.items():
                columns[column] = Column(element, values[polygons] if element == "face" else values)
        notes.extend(_notes_on(faces, len(self.vertices)))
        # The name of a file need not be valid text; that of a mesh is written to pages and files.
        name = os.fsencode(path.stem).decode("utf-8", "replace")
        of_edges = {column: columns.pop(column) for column in list(columns) if columns[column].element == "edge"}
        mesh = Mesh(self.vertices, faces, name, polygons, tuple(notes), attributes, columns)
        return mesh if self.edges is None or not of_edges else _with_edges(mesh, of_edges, self.edges)

    def _count(self, source: Source) -> None:
        """Count the arrays of the mesh; polygons also become triangles, with the attributes of their polygon."""
        n_triangles = len(self.corners) - 2 * len(self.n_corners)
        source.reserve(
            24 * (len(self.vertices) + n_triangles), f"{len(self.vertices):,} vertices, {n_triangles:,} faces"
        )
        if n_triangles != len(self.n_corners):
            carried = sum(values[:1].nbytes for kind, values in self.attributes.items() if kind.startswith("face"))
            carried += sum(values.itemsize for element, values in self.columns.values() if element == "face")
            source.reserve((32 + carried) * n_triangles, f"{n_triangles:,} triangles, which its polygons are cut into,")

    def _check(self, path: Path) -> None:
        if len(self.n_corners) == 0:
            raise MeshError(f"{path}: the file has no faces; a surface of triangles or polygons is needed")
        bad = np.flatnonzero(~np.isfinite(self.vertices).all(axis=1))
        if bad.size:
            raise MeshError(
                f"{where(path, self.vertex_line, bad[0])}: vertex {bad[0]} has coordinates "
                f"{self.vertices[bad[0]].tolist()} that are not finite ({bad.size} such vertices); "
                "repair or remove them"
            )
        small = np.flatnonzero(self.n_corners < 3)
        if small.size:
            raise MeshFormatError(
                f"{where(path, self.face_line, small[0])}: face {small[0]} has {self.n_corners[small[0]]} "
                f"corners, at least 3 are needed ({small.size} such faces); remove it"
            )
        wrong = np.flatnonzero((self.corners < 0) | (self.corners >= len(self.vertices)))
        if wrong.size:
            face = int(np.searchsorted(np.cumsum(self.n_corners), wrong[0], side="right"))
            raise MeshError(
                f"{where(path, self.face_line, face)}: face {face} refers to vertex {self.corners[wrong[0]]}"
                f", but the file has {len(self.vertices)} vertices (numbered from 0); "
                "the file is truncated or its faces are wrong: export it again"
            )


def where(path: Path, line_of: LineOf | None, element: int) -> str:
    """`file:line` for text, `file` for binary."""
    return str(path) if line_of is None else f"{path}:{line_of(int(element))}"


def _with_edges(mesh: Mesh, columns: dict[str, Column], ends: IntArray) -> Mesh:
    """The mesh with columns of the edges between these ends, which are in any order."""
    if not repeats_a_vertex(mesh.faces).all() and ends.min() >= 0 and ends.max() < mesh.n_vertices:
        number = edge_rows(mesh, ends)
        rows = np.full(len(mesh.topology.edges), -1)
        rows[number[number >= 0]] = np.flatnonzero(number >= 0)
        if (rows >= 0).all():
            return mesh.with_columns({name: ("edge", values[rows]) for name, (_, values) in columns.items()})
    ignored = "columns of edges ignored: the file does not list every edge of its faces"
    return replace(mesh, notes=(*mesh.notes, ignored))


def _notes_on(faces: IntArray, n_vertices: int) -> list[str]:
    """Remarks about things that are allowed."""
    repeating, unused = repeats_a_vertex(faces).sum(), n_vertices - is_used(faces, n_vertices).sum()
    notes = [f"{repeating} faces repeat a vertex"] if repeating else []
    return [*notes, f"{unused} vertices are not used by any face"] if unused else notes
