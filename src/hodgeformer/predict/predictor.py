"""Load a model once; mesh in, labels and probabilities out."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hodgeformer.checkpoint import Checkpoint, load_checkpoint
from hodgeformer.errors import ConfigError, HodgeFormerError
from hodgeformer.models.bundled import locate_model
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.pack import pack
from hodgeformer.predict.hub import fetch_pretrained, write_pretrained
from hodgeformer.predict.job import Job, MeshLike, finish_job, make_job
from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.result import Result
from hodgeformer.threads import thread_count

_MOST_AHEAD = 256

OnError = Callable[[MeshLike, Exception], None]


class Predictor:
    """A trained model and everything around it: preparing as in training, batches, averaging, the way back.

    The same mesh gets the same answer, alone or among others, however it is numbered, in whatever format.
    """

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        self.checkpoint = checkpoint
        try:
            self.device = torch.device(device)
            self._model = checkpoint.build_model().to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device '{device}' cannot be used here ({str(error).splitlines()[0]})") from None

    @classmethod
    def load(cls, model: str | os.PathLike[str], device: str = "cpu") -> Predictor:
        """A bundled name, a run folder, a folder of `save_pretrained`, or a checkpoint file."""
        return cls(load_checkpoint(locate_model(model)), device)

    @classmethod
    def from_pretrained(cls, model: str | os.PathLike[str], device: str = "cpu") -> Predictor:
        """Like `load`; what is neither here nor bundled is fetched from the model hub, by its id OWNER/NAME."""
        return cls(load_checkpoint(fetch_pretrained(model)), device)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model and its card into a folder, as a model hub wants it."""
        return write_pretrained(self.checkpoint, Path(folder))

    @property
    def model(self) -> HodgeFormer:
        """The network, ready to evaluate."""
        return self._model

    @property
    def names(self) -> tuple[str, ...]:
        return self.checkpoint.classes

    def predict(self, mesh: MeshLike, **options: Any) -> Result:
        """The answer for one mesh or file; options are those of `PredictOptions`."""
        chosen = PredictOptions(**options)
        self._check(chosen)
        return self._run([make_job(mesh, self.checkpoint, chosen)], chosen)[0]

    def predict_many(
        self, meshes: Iterable[MeshLike], *, on_error: OnError | None = None, **options: Any
    ) -> Iterator[Result]:
        """Answers in the order of the meshes, while they come; small meshes share a pass through the model.

        Meshes are read and prepared in other threads in the meantime. A mesh that cannot be used raises its error, or
        is told to `on_error` and left out.
        """
        chosen = PredictOptions(**options)
        self._check(chosen)
        return self._stream(meshes, chosen, on_error)

    def _stream(
        self, meshes: Iterable[MeshLike], options: PredictOptions, on_error: OnError | None
    ) -> Iterator[Result]:
        group: list[Job] = []
        for prepared in self._prepared(meshes, options):
            if isinstance(prepared, _Failed):
                if on_error is None:
                    raise prepared.error
                on_error(prepared.mesh, prepared.error)
                continue
            if group and sum(job.n_faces for job in group) + prepared.n_faces > options.batch_faces:
                yield from self._run(group, options)
                group = []
            group.append(prepared)
        if group:
            yield from self._run(group, options)

    def _prepared(self, meshes: Iterable[MeshLike], options: PredictOptions) -> Iterator[Job | _Failed]:
        """Jobs in order, made in threads that run ahead by about two passes, by less where meshes are large."""
        n_threads = thread_count()
        ahead, largest = n_threads, 1
        waiting: deque[Future[Job | _Failed]] = deque()
        with ThreadPoolExecutor(n_threads, thread_name_prefix="prepare") as pool:
            try:
                for mesh in meshes:
                    waiting.append(pool.submit(_try_job, mesh, self.checkpoint, options))
                    while len(waiting) > ahead:
                        job = waiting.popleft().result()
                        if isinstance(job, Job):
                            largest = max(largest, job.n_faces)
                            ahead = max(n_threads, min(_MOST_AHEAD, 2 * options.batch_faces // largest))
                        yield job
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, jobs: list[Job], options: PredictOptions) -> list[Result]:
        outputs = iter(self._outputs(jobs, options.batch_faces))
        return [finish_job(job, [next(outputs) for _ in job.views], self.checkpoint, options) for job in jobs]

    @torch.inference_mode()
    def _outputs(self, jobs: list[Job], batch_faces: int) -> Iterator[NDArray[np.float32]]:
        """One array per view, in the order of the file."""
        kind = self.checkpoint.model.target_kind
        views = [view for job in jobs for view in job.views]
        for group in _grouped(views, batch_faces):
            batch = pack(group).to(self.device)
            rows = self._model(batch).float()
            if self.checkpoint.model.task != "regression":
                rows = rows.softmax(dim=1)
            parts = rows.cpu().split(1) if kind is None else batch.split(rows.cpu(), kind)
            for view, part in zip(group, parts, strict=True):
                yield part.numpy() if kind is None else view.to_file_order(part.numpy(), kind)

    def _check(self, options: PredictOptions) -> None:
        if options.element is not None and self.checkpoint.model.target_kind is None:
            raise ConfigError(
                f"'{self.checkpoint.name}' answers for whole meshes; it says nothing about each {options.element}"
            )


@dataclass(frozen=True)
class _Failed:
    mesh: MeshLike
    error: Exception


def _try_job(mesh: MeshLike, checkpoint: Checkpoint, options: PredictOptions) -> Job | _Failed:
    try:
        return make_job(mesh, checkpoint, options, n_threads=1)
    except (HodgeFormerError, OSError) as error:
        return _Failed(mesh, error)


def _grouped(views: list[Any], batch_faces: int) -> Iterator[list[Any]]:
    group: list[Any] = []
    for view in views:
        if group and sum(other.n.f for other in group) + view.n.f > batch_faces:
            yield group
            group = []
        group.append(view)
    if group:
        yield group
