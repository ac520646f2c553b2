"""A triangle mesh: vertices and faces, validated and immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.columns import COLOR_PARTS, Column, ColumnLike, as_columns, exact_parts, listed
from hodgeformer.mesh.topology import MeshComplex, repeats_a_vertex

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Attribute = Literal[
    "face_labels", "vertex_labels", "face_colors", "vertex_colors", "face_own_colors", "vertex_own_colors"
]
"""Attributes of faces and vertices in a file. Own colors are the original ones of a scan, beside those of labels."""
Attributes = dict[Attribute, NDArray[Any]]
Colors = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices (n_v, 3) float64 and faces (n_f, 3) int64 in the order of the file.

    Any triangle soup is allowed: boundary, non-manifold edges, several components, isolated vertices, duplicate and
    degenerate faces. Not allowed: no faces, coordinates that are not finite, indices out of range.

    `polygons[i]` is the polygon of the file that triangle i was cut from (None if every face was a triangle).
    `notes` lists what was done while reading. `attributes` contains labels and colors found in the file, `columns`
    other numbers of its vertices, edges or faces by name. Columns may be passed as arrays, (n,) or (n, k), or as
    ("face", array) if their length fits several elements.
    """

    vertices: FloatArray
    faces: IntArray
    name: str = "mesh"
    polygons: IntArray | None = None
    notes: tuple[str, ...] = ()
    attributes: Mapping[Attribute, NDArray[Any]] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        vertices = _array(self.vertices, np.float64, "vertices", self.name)
        faces = _array(self.faces, np.int64, "faces", self.name)
        if len(faces) == 0:
            raise MeshError(f"{self.name}: the mesh has no faces; a surface of triangles is needed")
        if not np.isfinite(vertices).all():
            bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
            raise MeshError(
                f"{self.name}: vertex {bad[0]} has coordinates {vertices[bad[0]].tolist()} that are not finite "
                f"({bad.size} such vertices); repair or remove them"
            )
        if faces.min() < 0 or faces.max() >= len(vertices):
            bad = np.flatnonzero(((faces < 0) | (faces >= len(vertices))).any(axis=1))
            raise MeshError(
                f"{self.name}: face {bad[0]} refers to vertices {faces[bad[0]].tolist()}, but the mesh has "
                f"{len(vertices)} vertices, numbered from 0 ({bad.size} such faces)"
            )
        for array in (vertices, faces):
            array.setflags(write=False)
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        columns = as_columns(self.columns, faces, len(vertices), self.name)
        object.__setattr__(self, "columns", MappingProxyType(columns))

    @property
    def n_vertices(self) -> int:
        return len(self.vertices)

    @property
    def n_faces(self) -> int:
        return len(self.faces)

    @cached_property
    def proper_faces(self) -> IntArray:
        """The numbers of the faces that do not repeat a vertex: only they have edges."""
        proper = np.flatnonzero(~repeats_a_vertex(self.faces))
        if not proper.size:
            raise MeshError(f"{self.name}: every face repeats a vertex, so there is no surface; repair the mesh")
        return proper

    @cached_property
    def topology(self) -> MeshComplex:
        """The complex of the proper faces, with edges in the order of the file."""
        return MeshComplex.in_file_order(self.faces[self.proper_faces], self.n_vertices)

    @property
    def n(self) -> PerElement[int]:
        """Vertices, edges and faces of the file."""
        return PerElement.build(self.count)

    def count(self, kind: ElementKind) -> int:
        """The number of elements of one kind; the edges are found when they are first needed."""
        return self.topology.n.e if kind == "e" else self.n_faces if kind == "f" else self.n_vertices

    @property
    def own_colors(self) -> dict[Attribute, NDArray[Any]]:
        """The original colors of the surface, under the names that leave the plain names for colors of labels."""
        own: dict[Attribute, Attribute] = {"face_colors": "face_own_colors", "vertex_colors": "vertex_own_colors"}
        kept = {name: self.attributes[name] for name in own.values() if name in self.attributes}
        return kept or {own[name]: self.attributes[name] for name in own if name in self.attributes}

    def with_vertices(self, vertices: ArrayLike) -> Self:
        """The same connectivity at other positions."""
        return replace(self, vertices=np.asarray(vertices, dtype=np.float64))

    def with_surface(self, vertices: FloatArray, faces: IntArray, *notes: str) -> Self:
        """Another surface of the same name, without the attributes and columns of the old elements."""
        notes = (*self.notes, *notes)
        return replace(self, vertices=vertices, faces=faces, polygons=None, notes=notes, attributes={}, columns={})

    @property
    def found_columns(self) -> dict[str, Column]:
        """All columns; the original colors of the surface are color_0, color_1 and color_2."""
        found = dict(self.columns)
        for kind, colors in self.own_colors.items() if COLOR_PARTS[0] not in found else ():
            element: Any = kind.partition("_")[0]
            found |= {part: Column(element, colors[:, i]) for i, part in enumerate(COLOR_PARTS)}
        return found

    def with_columns(self, columns: Mapping[str, ColumnLike]) -> Self:
        """The mesh with these columns besides its own; a name that it has already is replaced."""
        return replace(self, columns={**self.columns, **as_columns(columns, self.faces, self.n_vertices, self.name)})

    def with_only_columns(self, names: Iterable[str]) -> Self:
        """The mesh with the columns that a model reads, "color" among them, and no others."""
        found, chosen = self.found_columns, dict[str, Column]()
        for name in names:
            for part in exact_parts(name):
                if part not in found:
                    raise MeshError(f"{self.name}: the column '{name}' is missing; found: {listed(found)}")
                element, values = chosen[part] = found[part]
                bad = np.flatnonzero(~np.isfinite(values))
                if bad.size:
                    raise MeshError(
                        f"{self.name}: column '{name}' is {values[bad[0]]} at {element} {bad[0]} ({bad.size} such "
                        "values); replace them with numbers"
                    )
        return replace(self, columns=chosen) if chosen or self.columns else self

    def __repr__(self) -> str:
        return f"Mesh({self.name!r}, {self.n_vertices} vertices, {self.n_faces} faces)"

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled; worker processes receive meshes.
        plain = dict(self.attributes), dict(self.columns)
        return type(self), (self.vertices, self.faces, self.name, self.polygons, self.notes, *plain)


def _array(values: ArrayLike, dtype: type, what: str, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != 3:
        if array.size == 0 and what == "faces":
            return np.zeros((0, 3), dtype=dtype)
        raise MeshError(f"{name}: {what} must have shape (n, 3), got {array.shape}")
    if array.dtype.kind not in ("iu" if what == "faces" else "iufb"):
        raise MeshError(f"{name}: {what} must be {'integers' if what == 'faces' else 'numbers'}, got {array.dtype}")
    if array.dtype == dtype and array.flags.c_contiguous and array.flags.owndata and not array.flags.writeable:
        return array  # already frozen, from another mesh
    # A private copy, so that freezing it does not freeze the caller's array.
    return np.array(array, dtype=dtype, order="C")
