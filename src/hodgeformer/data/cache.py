"""A folder that remembers what was read or computed, keyed by content.

Two things pay. Parsed meshes with their targets: 5 ms become 1 ms for a mesh of 1,500 faces, 97 become 6 for one of
31,000; a worker keeps what it has read, so this counts once per run. Prepared meshes where nothing is random, that is
in evaluation: 14 ms become 3. Training draws new positions every epoch, and the canonical order, edges and patterns all
follow from positions, so nothing of a preparation can be kept there.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.containers import KINDS, ElementKind, PerElement, SparsityPattern
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh
from hodgeformer.mesh.topology import MeshComplex

Arrays = dict[str, NDArray[Any]]
_VERSION = b"1"  # goes up when what is stored, or how a mesh is prepared, changes


class Cache:
    """Named arrays under a key, one file each; beyond `max_bytes` the longest unused are deleted.

    Files appear complete or not at all. One that cannot be read counts as absent and is written anew. A disk that is
    full or read-only costs only the time that would have been saved.
    """

    def __init__(self, folder: Path, *, max_bytes: int = 4 << 30) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._until_shrink = 0

    def get(self, key: str) -> Arrays | None:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = self._path(key)
        try:
            arrays: Arrays = load_file(path)
            os.utime(path)
        except (OSError, SafetensorError):
            return None
        return arrays

    def put(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        from safetensors.numpy import save

        path = self._path(key)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
            draft.replace(path)
            self._shrink()
        except OSError:
            with suppress(OSError):
                draft.unlink()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.safetensors"

    def _shrink(self) -> None:
        # Looking at the whole folder takes longer than a write, so it happens at the first and then at every 64th.
        self._until_shrink -= 1
        if self._until_shrink >= 0:
            return
        self._until_shrink = 64
        files = [(path, path.stat()) for path in self._folder.glob("*/*.safetensors")]
        excess = sum(stat.st_size for _, stat in files) - self._max_bytes
        for path, stat in sorted(files, key=lambda pair: pair[1].st_mtime):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= stat.st_size


def load_cached(cache: Cache | None, dataset: DataSet, sample: Sample) -> tuple[Mesh, NDArray[Any]]:
    """`dataset.load(sample)`, from the cache where the same bytes were read before."""
    if cache is None or isinstance(sample.mesh, Mesh):
        return dataset.load(sample)
    key = _sample_key(dataset, sample)
    stored = None if key is None else cache.get(key)
    if stored is not None and {"vertices", "faces", "target"} <= stored.keys():
        mesh = Mesh(stored["vertices"], stored["faces"], sample.name, stored.get("polygons"))
        return mesh, stored["target"]
    mesh, target = dataset.load(sample)
    if key is not None:
        polygons = {} if mesh.polygons is None else {"polygons": mesh.polygons}
        cache.put(key, {"vertices": mesh.vertices, "faces": mesh.faces, "target": target, **polygons})
    return mesh, target


def prepared_key(mesh: Mesh, config: PrepareConfig, frame: int) -> str:
    """What a preparation without a random part depends on."""
    digest = hashlib.sha256(_VERSION + f"prepared {frame} {config.model_dump_json()}".encode())
    digest.update(mesh.vertices.tobytes())
    digest.update(mesh.faces.tobytes())
    return digest.hexdigest()


def prepared_arrays(prepared: PreparedMesh) -> Arrays:
    """Everything but target and name."""
    topology = prepared.topology
    arrays: Arrays = {name: getattr(topology, name) for name in ("faces", "edges", "face_edges", "face_signs")} | {
        "positions": prepared.positions,
        "face_source": prepared.face_source,
    }
    for kind in KINDS:
        arrays[f"x_in.{kind}"] = prepared.x_in[kind]
        arrays[f"order.{kind}"] = prepared.order[kind]
        arrays[f"offsets.{kind}"] = prepared.patterns[kind].offsets
        arrays[f"indices.{kind}"] = prepared.patterns[kind].indices
    return arrays


def prepared_from_arrays(arrays: Arrays, name: str) -> PreparedMesh:
    """The inverse of `prepared_arrays`."""

    def pattern(kind: ElementKind) -> SparsityPattern[NDArray[Any]]:
        return SparsityPattern(arrays[f"offsets.{kind}"], arrays[f"indices.{kind}"])

    return PreparedMesh(
        topology=MeshComplex(
            n=PerElement.build(lambda kind: len(arrays[f"order.{kind}"])),
            **{part: arrays[part] for part in ("faces", "edges", "face_edges", "face_signs")},
        ),
        x_in=PerElement.build(lambda kind: arrays[f"x_in.{kind}"]),
        patterns=PerElement.build(pattern),
        positions=arrays["positions"],
        order=PerElement.build(lambda kind: arrays[f"order.{kind}"]),
        face_source=arrays["face_source"],
        name=name,
    )


def _sample_key(dataset: DataSet, sample: Sample) -> str | None:
    """None where a file cannot be read: loading then reports why."""
    files = [sample.mesh, *sample.target.files()]
    about = f"sample {dataset.element} {dataset.classes} {dataset.n_values} {sample.name} {sample.target}"
    digest = hashlib.sha256(_VERSION + about.encode())
    for path in files:
        try:
            digest.update(Path(str(path)).read_bytes())
        except OSError:
            return None
    return digest.hexdigest()
