"""What goes between the page and the server about one mesh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hodgeformer.data.labels import Codes, LabelFile
from hodgeformer.mesh.elements import UNLABELLED, convert_labels
from hodgeformer.mesh.io import MESH_SUFFIXES, load_mesh
from hodgeformer.mesh.mesh import IntArray, Mesh
from hodgeformer.viewer.fields import Pick
from hodgeformer.viewer.frames import encode_frame
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Scene
from hodgeformer.viewer.surface import face_neighbors

MAX_CLASSES = 2**12


def described(scene: Scene) -> dict[str, Any]:
    """What the page says of an open mesh before it has it."""
    mesh = scene.mesh
    return {
        "id": scene.id, "name": mesh.name, "n_vertices": mesh.n_vertices, "n_faces": mesh.n_faces,
        "notes": list(mesh.notes),
    }  # fmt: skip


def mesh_frame(mesh: Mesh) -> bytes:
    """Positions around the origin at unit size, which keeps float32 exact enough, and how the faces hang together."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    center = low / 2 + high / 2
    radius = float(np.linalg.norm(high / 2 - low / 2)) or 1.0
    arrays: dict[str, Any] = {
        "positions": ((mesh.vertices - center) / radius).astype(np.float32),
        "faces": mesh.faces.astype(np.uint32),
        "neighbors": face_neighbors(mesh),
    }
    labels = carried_labels(mesh)
    if labels is not None:
        arrays["labels"] = labels.astype(np.int32)
    return encode_frame({}, arrays)


def carried_labels(mesh: Mesh) -> IntArray | None:
    """The labels of the mesh's own file per face, where they are numbers of classes."""
    labels = mesh.attributes.get("face_labels")
    if labels is None and "vertex_labels" in mesh.attributes:
        labels = convert_labels(mesh.attributes["vertex_labels"].astype(np.int64), mesh, source="v", to="f")
    if labels is None or labels.max() >= MAX_CLASSES:
        return None
    return np.maximum(labels.astype(np.int64), UNLABELLED)


def read_label_file(path: Path, mesh: Mesh) -> IntArray:
    """Labels per face from a label file, or from a mesh file that carries them."""
    if path.suffix.lower() in MESH_SUFFIXES:
        labels = carried_labels(load_mesh(path))
        if labels is None or len(labels) != mesh.n_faces:
            raise Refusal(400, f"{path.name} carries no labels for the {mesh.n_faces} faces of the open mesh.")
        return labels
    return LabelFile(path, "f", "f", Codes.counted_from(0, MAX_CLASSES)).read(mesh)


def parsed_pick(query: Mapping[str, str], mesh: Mesh) -> Pick:
    """The clicked face; the corner weights of the clicked point give the point in the mesh's own units."""
    try:
        face = int(query["face"])
        weights = np.array([float(part) for part in query.get("weights", "1,1,1").split(",")])
        if (
            not 0 <= face < mesh.n_faces
            or weights.shape != (3,)
            or not np.isfinite(weights).all()
            or weights.sum() <= 0
        ):
            raise ValueError(f"face {face}")
    except (KeyError, ValueError) as error:
        raise Refusal(400, f"Click a face of the mesh first ({error}).") from None
    x, y, z = (weights / weights.sum() @ mesh.vertices[mesh.faces[face]]).tolist()
    return Pick(face, (x, y, z))
