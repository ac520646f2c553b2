"""Batches by key: read, augment, prepare and pack meshes, in this process or in a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KINDS
from hodgeformer.data.augment import AugmentConfig, augmented, deformed
from hodgeformer.data.dataset import DataSet
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import n_frames, posed
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.simplify import simplify
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.pack import Batch, pack

# The purpose of a random stream is part of its seed, so that the streams of one epoch differ.
Purpose = Literal["order", "shape", "connections", "triangulation"]
_PURPOSES: tuple[Purpose, ...] = ("order", "shape", "connections", "triangulation")
_TRIANGULATIONS = 8  # of a mesh that is finer than the working resolution; epochs alternate between them
_MEMORY = 512 << 20  # bytes of meshes that one worker keeps after reading them


def stream_seed(purpose: Purpose, seed: int, *place: int) -> np.random.SeedSequence:
    """The seed of the random numbers for one purpose at one place, such as (epoch, index)."""
    return np.random.SeedSequence([seed, _PURPOSES.index(purpose), *place])


class Key(NamedTuple):
    """One batch of an epoch, or the share of one process: the indices of its meshes in the split."""

    epoch: int
    members: tuple[int, ...]


class BatchSource:
    """Batches of the training split by key, the same in every process: all randomness is drawn from (seed, epoch,
    position). They have what the `model` reads; without one, everything but the surface for D blocks."""

    def __init__(
        self,
        dataset: DataSet,
        *,
        prepare: PrepareConfig,
        augment: AugmentConfig | None = None,
        seed: int = 0,
        model: ModelConfig | None = None,
    ) -> None:
        self.samples, self.seed = dataset.split("train"), seed
        self._embedded, self._patterned = (model.embedded, model.patterned) if model else (KINDS, KINDS)
        self._spreads = model is not None and "D" in model.blocks
        self._dataset = replace(dataset, splits={}, counted={})  # send a worker only what it reads
        self._prepare = prepare
        self._augment = augment
        self._in_frame = prepare if augment is None else prepare.replace(pose="file")
        self._memory: dict[tuple[int, int | None], tuple[Mesh, NDArray[Any]]] = {}
        self._memory_left = _MEMORY

    def batch(self, key: Key) -> Batch:
        return self.packed([self.prepared(i, key.epoch, n_threads=None) for i in key.members])

    def packed(self, meshes: list[PreparedMesh]) -> Batch:
        """Includes everything that the model will request: in a worker, this costs the model no time."""
        batch = pack(meshes, transpose=True)
        read = {
            "surface": self._spreads,
            "gradient": self._spreads or "e" in self._embedded,
            "curl": "f" in self._embedded,
            "face_corners": self._dataset.kind == "f",
        }
        for name in (name for name, is_read in read.items() if is_read):
            getattr(batch.topology, name)
        return batch

    def prepared(self, position: int, epoch: int, *, n_threads: int | None) -> PreparedMesh:
        """One mesh of the split as the model sees it in an epoch."""
        mesh, target = self._working(position, epoch)
        kind = self._dataset.kind
        place = (self.seed, epoch, position)
        rng = np.random.default_rng(stream_seed("shape", *place))
        seed = int(stream_seed("connections", *place).generate_state(1, np.uint64)[0])
        config, frame = self._in_frame, int(rng.integers(n_frames(self._prepare.pose)))
        if self._augment is not None:
            # Shapes change before alignment, which depends on them as for unseen shapes. Rotations come after it, since
            # it would undo them.
            mesh, target = deformed(mesh, target, self._augment, rng, kind=kind)
            mesh = mesh.with_vertices(posed(mesh.vertices, mesh.faces, self._prepare.pose, frame))
            mesh, target = augmented(mesh, target, self._augment, rng, kind=kind)
        prepared = prepare(
            mesh,
            config,
            seed=seed,
            frame=frame,
            embedded=self._embedded,
            patterned=self._patterned,
            n_threads=n_threads,
        )
        return prepared.with_target(target if kind is None else prepared.from_file_order(target, kind))

    def _working(self, position: int, epoch: int) -> tuple[Mesh, NDArray[Any]]:
        """A mesh and its target at the working resolution; finer meshes in one of a few triangulations."""
        number = 0 if self._augment is None else epoch % _TRIANGULATIONS
        known = next((key for key in ((position, None), (position, number)) if key in self._memory), None)
        if known is not None:
            return self._memory[known]
        loaded, target = self._dataset.load(self.samples[position])
        loaded = loaded.with_only_columns(self._prepare.own_columns)
        seed = stream_seed("triangulation", self.seed, position, number)
        mesh, target = working = self._simplified(loaded, target, seed)
        size = mesh.vertices.nbytes + mesh.faces.nbytes + target.nbytes
        size += sum(values.nbytes for _, values in mesh.columns.values())
        if size <= self._memory_left:
            self._memory[position, None if mesh is loaded else number] = working
            self._memory_left -= size
        return working

    def _simplified(self, mesh: Mesh, target: NDArray[Any], seed: np.random.SeedSequence) -> tuple[Mesh, NDArray[Any]]:
        faces, augment, kind = self._prepare.most_faces, self._augment, self._dataset.kind
        if faces is None or mesh.n_faces <= faces:
            return mesh, target
        if augment is None:
            small = simplify(mesh, faces)
        else:
            rng = np.random.default_rng(seed)
            factor = augment.resolution ** rng.uniform(-1, 1)
            small = simplify(mesh, round(faces * factor), seed=int(rng.integers(1 << 32)))
        if kind is None:
            return small.mesh, target
        down = small.values_over if self._dataset.task == "regression" else small.labels_over
        return small.mesh, down(target, kind)
