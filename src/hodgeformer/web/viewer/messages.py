"""The messages between the page and the server about one mesh. Arrays are sent as safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from hodgeformer.base.settings import Faces
from hodgeformer.data.labels import Codes, LabelFile
from hodgeformer.draw.camera import upright
from hodgeformer.mesh.elements import UNLABELED, convert_labels
from hodgeformer.mesh.io import MESH_SUFFIXES, load_mesh
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.fields import Pick
from hodgeformer.web.viewer.open_meshes import OpenMesh, Prediction

MEDIA_TYPE = "application/octet-stream"
MAX_CLASSES = 2**12
MIN_FACES, MAX_FACES = 4, 10**7


def encode(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays with a JSON header; the page reads arrays of 32-bit numbers."""
    return save(arrays, {"about": json.dumps(about)})


def decode(message: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The arguments of `encode`; a Refusal if the message is malformed."""
    try:
        arrays = load(message)
        # The library does not return the metadata of a message in memory, but checks them with the rest.
        header = json.loads(message[8 : 8 + int.from_bytes(message[:8], "little")])
        about = dict(json.loads(header["__metadata__"]["about"]))
    except Exception as error:  # shapes of 10^30, endless nested lists: anything can be sent
        raise Refusal(400, f"The request cannot be read ({str(error)[:200]}); reload the page.") from None
    return about, arrays


def described(opened: OpenMesh) -> dict[str, Any]:
    """What the page shows of an open mesh before it has loaded it."""
    # The page fetches a finished prediction. While a later one runs, or if it failed, the earlier one is not offered.
    mesh, prediction = opened.mesh, opened.prediction if opened.progress.stage == "done" else None
    return {
        "id": opened.id, "name": mesh.name, "n_vertices": mesh.n_vertices, "n_faces": mesh.n_faces,
        "notes": list(mesh.notes), "corrected": opened.corrected is not None,
        "predicted": None if prediction is None else {"model": prediction.model, "faces": str(prediction.faces)},
    }  # fmt: skip


def encoded_mesh(opened: OpenMesh, up: FloatArray) -> bytes:
    """Positions around the origin at unit size, upright, and which faces are adjacent.

    At that size float32 is exact enough wherever the file puts the mesh; `scale` is the unit in those of the file.
    Labels are the corrected ones, or those of the file.
    """
    mesh = opened.mesh
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    center = low / 2 + high / 2
    radius = float(np.linalg.norm(high / 2 - low / 2)) or 1.0
    places = welded(mesh)
    arrays: dict[str, Any] = {
        "positions": ((mesh.vertices - center) / radius @ upright(mesh, up).T).astype(np.float32),
        "faces": mesh.faces.astype(np.uint32),
        "places": places.astype(np.uint32),
        "neighbors": face_neighbors(places),
    }
    labels = carried_labels(mesh) if opened.corrected is None else opened.corrected
    if labels is not None:
        arrays["labels"] = labels.astype(np.int32)
    return encode({"up": up.tolist(), "scale": radius}, arrays)


def encoded_prediction(prediction: Prediction, up: FloatArray) -> bytes:
    """The answer of a model, with its warnings."""
    result = prediction.result
    unlike = (f"Unlike the training meshes: {text}" for text in result.warnings)
    about = {
        "model": prediction.model,
        "task": result.task,
        "classes": result.names,
        "colors": result.colors,
        "warnings": [*filter(None, [result.resolution]), *unlike],
        "familiarity": result.familiarity,
        "up": up.tolist(),
    }
    rows = np.ascontiguousarray(result.probabilities, dtype=np.float32)
    return encode(about, {"probabilities": rows, "labels": result.labels.astype(np.int32)})


def carried_labels(mesh: Mesh) -> IntArray | None:
    """The labels in the file of the mesh, per face, if they are class numbers."""
    labels = mesh.attributes.get("face_labels")
    if labels is None and "vertex_labels" in mesh.attributes:
        labels = convert_labels(mesh.attributes["vertex_labels"].astype(np.int64), mesh, source="v", to="f")
    if labels is None or labels.max() >= MAX_CLASSES:
        return None
    return np.maximum(labels.astype(np.int64), UNLABELED)


def read_label_file(path: Path, mesh: Mesh) -> IntArray:
    """Labels per face from a label file, or from a mesh file that contains them."""
    if path.suffix.lower() in MESH_SUFFIXES:
        labels = carried_labels(load_mesh(path))
        if labels is None or len(labels) != mesh.n_faces:
            raise Refusal(400, f"{path.name} contains no labels for the {mesh.n_faces} faces of the open mesh.")
        return labels
    return LabelFile(path, "f", "f", Codes.counted_from(0, MAX_CLASSES)).read(mesh)


def parsed_faces(text: str) -> Faces:
    """A resolution, written as on the command line."""
    if text in ("auto", "original"):
        return cast(Faces, text)
    if not text.isdecimal() or not MIN_FACES <= int(text) <= MAX_FACES:
        raise Refusal(
            400, f"Invalid resolution '{text[:20]}'; use auto, original, or {MIN_FACES} to {MAX_FACES} faces."
        )
    return int(text)


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


def face_neighbors(faces: IntArray) -> NDArray[np.int32]:
    """(n_faces, 3): the face across side (corner i, corner i + 1), -1 if there is none.

    If more than two faces share a side, each leads to the next and the last to the first, so that all are reached.
    """
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    low, high = ends.min(axis=1), ends.max(axis=1)
    key = low * (faces.max() + 1) + high
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    count = np.diff(np.r_[first, len(key)])
    start = np.repeat(first, count)
    place = np.arange(len(key)) - start
    partner = order[start + (place + 1) % np.repeat(count, count)]
    neighbors = np.empty(len(key), dtype=np.int32)
    neighbors[order] = partner // 3
    neighbors[neighbors == np.arange(len(key)) // 3] = -1
    return neighbors.reshape(-1, 3)


def welded(mesh: Mesh) -> IntArray:
    """Faces over numbers of places: vertices at the same place are one, so that a triangle soup is connected."""
    order = np.lexsort(mesh.vertices.T)
    moved = np.r_[True, (np.diff(mesh.vertices[order], axis=0) != 0).any(axis=1)]
    place = np.empty(mesh.n_vertices, dtype=np.int64)
    place[order] = np.cumsum(moved) - 1
    return place[mesh.faces]
