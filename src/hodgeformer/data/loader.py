"""Batches for training, prepared in worker processes while the model works.

What comes out is a function of (seed, epoch, position) alone: not of the number of workers, nor of where in an epoch
one starts.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data import DataLoader

from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.source import BatchSource, Failure, Key, stream_seed
from hodgeformer.data.wire import unwrap
from hodgeformer.errors import DataError
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.packed.pack import Batch


class Loader:
    """The batches of the training split.

    Every epoch is shuffled, augmented and gets new random connections. No mesh is ever left out. With several
    processes, `rank` prepares only its share of every batch; the shares of all ranks together are the batch of a single
    process. A batch has at most `batch_size` meshes and at most `batch_faces` faces; a mesh with more faces makes a
    batch of its own. `n_faces` are the sizes of the meshes of the split.
    """

    def __init__(
        self,
        dataset: DataSet,
        *,
        prepare: PrepareConfig,
        augment: AugmentConfig | None,
        batch_size: int,
        batch_faces: int | None = None,
        n_faces: Sequence[int],
        seed: int = 0,
        n_workers: int = 0,
        prefetch: int = 2,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.samples = dataset.split("train")
        self.seconds_waited = 0.0
        self._batch_size, self._batch_faces, self._n_faces = batch_size, batch_faces, n_faces
        self._seed = seed
        self._rank, self._world_size = rank, world_size
        self._n_workers, self._prefetch = n_workers, prefetch
        self._source = BatchSource(
            dataset, self.samples, prepare=prepare, augment=augment, seed=seed, n_workers=n_workers
        )
        self._epochs: dict[int, list[Key]] = {}
        self._workers: DataLoader[Any] | None = None
        self._stream: Iterator[Any] | None = None
        self._at: tuple[int, int] | None = None

    def n_batches(self, epoch: int = 0) -> int:
        """Batches of an epoch; with a budget by faces it varies from epoch to epoch."""
        return len(self.keys(epoch))

    def batches(self, epoch: int = 0, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number start_batch on."""
        for number in range(start_batch, self.n_batches(epoch)):
            began = time.perf_counter()
            batch = self._next(epoch, number)
            self.seconds_waited += time.perf_counter() - began
            yield batch

    def close(self) -> None:
        """End the workers. They come back when they are needed."""
        self._stream = None
        self._workers = None
        self._at = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keys(self, epoch: int) -> list[Key]:
        """What this process prepares of every batch of an epoch."""
        if epoch not in self._epochs:
            order = epoch_order(len(self.samples), self._seed, epoch)
            batches = cut_batches(order, self._batch_size, self._batch_faces, self._n_faces)
            if min(map(len, batches)) < self._world_size:
                raise DataError(
                    f"a batch of {min(map(len, batches))} meshes cannot be shared by {self._world_size} processes; "
                    "use larger batches or fewer processes"
                )
            # The stream of one epoch runs on into the next while it is being read, so two epochs are alive.
            self._epochs = {e: keys for e, keys in self._epochs.items() if e == epoch - 1}
            self._epochs[epoch] = [Key(epoch, members[self._rank :: self._world_size]) for members in batches]
        return self._epochs[epoch]

    def _next(self, epoch: int, number: int) -> Batch:
        if self._n_workers == 0:
            return self._source.batch(self.keys(epoch)[number])
        if self._at != (epoch, number) or self._stream is None:
            self._start(epoch, number)
        batch = self._receive()
        self._at = (epoch, number + 1) if number + 1 < self.n_batches(epoch) else (epoch + 1, 0)
        return batch

    def _start(self, epoch: int, number: int) -> None:
        """Let the workers begin at a batch. They run on into the next epochs."""
        if self._workers is None:
            methods = multiprocessing.get_all_start_methods()
            context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
            if "forkserver" in methods:
                context.set_forkserver_preload([__name__])
            self._workers = DataLoader(
                self._source,
                sampler=_Keys(self),
                batch_size=None,
                collate_fn=_as_is,
                num_workers=self._n_workers,
                prefetch_factor=self._prefetch,
                persistent_workers=True,
                multiprocessing_context=context,
                worker_init_fn=_begin_worker,
                # Its own generator: else every start would draw from the one that drives dropout.
                generator=torch.Generator(),
            )
        sampler = self._workers.sampler
        assert isinstance(sampler, _Keys)
        sampler.start = self._at = (epoch, number)
        with _without_sigterm():
            self._stream = iter(self._workers)

    def _receive(self) -> Batch:
        assert self._stream is not None
        try:
            received = next(self._stream)
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            at = [self.samples[i].where for i in self._source.at.tolist() if i >= 0]
            self.close()
            raise DataError(
                f"a data worker was killed while preparing {' or '.join(at) or 'a batch'}, for lack of memory perhaps; "
                "use fewer workers (0 works without any), smaller batches, or take the mesh out"
            ) from None
        if isinstance(received, Failure):
            self.close()
            raise received.error()
        batch: Batch = unwrap(received)
        return batch


def epoch_order(n: int, seed: int, epoch: int) -> list[int]:
    """The shuffled order of an epoch."""
    order: list[int] = np.random.default_rng(stream_seed("order", seed, epoch)).permutation(n).tolist()
    return order


def cut_batches(
    order: Sequence[int], size: int, batch_faces: int | None, n_faces: Sequence[int]
) -> list[tuple[int, ...]]:
    """Consecutive batches that together hold the whole order, none of them much smaller than the others."""
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
    """Two batches cut where their numbers of faces differ least, so that the last one is no leftover."""
    total = sum(n_faces[i] for i in members)
    cuts = range(max(1, len(members) - size), min(size, len(members) - 1) + 1)
    best = min(cuts, key=lambda cut: abs(total - 2 * sum(n_faces[i] for i in members[:cut])))
    return [members[:best], members[best:]]


class _Keys:
    """The keys that the workers are given, from a place on."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.start = (0, 0)

    def __iter__(self) -> Iterator[Key]:
        epoch, number = self.start
        while True:
            yield from self._loader.keys(epoch)[number:]
            epoch, number = epoch + 1, 0


def _as_is(value: Any) -> Any:
    return value


@contextmanager
def _without_sigterm() -> Iterator[None]:
    """Processes that start meanwhile, the server of workers included, never get a SIGTERM: sent to the whole group, as
    job schedulers do, it is for the main process, which saves its state and then ends its workers."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(_: int) -> None:
    """One thread each, and an interrupt from the keyboard is for the main process, which then ends its workers."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A main process that is killed cannot end its workers, and torch watches only the server they were forked from."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
