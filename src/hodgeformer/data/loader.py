"""Batches for training, prepared in worker processes while the model learns.

Batches depend only on (seed, epoch, position), not on the number of workers, nor on the batch at which one starts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from hodgeformer.base.errors import DataError
from hodgeformer.data.source import BatchSource, Key, stream_seed
from hodgeformer.data.worker import Worker, start_workers
from hodgeformer.nn.pack import Batch

_AHEAD = 2  # batches that each worker prepares in advance


class Loader:
    """The batches of the training split.

    Every epoch is shuffled, augmented and gets new random connections. No mesh is ever skipped. With several
    processes, `rank` prepares only its share of every batch; together the shares are the batch of a single process. A
    batch has at most `batch_size` meshes and at most `batch_faces` faces; a mesh with more faces is a batch by itself.
    `n_faces` are the sizes of the meshes of the split.
    """

    def __init__(
        self,
        source: BatchSource,
        *,
        batch_size: int,
        batch_faces: int | None = None,
        n_faces: Sequence[int],
        n_workers: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.seconds_waited = 0.0
        self._source, self._n_workers = source, n_workers
        self._batch_size, self._batch_faces, self._n_faces = batch_size, batch_faces, n_faces
        self._rank, self._world_size = rank, world_size
        self._epochs: dict[int, list[Key]] = {}
        self._workers: list[Worker] = []
        self._asked: deque[Worker] = deque()  # in the order of the batches
        self._ahead: Iterator[Key] = iter(())
        self._at: tuple[int, int] | None = None

    def n_batches(self, epoch: int = 0) -> int:
        """The number of batches of an epoch; with `batch_faces` it varies from epoch to epoch."""
        return len(self.keys(epoch))

    def batches(self, epoch: int = 0, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, starting at number start_batch."""
        for number in range(start_batch, self.n_batches(epoch)):
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
            batches = cut_batches(order, self._batch_size, self._batch_faces, self._n_faces)
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
        self._at = (epoch, number + 1) if number + 1 < self.n_batches(epoch) else (epoch + 1, 0)
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


def epoch_order(n: int, seed: int, epoch: int) -> list[int]:
    """The shuffled order of an epoch."""
    order: list[int] = np.random.default_rng(stream_seed("order", seed, epoch)).permutation(n).tolist()
    return order


def cut_batches(
    order: Sequence[int], size: int, batch_faces: int | None, n_faces: Sequence[int]
) -> list[tuple[int, ...]]:
    """Consecutive batches that cover the whole order, none of them much smaller than the others."""
    if batch_faces is None:
        n_batches = -(-len(order) // size)
        return [tuple(part.tolist()) for part in np.array_split(np.array(order), n_batches)]
    batches: list[list[int]] = [[]]
    for index in order:
        full = len(batches[-1]) == size
        if batches[-1] and (full or sum(n_faces[i] for i in [*batches[-1], index]) > batch_faces):
            batches.append([])
        batches[-1].append(index)
    if len(batches) > 1:
        batches[-2:] = _evened(batches[-2] + batches[-1], size, n_faces)
    return [tuple(batch) for batch in batches]


def _evened(members: list[int], size: int, n_faces: Sequence[int]) -> list[list[int]]:
    """Two batches with numbers of faces as equal as possible, so that the last one is not too small."""
    total = sum(n_faces[i] for i in members)
    cuts = range(max(1, len(members) - size), min(size, len(members) - 1) + 1)
    best = min(cuts, key=lambda cut: abs(total - 2 * sum(n_faces[i] for i in members[:cut])))
    return [members[:best], members[best:]]
