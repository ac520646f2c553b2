"""What surrounds a model, by whatever it is run: mesh in, labels and probabilities out."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, TypedDict, TypeGuard, Unpack, cast

import numpy as np
from pydantic import Field, field_validator

from hodgeformer.base.containers import PartElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import place
from hodgeformer.base.memory import return_freed_memory
from hodgeformer.base.palette import class_colors
from hodgeformer.base.settings import Settings
from hodgeformer.base.threads import thread_count
from hodgeformer.mesh.elements import smoothed
from hodgeformer.mesh.io import MeshLike, as_mesh, load_mesh
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import UpName, random_turns
from hodgeformer.mesh.prepare import Faces
from hodgeformer.predict.familiarity import impression
from hodgeformer.predict.inference import Answered, Network, Room, Seen, answers, see
from hodgeformer.predict.model_info import Trained
from hodgeformer.predict.result import Result

_MOST_AHEAD = 256
_DEFAULT_SMOOTH = 0.8

OnError = Callable[[MeshLike, Exception], None]
Report = Callable[[float], None]


class PredictOptions(Settings):
    """How a mesh is predicted."""

    faces: Faces = Field(
        default="auto",
        description="Simplify meshes with more faces to this number, and transfer the answer back to the original "
        "mesh; auto is the size the model was trained on, original does not simplify.",
    )
    memory: int | None = Field(
        default=None,
        ge=1,
        description="The memory limit of the process in bytes; by default most of the free memory. Meshes that need "
        "more are processed in overlapping patches, which changes the answer slightly.",
    )
    smooth: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="How strongly the answer for an element follows its neighbors, from 0 to below 1; true is 0.8.",
    )
    tta: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Average over this many rotations of the mesh in total, including the original; 1 adds none.",
    )
    element: PartElement | None = Field(
        default=None,
        description="The element that a segmentation is given for; by default the one the model was trained on.",
    )
    up: UpName = Field(default="auto", description="The axis that points up in pictures; auto guesses it.")
    batch_faces: int = Field(
        default=40_000, ge=1, description="Meshes with up to this many faces in total go through the model at once."
    )
    seed: int = Field(default=0, ge=0, description="The seed for the rotations of tta.")

    @field_validator("smooth", mode="before")
    @classmethod
    def _flag(cls, value: object) -> object:
        return _DEFAULT_SMOOTH * value if isinstance(value, bool) else value


class PredictKeywords(TypedDict, total=False):
    """The settings of `PredictOptions`, for editors and type checkers."""

    faces: Faces
    memory: int | None
    smooth: float | bool
    tta: int
    element: PartElement | None
    up: UpName
    batch_faces: int
    seed: int


Sight = tuple[Seen, ...]
"""A mesh as each of the models sees that answer together; most often one."""
Sights = list[tuple[MeshLike, Sight]]


def _is_file(given: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(given, str | os.PathLike) or hasattr(given, "read_bytes")  # remote ones are no PathLike


def _n_faces(sight: Sight) -> int:
    """Faces of all views that are in memory."""
    return sum(seen.n_faces for seen in sight)


def _groups(meshes: Iterable[tuple[MeshLike, Sight]], batch_faces: int) -> Iterator[Sights]:
    """Neighbors in the list of together at most so many faces, or single ones."""
    group: Sights = []
    for given, sight in meshes:
        if group and sum(_n_faces(other) for _, other in group) + _n_faces(sight) > batch_faces:
            yield group
            group = []
        group.append((given, sight))
    if group:
        yield group


class MeshPredictor:
    """What surrounds a model, by whatever it is run: preparing as in training, batches, averaging, the way back.

    The same mesh gets the same answer, alone or among others, however it is numbered, in whatever format.
    """

    def __init__(self, trained: Trained, network: Network) -> None:
        self._trained, self._network = trained, network

    @property
    def trained(self) -> Trained:
        """Every setting of the model, without its weights."""
        return self._trained

    @property
    def names(self) -> tuple[str, ...]:
        return self._trained.classes

    def predict(self, mesh: MeshLike, *, report: Report | None = None, **options: Unpack[PredictKeywords]) -> Result:
        """The answer for one mesh or file; options are those of `PredictOptions`.

        `report` is told the share of the work that the model has done.
        """
        chosen = self._checked(PredictOptions(**options))
        sight = self._look(mesh, chosen, self._rooms(chosen))
        return self._results([(mesh, sight)], chosen, report)[0]

    def predict_many(
        self,
        meshes: Iterable[MeshLike],
        *,
        on_error: OnError | None = None,
        report: Report | None = None,
        **options: Unpack[PredictKeywords],
    ) -> Iterator[Result]:
        """Answers in the order of the meshes, while they come; small meshes share a pass through the model.

        Meshes are read and prepared in other threads in the meantime. A mesh that cannot be used raises its error, or
        is told to `on_error` and left out. `report` is told the share of the work on the present mesh that is done.
        """
        chosen = self._checked(PredictOptions(**options))
        groups = _groups(self._seen_ahead(meshes, chosen, on_error), chosen.batch_faces)
        return (result for group in groups for result in self._answered(group, chosen, on_error, report))

    def _checked(self, chosen: PredictOptions) -> PredictOptions:
        if chosen.element is not None and self._trained.model.target_kind is None:
            raise ConfigError(
                f"'{self._trained.name}' answers for whole meshes; it says nothing about each {chosen.element}"
            )
        return chosen

    def _rooms(self, options: PredictOptions) -> tuple[Room, ...]:
        if options.memory is not None:
            return_freed_memory()
        return (Room(self._trained.model, self._trained.prepare, options.memory),)

    def _look(
        self, given: MeshLike, options: PredictOptions, rooms: tuple[Room, ...], n_threads: int | None = None
    ) -> Sight:
        return self._see(load_mesh(given) if _is_file(given) else as_mesh(given), options, rooms, n_threads)

    def _see(self, mesh: Mesh, options: PredictOptions, rooms: tuple[Room, ...], n_threads: int | None) -> Sight:
        seen = see(
            mesh,
            self._trained.at(options.faces),
            turns=random_turns(options.tta - 1, self._trained.turn_axis, seed=options.seed),
            room=rooms[0],
            reads_order=self._trained.model.reads_order,
            n_threads=n_threads,
        )
        return (seen,)

    def _seen_ahead(
        self, meshes: Iterable[MeshLike], options: PredictOptions, on_error: OnError | None
    ) -> Iterator[tuple[MeshLike, Sight]]:
        """In order, prepared in threads that run ahead by about two passes, by less where meshes are large."""

        rooms = self._rooms(options)

        def attempt(given: MeshLike) -> Sight | Exception:
            try:
                return self._look(given, options, rooms, n_threads=1)
            except Exception as error:  # whatever it is, it is told with its mesh, and the others go on
                return error

        ahead = n_threads = thread_count()
        largest = 1
        waiting: deque[tuple[MeshLike, Future[Sight | Exception]]] = deque()
        source = iter(meshes)
        with ThreadPoolExecutor(n_threads, thread_name_prefix="prepare") as pool:
            try:
                while True:
                    for given in islice(source, max(0, ahead + 1 - len(waiting))):
                        waiting.append((given, pool.submit(attempt, given)))
                    if not waiting:
                        return
                    given, future = waiting.popleft()
                    sight = future.result()
                    if not isinstance(sight, Exception):
                        largest = max(largest, _n_faces(sight))
                        ahead = max(n_threads, min(_MOST_AHEAD, 2 * options.batch_faces // largest))
                        yield given, sight
                    elif on_error is None:
                        raise sight
                    else:
                        on_error(given, sight)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _answered(
        self,
        group: Sights,
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

    def _results(self, meshes: Sights, options: PredictOptions, report: Report | None) -> list[Result]:
        return [self._finished(result, options) for result in self._plain_results(meshes, options, report)]

    def _finished(self, result: Result, options: PredictOptions) -> Result:
        """With neighbors listened to, on the element that was asked for."""
        kind = self._trained.model.target_kind
        if options.smooth > 0 and result.task == "segmentation" and kind is not None:
            outputs = smoothed(result.outputs, result.mesh, kind=kind, strength=options.smooth)
            result = replace(result, outputs=outputs)
        result = replace(result, outputs=result.outputs.astype(np.float32, copy=False))
        return result if options.element is None else result.on(options.element)

    def _plain_results(self, meshes: Sights, options: PredictOptions, report: Report | None) -> list[Result]:
        """What the model says, on the element that it was trained on."""
        trained, model = self._trained, self._trained.model
        seen = [(given, sight[0]) for given, sight in meshes]
        found = answers(
            self._network, seen, batch_faces=options.batch_faces, temperature=trained.temperature, report=report
        )
        results = []
        for answer in found:
            familiarity, warnings = self._familiar(answer)
            result = Result(
                mesh=answer.seen.mesh,
                task=model.task,
                element=model.element,
                outputs=cast(Any, answer.output),  # rounded once, at the end
                names=trained.classes,
                colors=trained.colors or class_colors(len(trained.classes)),
                warnings=warnings,
                path=place(answer.owner) if _is_file(answer.owner) else None,
                working_faces=answer.seen.working_mesh.n_faces,
                familiarity=familiarity,
                up_axis=options.up,
                heights=trained.heights,
            )
            results.append(result)
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
