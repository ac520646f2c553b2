"""Named columns of a mesh: a number of every vertex, edge or face, which a model may read beside the shape."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from itertools import count, takewhile
from typing import Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.containers import PartElement
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.topology import repeats_a_vertex, unique_edges

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
"""(n,) or (n, k) numbers; with the element that they belong to where their length does not tell."""


def is_word(name: str) -> bool:
    return _WORD.fullmatch(name) is not None


def is_column_name(name: str) -> bool:
    return is_word(name) and name.lower() not in RESERVED


def as_columns(given: Mapping[str, Any], faces: NDArray[np.int64], n_vertices: int, mesh: str) -> dict[str, Column]:
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


def _element(name: str, element: Any, n: int, faces: NDArray[np.int64], n_vertices: int, mesh: str) -> PartElement:
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
