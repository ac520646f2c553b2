"""Batches for training: meshes are read, augmented, prepared and packed in worker processes while the model learns.

Batches depend only on (seed, epoch, position), not on the number of workers, nor on the batch at which one starts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KINDS
from hodgeformer.base.errors import DataError
from hodgeformer.data.augment import AugmentConfig, augmented, deformed
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.worker import Key, Worker, start_workers
from hodgeformer.mesh.mesh import IntArray, Mesh
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
_AHEAD = 2  # batches that each worker prepares in advance


def stream_seed(purpose: Purpose, seed: int, *place: int) -> np.random.SeedSequence:
    """The seed of the random numbers for one purpose at one place, such as (epoch, index)."""
    return np.random.SeedSequence([seed, _PURPOSES.index(purpose), *place])


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


class Loader:
    """The batches of the training split.

    Every epoch is shuffled, augmented and gets new random connections. No mesh is ever skipped. With several
    processes, `rank` prepares only its share of every batch; together the shares are the batch of a single process.
    """

    def __init__(
        self,
        source: BatchSource,
        *,
        batch_size: int,
        n_workers: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.seconds_waited = 0.0
        self._source, self._n_workers = source, n_workers
        self._batch_size, self._rank, self._world_size = batch_size, rank, world_size
        self._epochs: dict[int, list[Key]] = {}
        self._workers: list[Worker] = []
        self._asked: deque[Worker] = deque()  # in the order of the batches
        self._ahead: Iterator[Key] = iter(())
        self._at: tuple[int, int] | None = None

    @property
    def n_batches(self) -> int:
        """The number of batches of an epoch."""
        return -(-len(self._source.samples) // self._batch_size)

    def batches(self, epoch: int = 0, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, starting at number start_batch."""
        for number in range(start_batch, self.n_batches):
            began = time.perf_counter()
            batch = self._next(epoch, number)
            self.seconds_waited += time.perf_counter() - began
            yield batch

    def close(self) -> None:
        """Stop the workers. They are started again when needed."""
        for worker in self._workers:
            worker.close()
        self._workers, self._asked, self._at = [], deque(), None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keys(self, epoch: int) -> list[Key]:
        """The share of this process of every batch of an epoch."""
        if epoch not in self._epochs:
            order = epoch_order(len(self._source.samples), self._source.seed, epoch)
            batches = [tuple(part.tolist()) for part in np.array_split(order, self.n_batches)]  # of equal size
            if min(map(len, batches)) < self._world_size:
                raise DataError(
                    f"a batch of {min(map(len, batches))} meshes cannot be shared by {self._world_size} processes; "
                    "use larger batches or fewer processes"
                )
            # Workers prepare the next epoch while the current one is being read, so two epochs are needed.
            self._epochs = {e: keys for e, keys in self._epochs.items() if e == epoch - 1}
            self._epochs[epoch] = [Key(epoch, members[self._rank :: self._world_size]) for members in batches]
        return self._epochs[epoch]

    def _next(self, epoch: int, number: int) -> Batch:
        if self._n_workers and self._at != (epoch, number):
            self._start(epoch, number)
        if self._n_workers == 0:
            return self._source.batch(self.keys(epoch)[number])
        worker = self._asked.popleft()
        answer = worker.answer()
        if isinstance(answer, Exception):
            self.close()
            raise answer
        self._ask(worker)
        self._at = (epoch, number + 1) if number + 1 < self.n_batches else (epoch + 1, 0)
        return answer

    def _start(self, epoch: int, number: int) -> None:
        """Let the workers start at a batch. They continue with the next epochs."""
        self._workers = self._workers or start_workers(self._source, self._n_workers)
        self._n_workers = len(self._workers)
        for worker in self._asked:
            worker.answer()  # no longer wanted
        self._asked.clear()
        self._ahead = self._keys_from(epoch, number)
        for worker in self._workers * _AHEAD:
            self._ask(worker)

    def _ask(self, worker: Worker) -> None:
        worker.ask(next(self._ahead))
        self._asked.append(worker)

    def _keys_from(self, epoch: int, number: int) -> Iterator[Key]:
        while True:
            yield from self.keys(epoch)[number:]
            epoch, number = epoch + 1, 0


def epoch_order(n: int, seed: int, epoch: int) -> IntArray:
    """The shuffled order of an epoch."""
    return np.random.default_rng(stream_seed("order", seed, epoch)).permutation(n)
