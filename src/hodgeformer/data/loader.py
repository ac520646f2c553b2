"""Batches for training and evaluation, prepared in worker processes while the model works.

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
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.utils.data import DataLoader

from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.cache import Cache
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.plan import BatchConfig, cut_batches, epoch_order, share
from hodgeformer.data.source import BatchSource, Failure, Key
from hodgeformer.data.wire import unwrap
from hodgeformer.errors import DataError
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.packed.batch import Batch

_KEPT_BYTES = 1 << 30  # prepared evaluation batches that are kept from one pass to the next


@dataclass(frozen=True, eq=False)
class LoadedBatch:
    """A batch and where it belongs: `members` are positions in the split, `n_meshes` counts those of all processes."""

    batch: Batch
    epoch: int
    number: int
    members: tuple[int, ...]
    n_meshes: int


class Loader:
    """The batches of one split.

    In training every epoch is shuffled, augmented and gets new random connections. In evaluation the order is that of
    the split and nothing is random. No mesh is ever left out. With several processes, `rank` prepares only its share of
    every batch; the shares of all ranks together are the batch of a single process. `n_faces` are the sizes of the
    meshes of the split, needed for a budget by faces.
    """

    def __init__(
        self,
        dataset: DataSet,
        split: str,
        *,
        prepare: PrepareConfig,
        training: bool,
        batch: BatchConfig | None = None,
        augment: AugmentConfig | None = None,
        seed: int = 0,
        n_workers: int = 0,
        prefetch: int = 2,
        rank: int = 0,
        world_size: int = 1,
        n_faces: Sequence[int] | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.samples = dataset.split(split)
        self.seconds_waited = 0.0
        self._batch = batch or BatchConfig()
        self._training = training
        self._seed = seed
        self._rank, self._world_size = rank, world_size
        self._n_workers, self._prefetch = n_workers, prefetch
        self._source = BatchSource(
            dataset,
            self.samples,
            prepare=prepare,
            augment=augment if training else None,
            training=training,
            seed=seed,
            cache=cache,
            n_workers=n_workers,
        )
        if self._batch.max_faces is not None and n_faces is None:
            n_faces = [dataset.load(sample)[0].n_faces for sample in self.samples]
        self._n_faces = n_faces
        self._plans: dict[int, list[tuple[Key, int]]] = {}
        self._workers: DataLoader[Any] | None = None
        self._stream: Iterator[Any] | None = None
        self._at: tuple[int, int] | None = None
        self._kept: list[LoadedBatch] | None = None

    def n_batches(self, epoch: int = 0) -> int:
        """Batches of an epoch; with a budget by faces it varies from epoch to epoch."""
        return len(self._plan(epoch))

    def batches(self, epoch: int = 0, start_batch: int = 0) -> Iterator[LoadedBatch]:
        """The batches of an epoch from number start_batch on."""
        epoch = epoch if self._training else 0
        if self._kept is not None:
            yield from self._kept[start_batch:]
            return
        kept: list[LoadedBatch] = []
        room = 0 if self._training else _KEPT_BYTES
        for number in range(start_batch, self.n_batches(epoch)):
            began = time.perf_counter()
            loaded = self._next(epoch, number)
            self.seconds_waited += time.perf_counter() - began
            room -= _n_bytes(loaded.batch)
            kept = [*kept, loaded] if room >= 0 else []
            yield loaded
        if len(kept) == self.n_batches(epoch):
            self._kept = kept
            self.close()

    def close(self) -> None:
        """End the workers. They come back when they are needed."""
        self._stream = None
        self._workers = None
        self._at = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plan(self, epoch: int) -> list[tuple[Key, int]]:
        """Keys of this process's shares, each with the number of meshes of the whole batch."""
        if epoch not in self._plans:
            n = len(self.samples)
            order = epoch_order(n, self._seed, epoch) if self._training else range(n)
            batches = cut_batches(order, self._batch, self._n_faces)
            if self._training and min(map(len, batches)) < self._world_size:
                raise DataError(
                    f"a batch of {min(map(len, batches))} meshes cannot be shared by {self._world_size} processes; "
                    "use larger batches or fewer processes"
                )
            shares = [share(members, self._rank, self._world_size) for members in batches]
            # The stream of one epoch runs on into the next while it is being read, so two plans are alive.
            self._plans = {e: plan for e, plan in self._plans.items() if e == epoch - 1}
            self._plans[epoch] = [
                (Key(epoch, number, members), len(batches[number])) for number, members in enumerate(shares) if members
            ]
        return self._plans[epoch]

    def _next(self, epoch: int, place: int) -> LoadedBatch:
        key, n_meshes = self._plan(epoch)[place]
        if self._n_workers == 0:
            batch = self._source.batch(key)
        else:
            if self._at != (epoch, place) or self._stream is None:
                self.start(epoch, place)
            batch = self._receive(key)
            self._at = (epoch, place + 1) if place + 1 < self.n_batches(epoch) else (epoch + 1, 0)
        return LoadedBatch(batch, epoch, key.number, key.members, n_meshes)

    def start(self, epoch: int = 0, start_batch: int = 0) -> None:
        """Let the workers begin before the first batch is asked for. In training they run on into the next epochs."""
        if self._n_workers == 0:
            return
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
        sampler.start = self._at = (epoch, start_batch)
        self._stream = iter(self._workers)

    def _receive(self, key: Key) -> Batch:
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


class _Keys:
    """The keys that the workers are given, from a place on."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.start = (0, 0)

    def __iter__(self) -> Iterator[Key]:
        epoch, place = self.start
        while True:
            for key, _ in self._loader._plan(epoch)[place:]:
                yield key
            if not self._loader._training:
                return
            epoch, place = epoch + 1, 0


def _n_bytes(batch: Batch) -> int:
    sizes: list[int] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    batch.map(note)
    return sum(sizes)


def _as_is(value: Any) -> Any:
    return value


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
