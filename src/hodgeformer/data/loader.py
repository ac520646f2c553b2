"""Batches for training, prepared in worker processes while the model learns.

Batches depend only on (seed, epoch, position), not on the number of workers, nor on the batch at which one starts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Self

import numpy as np

from hodgeformer.base.errors import DataError
from hodgeformer.data.source import BatchSource, Key, stream_seed
from hodgeformer.data.worker import Worker, start_workers
from hodgeformer.mesh.mesh import IntArray
from hodgeformer.nn.pack import Batch

_AHEAD = 2  # batches that each worker prepares in advance


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
