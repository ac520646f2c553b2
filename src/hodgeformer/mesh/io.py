"""Read and write mesh files. The order of vertices and faces is always that of the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hodgeformer.base.errors import HodgeFormerError, MeshError, MeshFormatError
from hodgeformer.base.files import place, write_atomically
from hodgeformer.mesh.adapters import InMemory, from_memory
from hodgeformer.mesh.formats import glb, gltf, obj, off, ply, stl
from hodgeformer.mesh.formats.content import Content
from hodgeformer.mesh.formats.source import Source
from hodgeformer.mesh.mesh import Attribute, Attributes, Mesh

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
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_FOREIGN = {
    b"PK\x03\x04": "a zip archive", b"PK\x05\x06": "an empty zip archive", b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive", b"\x89PNG": "a PNG picture", b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF": "a PDF document", b"\x93NUMPY": "a NumPy array", b"version https://git-lfs": "a git-lfs pointer",
}  # fmt: skip


def as_mesh(given: MeshLike, name: str = "mesh") -> Mesh:
    """Convert to a `Mesh`: a path, (vertices, faces) as arrays or tensors, or a mesh of trimesh, meshio or PyTorch
    Geometric. The order of vertices and faces is kept.

    `name` is used for objects without a name.
    """
    if isinstance(given, Mesh):
        return given
    return load_mesh(given) if isinstance(given, str | os.PathLike) else from_memory(given, name)


def load_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Load a triangle mesh from an OBJ, OFF, PLY, STL, GLB or GLTF file: a path, or a URL such as s3://bucket/a.ply.

    Polygons are cut into triangles, `mesh.polygons` maps back. Labels and colors of the file are in
    `mesh.attributes`. The corners of an STL file are welded where their coordinates are exactly equal. `mesh.notes`
    lists what was done. Raises MeshError for anything that is not a mesh.
    """
    path = place(path)
    source, suffix = open_source(path), path.suffix.lower()
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
    return content.to_mesh(path, source)


def open_source(path: Path) -> Source:
    """The content of a mesh file, text as UTF-8."""
    return Source(path, _read_bytes(path))


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
    property `label`). OBJ stores colors (of faces as materials in a .mtl file beside it, of vertices without alpha)
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


def _read_bytes(path: Path) -> bytes:
    if isinstance(path, Path) and path.exists() and not path.is_file():  # a pipe would never end
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise MeshFormatError(f"{path}: this is {kind}; pass the path of a mesh file")
    try:
        data = path.read_bytes()
    except HodgeFormerError:  # from an archive that contains the file
        raise
    except Exception as error:  # each kind of store raises its own errors
        cause = error.__cause__  # web servers answer with a status, of which 404 alone says that there is no file
        if isinstance(error, FileNotFoundError) and (cause is None or getattr(cause, "status", 0) == 404):
            raise MeshFormatError(f"{path}: the file does not exist; check the spelling and the folder") from None
        reason = getattr(error, "strerror", None) or cause or error
        raise MeshFormatError(f"{path}: the file cannot be read ({reason}); check its permissions") from error
    if data.isspace() or not data:
        raise MeshFormatError(f"{path}: the file is empty; download or export it again")
    for magic, kind in _FOREIGN.items():
        if data.startswith(magic):
            raise MeshFormatError(f"{path}: this is {kind}, not a mesh; unpack or export a mesh file from it")
    return _as_utf8(data, path)


def _as_utf8(data: bytes, path: Path) -> bytes:
    """Text as UTF-8 without a byte order mark; the mark also identifies UTF-16."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark) and not stl.is_binary(data):
            try:
                return data[len(mark) :].decode(encoding).encode()
            except UnicodeDecodeError as error:
                raise MeshFormatError(
                    f"{path}: invalid {encoding}, which its first bytes announce ({error}); export it again"
                ) from None
    return data


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
