"""What a data worker does: read meshes, change them at random, prepare and pack them."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, get_worker_info

from hodgeformer.data.augment import AugmentConfig, augmented, deformed
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.wire import Parcel, wrap
from hodgeformer.errors import HodgeFormerError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import n_frames, posed
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.simplify import simplify
from hodgeformer.packed.pack import Batch, pack

# What a random stream is for is part of its seed, so that streams of one epoch do not repeat each other.
Purpose = Literal["order", "shape", "connections", "triangulation"]
_PURPOSES: tuple[Purpose, ...] = ("order", "shape", "connections", "triangulation")
_TRIANGULATIONS = 8  # of a mesh that is finer than the working resolution, a new one each epoch and then again
_MEMORY = 512 << 20  # bytes of meshes that one worker keeps after reading them


def stream_seed(purpose: Purpose, seed: int, *place: int) -> np.random.SeedSequence:
    """The seed of the random numbers for one purpose at one place, such as (epoch, index)."""
    return np.random.SeedSequence([seed, _PURPOSES.index(purpose), *place])


class Key(NamedTuple):
    """One batch of an epoch, or the share of one process: the positions of its meshes in the split."""

    epoch: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class Failure:
    """Why a batch could not be made: one of our errors, or the traceback of one that nobody expected."""

    sample: str
    message: str
    kind: type[HodgeFormerError] | None

    def error(self) -> Exception:
        if self.kind is None:
            return RuntimeError(f"preparing {self.sample} failed in a data worker\n{self.message}")
        return self.kind(self.message if self.sample in self.message else f"{self.sample}: {self.message}")


class BatchSource(Dataset[Any]):
    """Batches by key, the same in every process: all randomness is drawn from (seed, epoch, position)."""

    def __init__(
        self,
        dataset: DataSet,
        samples: tuple[Sample, ...],
        *,
        prepare: PrepareConfig,
        augment: AugmentConfig | None,
        seed: int,
        n_workers: int,
    ) -> None:
        self._dataset = dataset
        self._samples = samples
        self._prepare = prepare
        self._augment = augment
        self._swapped = None if augment is None else augment.swapped(dataset.classes)
        self._seed = seed
        # The position that each worker is at, for the error message when one is killed.
        self.at = torch.full((max(n_workers, 1),), -1, dtype=torch.int64)
        if n_workers:
            self.at.share_memory_()  # type: ignore[no-untyped-call]
        self._memory: dict[tuple[int, int | None], tuple[Mesh, NDArray[Any]]] = {}
        self._memory_left = _MEMORY

    def __getitem__(self, key: Key) -> Parcel | Failure:
        """For workers: the batch as a parcel, or the reason why there is none, which must not kill the worker."""
        position = key.members[0]
        info = get_worker_info()
        try:
            prepared = []
            for position in key.members:
                self.at[info.id if info else 0] = position
                prepared.append(self.prepared(position, key.epoch, n_threads=1))
            batch = pack(prepared, transpose=True)
            self.at[info.id if info else 0] = -1
            return wrap(batch)
        except HodgeFormerError as error:
            return Failure(self._samples[position].where, str(error), type(error))
        except Exception:
            return Failure(self._samples[position].where, traceback.format_exc(), None)

    def batch(self, key: Key) -> Batch:
        """For this process: the batch itself."""
        return pack([self.prepared(i, key.epoch, n_threads=None) for i in key.members], transpose=True)

    def prepared(self, position: int, epoch: int, *, n_threads: int | None) -> PreparedMesh:
        """One mesh of the split as the model sees it in an epoch."""
        mesh, target = self._working(position, epoch)
        kind = self._dataset.kind
        place = (self._seed, epoch, position)
        rng = np.random.default_rng(stream_seed("shape", *place))
        seed = int(stream_seed("connections", *place).generate_state(1, np.uint64)[0])
        config, frame = self._prepare, int(rng.integers(n_frames(self._prepare.pose)))
        if self._augment is not None:
            # Shapes change before the frame, which follows them as it will follow unseen shapes. Turns come in it:
            # a frame would undo every rotation.
            mesh, target = deformed(mesh, target, self._augment, rng, kind=kind)
            mesh = mesh.with_vertices(posed(mesh.vertices, mesh.faces, config.pose, frame))
            config = config.replace(pose="file")
            mesh, target = augmented(mesh, target, self._augment, rng, kind=kind, swapped=self._swapped)
        prepared = prepare(mesh, config, seed=seed, frame=frame, n_threads=n_threads)
        return prepared.with_target(target if kind is None else prepared.from_file_order(target, kind))

    def _working(self, position: int, epoch: int) -> tuple[Mesh, NDArray[Any]]:
        """A mesh and its target at the working resolution, where it is finer in one of a few triangulations."""
        number = 0 if self._augment is None else epoch % _TRIANGULATIONS
        known = next((key for key in ((position, None), (position, number)) if key in self._memory), None)
        if known is not None:
            return self._memory[known]
        loaded = self._dataset.load(self._samples[position])
        mesh, target = working = self._simplified(*loaded, stream_seed("triangulation", self._seed, position, number))
        size = mesh.vertices.nbytes + mesh.faces.nbytes + target.nbytes
        if size <= self._memory_left:
            self._memory[position, None if mesh is loaded[0] else number] = working
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
