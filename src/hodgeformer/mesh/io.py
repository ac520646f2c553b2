"""Read and write mesh files. The order of vertices and faces is always that of the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.errors import MeshError, MeshFormatError
from hodgeformer.base.files import place, write_atomically
from hodgeformer.mesh.adapters import InMemory, from_memory
from hodgeformer.mesh.elements import edge_rows
from hodgeformer.mesh.formats import glb, gltf, obj, off, ply, stl
from hodgeformer.mesh.formats.polygons import Content, triangulate
from hodgeformer.mesh.formats.source import LineOf, Source
from hodgeformer.mesh.mesh import Attribute, Attributes, Column, IntArray, Mesh
from hodgeformer.mesh.topology import is_used, repeats_a_vertex

MeshLike = Mesh | str | os.PathLike[str] | InMemory
"""Everything that is accepted as a mesh: a `Mesh`, a path, arrays, or a mesh of another package."""

_READERS: dict[str, Callable[[Source], Content]] = {
    ".obj": obj.read_obj,
    ".off": off.read_off,
    ".ply": ply.read_ply,
    ".stl": stl.read_stl,
    ".glb": gltf.read_gltf,
    ".gltf": gltf.read_gltf,
}
MESH_SUFFIXES = tuple(_READERS)
# What each output format stores besides the triangles.
WRITTEN: dict[str, tuple[Attribute, ...]] = {
    ".obj": ("face_colors", "vertex_colors", "face_labels"),
    ".off": ("face_colors", "vertex_colors"),
    ".ply": get_args(Attribute),
    ".stl": (),
    ".glb": get_args(Attribute),
}
_WRITERS: dict[str, Callable[[Mesh, Attributes], bytes]] = {
    ".off": off.off_bytes,
    ".ply": ply.ply_bytes,
    ".stl": lambda mesh, _: stl.stl_bytes(mesh),
    ".glb": glb.glb_bytes,
}


def as_mesh(given: MeshLike, name: str = "mesh") -> Mesh:
    """Convert to a `Mesh`: a path, (vertices, faces) as arrays or tensors, or a mesh of trimesh, meshio or PyTorch
    Geometric. The order of vertices and faces is kept.

    `name` is used for objects without a name.
    """
    if isinstance(given, Mesh):
        return given
    if isinstance(given, str | os.PathLike):
        return load_mesh(given)
    found = from_memory(given, name)
    return found if isinstance(found, Mesh) else to_mesh(found, Path(name))


def load_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Load a triangle mesh from an OBJ, OFF, PLY, STL, GLB or GLTF file: a path, or a URL such as s3://bucket/a.ply.

    Polygons are cut into triangles, `mesh.polygons` maps back. Labels and colors of the file are in
    `mesh.attributes`. The corners of an STL file are welded where their coordinates are exactly equal. `mesh.notes`
    lists what was done. Raises MeshError for anything that is not a mesh.
    """
    path = place(path)
    source, suffix = Source.open(path), path.suffix.lower()
    found = _sniff(source.data) if suffix not in _READERS else _unmistakable(source.data, suffix)
    if found is None:
        raise MeshFormatError(
            f"{path}: unsupported format {suffix!r}, and the content is not a mesh; "
            f"supported: {', '.join(MESH_SUFFIXES)}"
        )
    with np.errstate(all="ignore"):  # invalid numbers are reported below
        content = _READERS[found](source)
    if found != suffix and {found, suffix} != {".glb", ".gltf"}:
        content = replace(content, notes=(f"read as {found[1:].upper()}, judging by its content", *content.notes))
    return to_mesh(content, path, source)


def to_mesh(content: Content, path: Path, source: Source | None = None) -> Mesh:
    """Check every number, cut the polygons into triangles, and copy face attributes to the triangles.

    The memory of a file is limited by the budget of its `source`.
    """
    _check(content, path)
    if source is not None:
        _reserve(content, source)
    notes = list(content.notes)
    attributes, columns = dict(content.attributes), dict(content.columns)
    polygons: IntArray | None = None
    if (content.n_corners == 3).all():
        faces = content.corners.reshape(-1, 3)
    else:
        faces, polygons, cut = triangulate(content.vertices, content.corners, content.n_corners)
        notes.extend(cut)
        for kind in [kind for kind in attributes if kind.startswith("face")]:
            attributes[kind] = attributes[kind][polygons]
        for column, (element, values) in columns.items():
            columns[column] = Column(element, values[polygons] if element == "face" else values)
    notes.extend(_notes_on(faces, len(content.vertices)))
    # The name of a file need not be valid text; that of a mesh is written to pages and files.
    name = os.fsencode(path.stem).decode("utf-8", "replace")
    of_edges = {column: columns.pop(column) for column in list(columns) if columns[column].element == "edge"}
    mesh = Mesh(content.vertices, faces, name, polygons, tuple(notes), attributes, columns)
    return mesh if content.edges is None or not of_edges else _with_edges(mesh, of_edges, content.edges)


def _reserve(content: Content, source: Source) -> None:
    """Count the arrays of the mesh; polygons also become triangles, with the attributes of their polygon."""
    n_triangles = len(content.corners) - 2 * len(content.n_corners)
    source.reserve(
        24 * (len(content.vertices) + n_triangles), f"{len(content.vertices):,} vertices, {n_triangles:,} faces"
    )
    if n_triangles != len(content.n_corners):
        carried = sum(values[:1].nbytes for kind, values in content.attributes.items() if kind.startswith("face"))
        carried += sum(values.itemsize for element, values in content.columns.values() if element == "face")
        source.reserve((32 + carried) * n_triangles, f"{n_triangles:,} triangles, which its polygons are cut into,")


def _check(content: Content, path: Path) -> None:
    if len(content.n_corners) == 0:
        raise MeshError(f"{path}: the file has no faces; a surface of triangles or polygons is needed")
    bad = np.flatnonzero(~np.isfinite(content.vertices).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{_where(path, content.vertex_line, bad[0])}: vertex {bad[0]} has coordinates "
            f"{content.vertices[bad[0]].tolist()} that are not finite ({bad.size} such vertices); "
            "repair or remove them"
        )
    small = np.flatnonzero(content.n_corners < 3)
    if small.size:
        raise MeshFormatError(
            f"{_where(path, content.face_line, small[0])}: face {small[0]} has {content.n_corners[small[0]]} "
            f"corners, at least 3 are needed ({small.size} such faces); remove it"
        )
    wrong = np.flatnonzero((content.corners < 0) | (content.corners >= len(content.vertices)))
    if wrong.size:
        face = int(np.searchsorted(np.cumsum(content.n_corners), wrong[0], side="right"))
        raise MeshError(
            f"{_where(path, content.face_line, face)}: face {face} refers to vertex {content.corners[wrong[0]]}"
            f", but the file has {len(content.vertices)} vertices (numbered from 0); "
            "the file is truncated or its faces are wrong: export it again"
        )


def _where(path: Path, line_of: LineOf | None, element: int) -> str:
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


def save_mesh(
    mesh: MeshLike,
    path: str | os.PathLike[str],
    *,
    face_colors: ArrayLike | None = None,
    vertex_colors: ArrayLike | None = None,
    face_labels: ArrayLike | None = None,
    vertex_labels: ArrayLike | None = None,
    face_own_colors: ArrayLike | None = None,
    vertex_own_colors: ArrayLike | None = None,
) -> None:
    """Write OBJ, OFF, PLY, STL or GLB, by the suffix; the file is written completely or not at all.

    Colors are (n, 3) or (n, 4) integers 0..255, labels (n,) integers. PLY stores everything exactly (labels as the
    property `label`). OBJ stores colors (of faces as materials in a .mtl file next to it, of vertices without alpha)
    and face labels (as groups `label_3`). OFF stores colors. GLB stores, in float32, labels and colors of faces or of
    vertices; those of faces give each face its own three corners, which `load_mesh` joins again. STL stores only the
    triangles, in float32. Own colors are the original colors of a scan whose colors now show labels; PLY and GLB store
    them under names that viewers ignore (`own_red`, `_OWN_COLOR`).
    """
    mesh, path = as_mesh(mesh), place(path)
    suffix = path.suffix.lower()
    given: dict[Attribute, ArrayLike | None] = {
        "face_colors": face_colors, "vertex_colors": vertex_colors,
        "face_labels": face_labels, "vertex_labels": vertex_labels,
        "face_own_colors": face_own_colors, "vertex_own_colors": vertex_own_colors,
    }  # fmt: skip
    attributes = {kind: _checked(kind, values, mesh) for kind, values in given.items() if values is not None}
    _check_supported(suffix, mesh, attributes, path)
    if suffix == ".obj":
        library = path.with_suffix(".mtl")
        if "face_colors" in attributes:
            write_atomically(library, obj.mtl_bytes(attributes["face_colors"]), MeshError)
        content = obj.obj_bytes(mesh, attributes, library.name)
    else:
        content = _WRITERS[suffix](mesh, attributes)
    write_atomically(path, content, MeshError)


def _unmistakable(data: bytes, suffix: str) -> str:
    """PLY and GLB files are recognized by their first bytes, whatever their suffix."""
    if data[:4] in (b"ply\n", b"ply\r"):
        return ".ply"
    return ".glb" if data[:4] == b"glTF" else suffix


def _sniff(data: bytes) -> str | None:
    """The format of a file with an unknown suffix."""
    head = data[:65536].lstrip()
    certain = _unmistakable(data, "")
    if certain:
        return certain
    if stl.is_binary(data) or head[:6].lower() in (b"solid ", b"solid\n", b"solid\r"):
        return ".stl"
    if off.is_off(head):
        return ".off"
    if head[:1] == b"{" and b'"asset"' in data:
        return ".gltf"
    if b"\0" not in head and any(line[:2] == b"v " for line in head.splitlines()):
        return ".obj"
    return None


def _checked(kind: Attribute, values: ArrayLike, mesh: Mesh) -> NDArray[Any]:
    """Labels as int64, colors as uint8, one per face or vertex."""
    array = np.asarray(values)
    n = mesh.n_faces if kind.startswith("face") else mesh.n_vertices
    is_color = kind.endswith("colors")
    expected = f"({n}, 3) or ({n}, 4)" if is_color else f"({n},)"
    fits = array.ndim == 2 and array.shape[1] in (3, 4) if is_color else array.ndim == 1
    if not fits or len(array) != n:
        raise MeshError(f"{mesh.name}: {kind} must have shape {expected}, got {array.shape}")
    if array.dtype.kind not in "iu":
        raise MeshError(f"{mesh.name}: {kind} must be integers, got {array.dtype}")
    low, high = (0, 255) if is_color else (-(2**31), 2**31 - 1)
    if array.size and (array.min() < low or array.max() > high):
        raise MeshError(f"{mesh.name}: {kind} must be in {low}..{high}, got {array.min()}..{array.max()}")
    return array.astype(np.uint8 if is_color else np.int64)


def _check_supported(suffix: str, mesh: Mesh, attributes: Attributes, path: Path) -> None:
    if suffix not in WRITTEN:
        raise MeshError(f"{path}: cannot write {suffix!r}; supported: {', '.join(WRITTEN)}")
    for kind in attributes:
        if kind not in WRITTEN[suffix]:
            able = ", ".join(other for other, kinds in WRITTEN.items() if kind in kinds)
            raise MeshError(f"{path}: {suffix[1:].upper()} cannot store {kind}; use {able}")
    colors = attributes.get("vertex_colors")
    if suffix == ".obj" and colors is not None and (colors[:, 3:] != 255).any():
        raise MeshError(f"{path}: OBJ cannot store transparent vertex_colors; use .off, .ply or .glb")
    if suffix == ".glb" and "face_colors" in attributes and "vertex_colors" in attributes:
        raise MeshError(f"{path}: GLB stores face_colors or vertex_colors, not both; use .obj, .off or .ply")
    if suffix in (".glb", ".stl") and np.abs(mesh.vertices).max() > np.finfo(np.float32).max:
        raise MeshError(f"{path}: coordinates are too large for {suffix}, which stores float32; use .ply")
    numbers = [
        mesh.n_vertices,
        *(np.abs(values).max() for kind, values in attributes.items() if kind.endswith("labels")),
    ]
    if suffix == ".glb" and max(numbers) > gltf.LARGEST:
        raise MeshError(
            f"{path}: GLB stores labels and vertex numbers up to {gltf.LARGEST}, found {max(numbers)}; use .ply"
        )
