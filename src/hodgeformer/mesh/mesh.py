"""A triangle mesh: vertices and faces, validated and immutable, and its named columns.

A column assigns a number to every vertex, edge or face; a model may read it in addition to the shape.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, takewhile
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.containers import ElementKind, PartElement, PerElement
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.topology import MeshComplex, repeats_a_vertex, unique_edges

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Attribute = Literal[
    "face_labels", "vertex_labels", "face_colors", "vertex_colors", "face_own_colors", "vertex_own_colors"
]
"""Attributes of faces and vertices in a file. Own colors are the original colors of a scan that shows its labels."""
Attributes = dict[Attribute, NDArray[Any]]
Colors = NDArray[np.uint8]

COLOR = "color"
COLOR_PARTS = tuple(f"{COLOR}_{i}" for i in range(3))
CHANNELS = ("red", "green", "blue", "alpha")
OWN_COLOR = "own_"
"""Before the channels of the original colors of a scan, which viewers ignore."""
LABELS = ("label", "labels", "scalar_label", "face_label", "vertex_label")
ENDS = ("vertex1", "vertex2")
"""Of an edge in a PLY file."""
_COLORS = {prefix + name for prefix in ("", OWN_COLOR) for name in CHANNELS}
RESERVED = {"x", "y", "z", "vertex_indices", "vertex_index", *_COLORS, *LABELS, *ENDS}
"""Names that mean something else in a PLY file, in any case."""
_WORD = re.compile(r"[!-~]{1,80}")  # what the header of a PLY file can store
_LISTED = 12


class Column(NamedTuple):
    """(n,) numbers of the vertices, edges or faces of a mesh; edges in the order of first appearance in the faces."""

    element: PartElement
    values: NDArray[Any]


ColumnLike = ArrayLike | tuple[PartElement, ArrayLike]
"""(n,) or (n, k) numbers; with their element if their length fits several."""


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


def is_word(name: str) -> bool:
    return _WORD.fullmatch(name) is not None


def is_column_name(name: str) -> bool:
    return is_word(name) and name.lower() not in RESERVED


def as_columns(given: Mapping[str, Any], faces: IntArray, n_vertices: int, mesh: str) -> dict[str, Column]:
    """The columns of a mesh, checked; NAME with k values per element becomes NAME_0, ..., NAME_(k-1)."""
    columns: dict[str, Column] = {}
    for name, one in given.items():
        element, values = one if _has_element(one) else (None, one)
        array = np.asarray(values)
        if array.dtype.kind not in "iufb" or array.ndim not in (1, 2) or not array.size:
            raise MeshError(f"{mesh}: column '{name}' must be (n,) or (n, k) numbers, got {array.dtype} {array.shape}")
        element = _element(name, element, len(array), faces, n_vertices, mesh)
        if name == COLOR:
            if array.ndim != 2 or array.shape[1] not in (3, 4):
                raise MeshError(f"{mesh}: column 'color' must have shape (n, 3) or (n, 4), got {array.shape}")
            array = to_colors(array)[:, :3]
        parts = {name: array} if array.ndim == 1 else {f"{name}_{i}": column for i, column in enumerate(array.T)}
        if wrong := next((part for part in parts if not is_column_name(part)), None):
            reason = "it has another meaning in files" if is_word(wrong) else "use ASCII without spaces"
            raise MeshError(f"{mesh}: invalid name {wrong[:80]!r} of a column: {reason}; rename it")
        columns |= {part: Column(element, _frozen(column)) for part, column in parts.items()}
    return columns


def parts_of(name: str, found: Container[str]) -> tuple[str, ...]:
    """The columns that a name means: itself, or NAME_0, NAME_1, ...; none if there are none."""
    if name in found:
        return (name,)
    return tuple(takewhile(found.__contains__, (f"{name}_{i}" for i in count())))


def exact_parts(name: str) -> tuple[str, ...]:
    """The columns that a feature of a model is made of."""
    return COLOR_PARTS if name == COLOR else (name,)


def listed(columns: Mapping[str, Any]) -> str:
    """The columns in words: `curvature (vertex), color (face)`."""
    names = dict.fromkeys((COLOR if name in COLOR_PARTS else name, column.element) for name, column in columns.items())
    words = [f"{name} ({element})" for name, element in names]
    more = [] if len(words) <= _LISTED else [f"{len(words) - _LISTED} more"]
    return ", ".join([*words[:_LISTED], *more]) or "none"


def to_colors(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Color columns of a file as uint8: integers are 0..255, fractions are 0..1."""
    if np.issubdtype(values.dtype, np.integer):
        return np.asarray(np.clip(values, 0, 255), np.uint8)
    values = np.clip(np.nan_to_num(values.astype(np.float64)), 0.0, 255.0)
    scale = 255.0 if values.size == 0 or values.max() <= 1.0 else 1.0
    return np.rint(values * scale).astype(np.uint8)


def _has_element(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str)


def _element(name: str, element: Any, n: int, faces: IntArray, n_vertices: int, mesh: str) -> PartElement:
    """The given element, or the only one whose number fits."""
    counts = {"vertex": n_vertices, "face": len(faces)}
    if element not in counts:  # edges are counted only if needed
        counts["edge"] = len(unique_edges(faces[~repeats_a_vertex(faces)], n_vertices))
    fits = [each for each in ([element] if element is not None else counts) if counts.get(each) == n]
    if len(fits) == 1:
        return cast(PartElement, fits[0])
    if fits:
        ways = " or ".join(f"('{each}', values)" for each in fits)
        raise MeshError(f"{mesh}: column '{name}' has {n} rows, as many as there are {_plural(fits)}; pass {ways}")
    if element is not None and element not in get_args(PartElement):
        raise MeshError(f"{mesh}: column '{name}' of '{element}'; use {', '.join(get_args(PartElement))}")
    has = ", ".join(f"{number} {_plural([each])}" for each, number in counts.items())
    raise MeshError(f"{mesh}: column '{name}' has {n} rows, the mesh has {has}")


def _plural(elements: list[str]) -> str:
    return " and ".join("vertices" if each == "vertex" else f"{each}s" for each in elements)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    if not values.flags.writeable and values.base is None:
        return values  # from another mesh
    copy = np.array(values, dtype=np.uint8 if values.dtype.kind == "b" else values.dtype.newbyteorder("="), order="C")
    copy.setflags(write=False)
    return copy
