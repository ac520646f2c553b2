"""glTF 2.0, as .glb or .gltf: all triangle meshes of the scene in one, transformed as in the scene.

Not through a library, because the order of nodes, vertices and triangles must be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import MeshFormatError
from hodgeformer.mesh.formats import glb
from hodgeformer.mesh.formats.polygons import Content
from hodgeformer.mesh.formats.source import Source
from hodgeformer.mesh.mesh import Attribute, Attributes, Colors, FloatArray, IntArray, to_colors

_TRIANGLES, _STRIP, _FAN = 4, 5, 6
_COMPRESSION = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")
# Beyond this, float32 skips whole numbers.
LARGEST = 2**24
# The attributes that are read besides the position.
_COLUMNS = (glb.COLOR, glb.OWN_COLOR, glb.FACE_OWN_COLOR, glb.VERTEX, glb.VERTEX_LABEL, glb.FACE_LABEL)
_PER_PART = 512  # bytes, however few points it has


def read_gltf(source: Source) -> Content:
    """Meshes in the order of a traversal of the scene, triangles in the order of the file."""
    path = source.path
    document, binary = glb.read_document(source)
    compressed = [name for name in document.get("extensionsRequired", ()) if name in _COMPRESSION]
    if compressed:
        raise MeshFormatError(f"{path}: the mesh is compressed ({compressed[0]}); export it without compression")
    try:
        return _Scene(document, glb.Buffers(document, binary, source)).content()
    except MeshFormatError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MeshFormatError(
            f"{path}: the glTF description is damaged ({type(error).__name__}: {str(error)[:200]}); export it again"
        ) from error


class _Scene:
    """Gathers the pieces of a scene: points, triangles and attributes of every primitive."""

    def __init__(self, document: dict[str, Any], buffers: glb.Buffers) -> None:
        self.document, self.buffers = document, buffers
        self.points: list[FloatArray] = []
        self.faces: list[IntArray] = []
        self.columns: list[dict[str, NDArray[Any]]] = []
        self.n_points = 0
        self.n_skipped = 0

    def content(self) -> Content:
        for node, transform in self._nodes():
            if "mesh" in node:
                self._add_mesh(self.document["meshes"][node["mesh"]], transform)
        notes = [f"{self.n_skipped} primitives of points or lines were skipped"] if self.n_skipped else []
        if len(self.points) > 1:
            notes.append(f"{len(self.points)} parts of the scene were joined")
        vertices = np.concatenate([np.zeros((0, 3)), *self.points])
        faces = np.concatenate([np.zeros((0, 3), np.int64), *self.faces])
        shared = set.intersection(*(set(columns) for columns in self.columns)) if self.columns else set()
        columns = {name: np.concatenate([part[name] for part in self.columns]) for name in shared}
        if glb.VERTEX in columns and len(self.points) == 1:
            vertices, faces, attributes = _unsplit(vertices, faces, columns)
        else:
            attributes = _vertex_attributes(columns)
        return Content(vertices, faces.ravel(), np.broadcast_to(np.int64(3), len(faces)), attributes, tuple(notes))

    def _reserve(self, n_bytes: int) -> None:
        """A small file may contain one mesh ten thousand times."""
        n_parts = len(self.faces) + 1
        self.buffers.source.reserve(n_bytes, f"the scene, which repeats its meshes and has {n_parts:,} parts,")

    def _nodes(self) -> Iterator[tuple[dict[str, Any], FloatArray]]:
        """Depth first, in the order of the file; a node is visited only once."""
        nodes = self.document.get("nodes", [])
        scenes = self.document.get("scenes", [])
        if scenes:
            roots = scenes[self.document.get("scene", 0)].get("nodes", [])
        else:
            children = {child for node in nodes for child in node.get("children", [])}
            roots = [i for i in range(len(nodes)) if i not in children]
        stack = [(root, np.eye(4)) for root in reversed(roots)]
        met: set[int] = set()
        while stack:
            index, parent = stack.pop()
            if index in met:
                continue
            met.add(index)
            transform = parent @ _placement(nodes[index])
            yield nodes[index], transform
            stack.extend((child, transform) for child in reversed(nodes[index].get("children", [])))

    def _add_mesh(self, mesh: dict[str, Any], transform: FloatArray) -> None:
        # Primitives of one mesh often share their vertices and differ in material only.
        begin_of: dict[tuple[int | None, ...], tuple[int, int]] = {}
        for primitive in mesh["primitives"]:
            self._reserve(_PER_PART)
            mode = primitive.get("mode", _TRIANGLES)
            if mode not in (_TRIANGLES, _STRIP, _FAN):
                self.n_skipped += 1
                continue
            key = tuple(primitive["attributes"].get(name) for name in ("POSITION", *_COLUMNS))
            if key not in begin_of:
                begin_of[key] = self._add_points(primitive["attributes"], transform)
            begin, n_points = begin_of[key]
            run = self.buffers.array(primitive["indices"]) if "indices" in primitive else np.arange(n_points)
            # Twice, because the parts are joined at the end.
            self._reserve(2 * 8 * run.size * (1 if mode == _TRIANGLES else 3))
            faces = _triangles(run.astype(np.int64).ravel(), mode)
            if faces.size and (faces.min() < 0 or faces.max() >= n_points):
                raise ValueError(f"a triangle refers to vertex {faces.max()}, but its mesh has {n_points} vertices")
            if np.linalg.det(transform[:3, :3]) < 0:
                faces = faces[:, ::-1]
            faces += begin
            self.faces.append(faces)

    def _add_points(self, attributes: dict[str, int], transform: FloatArray) -> tuple[int, int]:
        """The index of the first point, and the number of points."""
        placed = self.buffers.array(attributes["POSITION"])
        columns = {name: self.buffers.array(attributes[name]) for name in _COLUMNS if name in attributes}
        columns = {name: column for name, column in columns.items() if len(column) == len(placed)}
        self._reserve(2 * 8 * placed.size + sum(column.nbytes for column in columns.values()))
        points = placed.astype(np.float64)
        if not (transform == np.eye(4)).all():
            points = points @ transform[:3, :3].T
            points += transform[:3, 3]
        begin = self.n_points
        self.points.append(points)
        self.columns.append(columns)
        self.n_points += len(points)
        return begin, len(points)


def _placement(node: dict[str, Any]) -> FloatArray:
    """The node's matrix, or translation times rotation (a quaternion x, y, z, w) times scale."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    transform = np.eye(4)
    x, y, z, w = np.array(node.get("rotation", (0, 0, 0, 1)), dtype=np.float64)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    transform[:3, :3] = (np.eye(3) + 2 * w * cross + 2 * cross @ cross) * np.array(node.get("scale", (1, 1, 1)))
    transform[:3, 3] = node.get("translation", (0, 0, 0))
    return transform


def _triangles(run: IntArray, mode: int) -> IntArray:
    """Triangles of a list, a strip (every second one is flipped) or a fan."""
    if mode == _TRIANGLES:
        return run.reshape(-1, 3)
    if mode == _FAN:
        return np.stack([np.broadcast_to(run[:1], max(len(run) - 2, 0)), run[1:-1], run[2:]], axis=1)
    faces = np.stack([run[:-2], run[1:-1], run[2:]], axis=1)
    faces[1::2] = faces[1::2, [1, 0, 2]]
    return faces


def _vertex_attributes(columns: dict[str, NDArray[Any]]) -> Attributes:
    read: dict[str, tuple[Attribute, Callable[[NDArray[Any]], NDArray[Any]]]] = {
        glb.COLOR: ("vertex_colors", _colors),
        glb.OWN_COLOR: ("vertex_own_colors", _colors),
        glb.VERTEX_LABEL: ("vertex_labels", _whole),
    }
    return {kind: convert(columns[name]) for name, (kind, convert) in read.items() if name in columns}


def _colors(columns: NDArray[Any]) -> Colors:
    if columns.ndim != 2 or columns.shape[1] not in (3, 4):
        raise ValueError("colors must have three or four numbers each")
    return to_colors(columns)


def _whole(column: NDArray[Any]) -> IntArray:
    """Labels and vertex numbers, which glTF stores as float32."""
    if column.ndim != 1 or not (np.abs(column) <= LARGEST).all():
        raise ValueError("labels and vertex numbers must be integers")
    return np.asarray(np.rint(column), np.int64)


def _unsplit(
    points: FloatArray, faces: IntArray, columns: dict[str, NDArray[Any]]
) -> tuple[FloatArray, IntArray, Attributes]:
    """Undo `glb.split`: corners of a vertex are merged, and their shared attributes are assigned to faces."""
    vertex = _whole(columns[glb.VERTEX])
    if vertex.size == 0 or vertex.min() < 0 or vertex.max() >= len(points):
        raise ValueError(f"{glb.VERTEX} does not contain vertex numbers")
    point = np.zeros(int(vertex.max()) + 1, dtype=np.int64)
    point[vertex] = np.arange(len(points))
    corner = faces[:, 0]
    attributes = _vertex_attributes(
        {name: columns[name][point] for name in (glb.OWN_COLOR, glb.VERTEX_LABEL) if name in columns}
    )
    if glb.COLOR in columns:
        attributes["face_colors"] = _colors(columns[glb.COLOR][corner])
    if glb.FACE_OWN_COLOR in columns:
        attributes["face_own_colors"] = _colors(columns[glb.FACE_OWN_COLOR][corner])
    if glb.FACE_LABEL in columns:
        attributes["face_labels"] = _whole(columns[glb.FACE_LABEL])[corner]
    return points[point], vertex[faces], attributes
