"""Load a model once; mesh in, labels and probabilities out."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, field_validator

from hodgeformer.containers import PartElement
from hodgeformer.errors import CheckpointError, ConfigError
from hodgeformer.familiarity import impression
from hodgeformer.files import place, write_atomically
from hodgeformer.memory import return_freed_memory
from hodgeformer.mesh.elements import smoothed
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import UpName, random_turns
from hodgeformer.mesh.prepare import Faces
from hodgeformer.palette import class_colors
from hodgeformer.predict.inference import Answered, Network, Room, Seen, answers, see
from hodgeformer.predict.pretrained import PRETRAINED, fetch_pretrained, locate_model, model_card
from hodgeformer.predict.result import Result
from hodgeformer.settings import Settings
from hodgeformer.threads import thread_count
from hodgeformer.trained import Trained

if TYPE_CHECKING:  # exported models are predicted with without torch
    from hodgeformer.checkpoint import Checkpoint
    from hodgeformer.nn.model import HodgeFormer

_MOST_AHEAD = 256
_DEFAULT_SMOOTH = 0.8

MeshLike = Mesh | str | os.PathLike[str]
OnError = Callable[[MeshLike, Exception], None]
Report = Callable[[float], None]


class PredictOptions(Settings):
    """How a mesh is predicted.

    `faces`: larger meshes are simplified to so many faces and the answer is carried back; "auto" is the size that the
    model was trained on, "original" that of the file. `memory`: bytes to keep to, by default most of what is free; what
    does not fit is worked on in patches. `smooth`: how much an element listens to its neighbors, in [0, 1); True is
    0.8. `tta`: mean over so many rotations, the first of which is none. `element`: what the answer of a segmentation is
    asked for, by default what the model was trained on. `up`: the axis that points up in pictures. `batch_faces`:
    meshes of together at most so many faces go through the model at once. `seed` draws the rotations.
    """

    faces: Faces = "auto"
    memory: int | None = Field(default=None, ge=1)
    smooth: float = Field(default=0.0, ge=0.0, lt=1.0)
    tta: int = Field(default=1, ge=1, le=1000)
    element: PartElement | None = None
    up: UpName = "auto"
    batch_faces: int = Field(default=40_000, ge=1)
    seed: int = Field(default=0, ge=0)

    @field_validator("smooth", mode="before")
    @classmethod
    def _flag(cls, value: object) -> object:
        return _DEFAULT_SMOOTH * value if isinstance(value, bool) else value


def _groups(meshes: Iterable[tuple[MeshLike, Seen]], batch_faces: int) -> Iterator[list[tuple[MeshLike, Seen]]]:
    """Neighbors in the list of together at most so many faces, or single ones."""
    group: list[tuple[MeshLike, Seen]] = []
    for given, seen in meshes:
        if group and sum(other.n_faces for _, other in group) + seen.n_faces > batch_faces:
            yield group
            group = []
        group.append((given, seen))
    if group:
        yield group


class MeshPredictor:
    """What surrounds a model, by whatever it is run: preparing as in training, batches, averaging, the way back.

    The same mesh gets the same answer, alone or among others, however it is numbered, in whatever format.
    """

    def __init__(self, trained: Trained, network: Network) -> None:
        self._trained, self._network = trained, network

    @property
    def names(self) -> tuple[str, ...]:
        return self._trained.classes

    def predict(self, mesh: MeshLike, *, report: Report | None = None, **options: Any) -> Result:
        """The answer for one mesh or file; options are those of `PredictOptions`.

        `report` is told the share of the work that the model has done.
        """
        chosen = self._checked(options)
        seen = self._see(mesh, chosen, self._room(chosen))
        return self._results([(mesh, seen)], chosen, report)[0]

    def predict_many(
        self,
        meshes: Iterable[MeshLike],
        *,
        on_error: OnError | None = None,
        report: Report | None = None,
        **options: Any,
    ) -> Iterator[Result]:
        """Answers in the order of the meshes, while they come; small meshes share a pass through the model.

        Meshes are read and prepared in other threads in the meantime. A mesh that cannot be used raises its error, or
        is told to `on_error` and left out. `report` is told the share of the work on the present mesh that is done.
        """
        chosen = self._checked(options)
        groups = _groups(self._seen_ahead(meshes, chosen, on_error), chosen.batch_faces)
        return (result for group in groups for result in self._answered(group, chosen, on_error, report))

    def _checked(self, options: dict[str, Any]) -> PredictOptions:
        chosen = PredictOptions(**options)
        if chosen.element is not None and self._trained.model.target_kind is None:
            raise ConfigError(
                f"'{self._trained.name}' answers for whole meshes; it says nothing about each {chosen.element}"
            )
        return chosen

    def _room(self, options: PredictOptions) -> Room:
        if options.memory is not None:
            return_freed_memory()
        return Room(self._trained.model, self._trained.prepare, options.memory)

    def _see(self, given: MeshLike, options: PredictOptions, room: Room, n_threads: int | None = None) -> Seen:
        return see(
            given if isinstance(given, Mesh) else load_mesh(given),
            self._trained.at(options.faces),
            turns=random_turns(options.tta - 1, self._trained.turn_axis, seed=options.seed),
            room=room,
            reads_order=self._trained.model.reads_order,
            n_threads=n_threads,
        )

    def _seen_ahead(
        self, meshes: Iterable[MeshLike], options: PredictOptions, on_error: OnError | None
    ) -> Iterator[tuple[MeshLike, Seen]]:
        """In order, prepared in threads that run ahead by about two passes, by less where meshes are large."""

        space = self._room(options)

        def attempt(given: MeshLike) -> Seen | Exception:
            try:
                return self._see(given, options, space, n_threads=1)
            except Exception as error:  # whatever it is, it is told with its mesh, and the others go on
                return error

        ahead = n_threads = thread_count()
        largest = 1
        waiting: deque[tuple[MeshLike, Future[Seen | Exception]]] = deque()
        source = iter(meshes)
        with ThreadPoolExecutor(n_threads, thread_name_prefix="prepare") as pool:
            try:
                while True:
                    for given in islice(source, max(0, ahead + 1 - len(waiting))):
                        waiting.append((given, pool.submit(attempt, given)))
                    if not waiting:
                        return
                    given, future = waiting.popleft()
                    seen = future.result()
                    if isinstance(seen, Seen):
                        largest = max(largest, seen.n_faces)
                        ahead = max(n_threads, min(_MOST_AHEAD, 2 * options.batch_faces // largest))
                        yield given, seen
                    elif on_error is None:
                        raise seen
                    else:
                        on_error(given, seen)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _answered(
        self,
        group: list[tuple[MeshLike, Seen]],
        options: PredictOptions,
        on_error: OnError | None,
        report: Report | None,
    ) -> Iterator[Result]:
        """The answers for meshes that share passes; where one of them fails, each is tried alone."""
        try:
            found = self._results(group, options, report)
        except Exception as error:
            if on_error is None:
                raise
            if len(group) == 1:
                on_error(group[0][0], error)
                return
            for one in group:
                yield from self._answered([one], options, on_error, report)
        else:
            yield from found

    def _results(
        self, meshes: list[tuple[MeshLike, Seen]], options: PredictOptions, report: Report | None
    ) -> list[Result]:
        trained, model = self._trained, self._trained.model
        kind = model.target_kind
        found = answers(
            self._network, meshes, batch_faces=options.batch_faces, temperature=trained.temperature, report=report
        )
        results = []
        for answer in found:
            seen, outputs = answer.seen, answer.output
            familiarity, warnings = self._familiar(answer)
            if options.smooth > 0 and model.task == "segmentation" and kind is not None:
                outputs = smoothed(outputs, seen.mesh, kind=kind, strength=options.smooth)
            result = Result(
                mesh=seen.mesh,
                task=model.task,
                element=model.element,
                outputs=outputs.astype(np.float32, copy=False),
                names=trained.classes,
                colors=trained.colors or class_colors(len(trained.classes)),
                warnings=warnings,
                path=None if isinstance(answer.owner, Mesh) else place(answer.owner),
                working_faces=seen.working_mesh.n_faces,
                familiarity=familiarity,
                up_axis=options.up,
                heights=trained.heights,
            )
            results.append(result if options.element is None else result.on(options.element))
        return results

    def _familiar(self, answer: Answered[Any]) -> tuple[float | None, tuple[str, ...]]:
        """How familiar a mesh is, where the model can tell, and what sets it apart, a sentence each."""
        known, statistics = self._trained.familiarity, self._trained.statistics
        working = answer.seen.working_mesh
        unlike = () if statistics is None else statistics.unlike(working)
        if known is None:
            return None, unlike
        is_sure = self._trained.model.task != "regression"
        score, reasons = known.judge(impression(working, answer.features, answer.output if is_sure else None))
        return score, unlike + reasons


class Predictor(MeshPredictor):
    """A trained model, run by PyTorch, and everything around it."""

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        import torch

        from hodgeformer.predict.forward import Forward

        self.checkpoint = checkpoint
        try:
            self.device = torch.device(device)
            self.model: HodgeFormer = checkpoint.build_model().to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device '{device}' cannot be used here ({str(error).splitlines()[0]})") from None
        super().__init__(checkpoint, Forward(self.model))

    @classmethod
    def load(cls, model: str | os.PathLike[str], device: str = "cpu") -> Predictor:
        """A bundled name, a run folder, a folder of `save_pretrained`, or a checkpoint file."""
        from hodgeformer.checkpoint import load_checkpoint

        return cls(load_checkpoint(locate_model(model)), device)

    @classmethod
    def from_pretrained(cls, model: str | os.PathLike[str], device: str = "cpu") -> Predictor:
        """Like `load`; what is neither here nor bundled is fetched from the model hub, by its id OWNER/NAME."""
        return cls.load(fetch_pretrained(model), device)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model and a card that says what it is into a folder, as a model hub wants it."""
        from hodgeformer.checkpoint import save_checkpoint

        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{folder}: cannot be made ({error.strerror})") from None
        save_checkpoint(folder / PRETRAINED, self.checkpoint)
        write_atomically(folder / "README.md", model_card(self.checkpoint).encode())
        return folder
