"""glTF 2.0, as .glb or .gltf: all triangle meshes of the scene in one, placed where the scene places them.

Written here rather than through a library because the order of nodes, vertices and triangles must be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.errors import MeshFormatError
from hodgeformer.mesh.formats import glb
from hodgeformer.mesh.formats.content import Attributes, Content, to_colors
from hodgeformer.mesh.mesh import FloatArray, IntArray

_TRIANGLES, _STRIP, _FAN = 4, 5, 6
_COMPRESSION = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")
# Beyond this, float32 skips whole numbers.
LARGEST = 2**24
_MOST_REPEATED = 2_000_000


def read_gltf(data: bytes, path: Path) -> Content:
    """Meshes in the order of a walk through the scene, triangles in the order of the file."""
    document, binary = glb.read_document(data, path)
    compressed = [name for name in document.get("extensionsRequired", ()) if name in _COMPRESSION]
    if compressed:
        raise MeshFormatError(f"{path}: the mesh is compressed ({compressed[0]}); export it without compression")
    try:
        return _Scene(document, glb.Buffers(document, binary, path)).content()
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
        placed = [(self.document["meshes"][node["mesh"]], at) for node, at in self._nodes() if "mesh" in node]
        self._refuse_repetition([mesh for mesh, _ in placed])
        for mesh, transform in placed:
            self._add_mesh(mesh, transform)
        notes = [f"{self.n_skipped} primitives of points or lines were passed over"] if self.n_skipped else []
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
        return Content(vertices, faces.ravel(), np.full(len(faces), 3), attributes, tuple(notes))

    def _refuse_repetition(self, meshes: list[dict[str, Any]]) -> None:
        """A small file may place one mesh ten thousand times: counted before it is done."""
        used = [
            at
            for mesh in meshes
            for p in mesh["primitives"]
            for at in (p["attributes"].get("POSITION"), p.get("indices"))
        ]
        n_rows = sum(int(self.document["accessors"][at]["count"]) for at in used if at is not None)
        n_bytes = sum(len(self.buffers.buffer(i)) for i in range(len(self.document.get("buffers", []))))
        if n_rows > _MOST_REPEATED + n_bytes:
            raise MeshFormatError(
                f"{self.buffers.path}: the scene places its meshes so often that it has {n_rows:,} points and corners, "
                f"from {n_bytes:,} bytes; export the parts that are needed as one mesh"
            )

    def _nodes(self) -> Iterator[tuple[dict[str, Any], FloatArray]]:
        """Depth first, in the order of the file; a node that was met before ends the walk down."""
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
        begin_of: dict[str, tuple[int, int]] = {}
        for primitive in mesh["primitives"]:
            mode = primitive.get("mode", _TRIANGLES)
            if mode not in (_TRIANGLES, _STRIP, _FAN):
                self.n_skipped += 1
                continue
            key = json.dumps(primitive["attributes"], sort_keys=True)
            if key not in begin_of:
                begin_of[key] = self._add_points(primitive["attributes"], transform)
            begin, n_points = begin_of[key]
            run = self.buffers.array(primitive["indices"]).ravel() if "indices" in primitive else np.arange(n_points)
            faces = _triangles(run.astype(np.int64), mode)
            if faces.size and (faces.min() < 0 or faces.max() >= n_points):
                raise ValueError(f"a triangle refers to vertex {faces.max()}, its mesh has {n_points} vertices")
            if np.linalg.det(transform[:3, :3]) < 0:
                faces = faces[:, ::-1]
            self.faces.append(faces + begin)

    def _add_points(self, attributes: dict[str, int], transform: FloatArray) -> tuple[int, int]:
        """Index of the first point and how many there are."""
        points = self.buffers.array(attributes["POSITION"]).astype(np.float64)
        columns = {
            name: self.buffers.array(at) for name, at in attributes.items() if name[0] == "_" or name == glb.COLOR
        }
        columns = {name: column for name, column in columns.items() if len(column) == len(points)}
        if not (transform == np.eye(4)).all():
            points = points @ transform[:3, :3].T + transform[:3, 3]
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
    """Triangles of a list, a strip (every second one is turned round) or a fan."""
    if mode == _TRIANGLES:
        return run.reshape(-1, 3)
    if mode == _FAN:
        return np.stack([np.broadcast_to(run[:1], max(len(run) - 2, 0)), run[1:-1], run[2:]], axis=1)
    faces = np.stack([run[:-2], run[1:-1], run[2:]], axis=1)
    faces[1::2] = faces[1::2, [1, 0, 2]]
    return faces


def _vertex_attributes(columns: dict[str, NDArray[Any]]) -> Attributes:
    attributes: Attributes = {}
    if glb.COLOR in columns:
        attributes["vertex_colors"] = to_colors(columns[glb.COLOR])
    if glb.OWN_COLOR in columns:
        attributes["vertex_own_colors"] = to_colors(columns[glb.OWN_COLOR])
    if glb.VERTEX_LABEL in columns:
        attributes["vertex_labels"] = _whole(columns[glb.VERTEX_LABEL])
    return attributes


def _whole(column: NDArray[Any]) -> IntArray:
    """Labels and numbers, which glTF makes us keep as float32."""
    if column.ndim != 1 or not (np.abs(column) <= LARGEST).all():
        raise ValueError("labels and vertex numbers must be whole numbers")
    return np.asarray(np.rint(column), np.int64)


def _unsplit(
    points: FloatArray, faces: IntArray, columns: dict[str, NDArray[Any]]
) -> tuple[FloatArray, IntArray, Attributes]:
    """Undo `glb.split`: corners go back to their vertex, and what they share belongs to their face."""
    vertex = _whole(columns[glb.VERTEX])
    if vertex.size == 0 or vertex.min() < 0 or vertex.max() >= len(points):
        raise ValueError(f"{glb.VERTEX} does not number the vertices")
    point = np.zeros(int(vertex.max()) + 1, dtype=np.int64)
    point[vertex] = np.arange(len(points))
    corner = faces[:, 0]
    attributes = _vertex_attributes(
        {name: columns[name][point] for name in (glb.OWN_COLOR, glb.VERTEX_LABEL) if name in columns}
    )
    if glb.COLOR in columns:
        attributes["face_colors"] = to_colors(columns[glb.COLOR][corner])
    if glb.FACE_OWN_COLOR in columns:
        attributes["face_own_colors"] = to_colors(columns[glb.FACE_OWN_COLOR][corner])
    if glb.FACE_LABEL in columns:
        attributes["face_labels"] = _whole(columns[glb.FACE_LABEL])[corner]
    return points[point], vertex[faces], attributes
