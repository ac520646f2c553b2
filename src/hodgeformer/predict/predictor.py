"""A model or an ensemble, ready to predict: mesh in, labels and probabilities out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, Unpack, cast

import numpy as np

from hodgeformer.base.containers import Element
from hodgeformer.base.errors import CheckpointError, ConfigError, MeshError
from hodgeformer.base.machine import return_freed_memory, worked_ahead
from hodgeformer.base.settings import Faces
from hodgeformer.mesh.io import MeshLike, as_mesh
from hodgeformer.mesh.mesh import ColumnLike, FloatArray
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.predict.inference import Report, Views, answers, is_file, loaded, make_views
from hodgeformer.predict.member import Member
from hodgeformer.predict.model_info import ModelInfo
from hodgeformer.predict.options import FaceBudget, PredictKeywords, PredictOptions
from hodgeformer.predict.pretrained import PRETRAINED, locate_models
from hodgeformer.predict.result import Result

if TYPE_CHECKING:  # exported models run without torch
    from hodgeformer.nn.model import HodgeFormer
    from hodgeformer.predict.checkpoint import Checkpoint, Forward

ModelLike = Union[str, os.PathLike[str], "Checkpoint", "Predictor"]
"""A name or path of one or several models, or a loaded model."""
Models = ModelLike | list[ModelLike] | tuple[ModelLike, ...]
OnError = Callable[[MeshLike, Exception], None]
_Prepared = tuple[MeshLike, tuple[Views, ...]]  # a mesh, with its views for every member


class Predictor:
    """A trained model and everything around it: preparation as in training, batches, averaging, transfer back.

    The same mesh gets the same answer, alone or in a batch, in any numbering and any format. Several models, its
    `members`, form an ensemble: the mean of their answers, with all of their warnings.
    """

    def __init__(self, *models: Checkpoint | Member, device: str = "auto") -> None:
        if not models:
            raise CheckpointError("no model was given")
        self.members = tuple(each if isinstance(each, Member) else Member.in_torch(each, device) for each in models)
        for other in (member.info for member in self.members):
            if other.question != self.info.question:
                raise CheckpointError(
                    f"{self.info.title} and {other.title} cannot form an ensemble: {self.info.question} and "
                    f"{other.question}"
                )

    @classmethod
    def load(cls, model: Models, device: str = "auto") -> Predictor:
        """Load a bundled name, a run folder, a folder of `save_pretrained`, a checkpoint, an exported file or a hub id.

        Several models (a list, "a,b", a pattern, or the folder of a cross-validation) form an ensemble: the mean of
        their probabilities. They must have the same classes. Exported models do not need torch.
        """
        if isinstance(model, Predictor) and device == "auto":
            return model
        models: list[Checkpoint | Member] = []
        for one in model if isinstance(model, list | tuple) else [model]:
            if isinstance(one, Predictor):
                models += [each.checkpoint or each for each in one.members]
            elif isinstance(one, ModelInfo):
                models.append(cast(Any, one))
            else:
                models += [Member.load(path, device) for path in locate_models(one)]
        return cls(*models, device=device)

    from_pretrained = load  # the name that other libraries use

    @classmethod
    def from_model(
        cls,
        model: HodgeFormer,
        *,
        prepare: PrepareConfig | None = None,
        classes: Sequence[str] = (),
        name: str = "model",
    ) -> Predictor:
        """Wrap a model that you trained yourself, on meshes prepared with these settings."""
        from hodgeformer.predict.checkpoint import Checkpoint

        n = 0 if model.config.task == "regression" else model.config.n_classes
        names = tuple(classes) or tuple(map(str, range(n)))
        weights = {key: value.detach().cpu() for key, value in model.state_dict().items()}
        prepare = prepare or PrepareConfig()
        return cls(Checkpoint(model=model.config, prepare=prepare, weights=weights, name=name, classes=names))

    @property
    def info(self) -> ModelInfo:
        """Every setting of the model, without its weights; for an ensemble, those of the first model."""
        return self.members[0].info

    @property
    def names(self) -> tuple[str, ...]:
        return self.info.classes

    @property
    def checkpoint(self) -> Checkpoint:
        """The settings and weights of a single model in PyTorch."""
        if len(self.members) > 1:
            raise ConfigError(f"this needs a single model, not an ensemble of {len(self.members)}; name one of them")
        if (found := self.members[0].checkpoint) is None:
            raise ConfigError("this needs a model in PyTorch; use the checkpoint that the model was exported from")
        return found

    @property
    def model(self) -> HodgeFormer:
        """The network of a single model in PyTorch."""
        _ = self.checkpoint
        return cast("Forward", self.members[0].network).model

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model into a folder, which every command accepts, and which can be uploaded to a model hub."""
        from hodgeformer.predict.checkpoint import save_checkpoint

        checkpoint, folder = self.checkpoint, Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{folder}: cannot be created ({error.strerror})") from None
        save_checkpoint(folder / PRETRAINED, checkpoint)
        return folder

    def features(
        self, mesh: MeshLike, element: Element = "vertex", *, faces: Faces = "auto", memory: int | None = None
    ) -> FloatArray:
        """(n, d) encoder features of each vertex, edge or face of the file, or of the whole mesh (one row).

        Columns are the features of all kinds that the model updates, side by side, as its last layer reads them. Like
        answers, they are means over all views, transferred back from the working resolution.
        """
        model = self.model
        from hodgeformer.predict.checkpoint import FeatureForward

        network = FeatureForward(model, element=element)
        budget = FaceBudget(network.config, self.info.prepare, memory)
        views = make_views(as_mesh(mesh), self.info.at(faces), budget=budget, model=network.config)
        answer = next(answers(network, [(mesh, views)], batch_faces=PredictOptions().batch_faces))
        return answer.output.astype(np.float32, copy=False)

    def predict(
        self,
        mesh: MeshLike,
        *,
        features: Mapping[str, ColumnLike] | None = None,
        report: Report | None = None,
        **options: Unpack[PredictKeywords],
    ) -> Result:
        """Predict one mesh or file.

        The options, which `PredictOptions` describes, are faces (the working resolution: "auto", a number or
        "original"), smooth (True, False or a strength), tta (the number of rotations), element, up, memory, batch_faces
        and seed. `features` are columns that the model reads, by name, if the mesh does not have them: one number, or
        several, per vertex, edge or face. `report` is called with the share of the work that is done.
        """
        chosen = PredictOptions.parse(options)
        mesh = as_mesh(mesh).with_columns(features) if features else mesh
        return self._results([(mesh, self._preparation(chosen)(mesh))], chosen, report)[0]

    def predict_many(
        self,
        meshes: Iterable[MeshLike],
        *,
        on_error: OnError | None = None,
        report: Report | None = None,
        **options: Unpack[PredictKeywords],
    ) -> Iterator[Result]:
        """Predict meshes in their order, lazily; small meshes share a pass through the model.

        Meshes are read and prepared in other threads meanwhile. A mesh that cannot be used raises its error, or is
        passed to `on_error` and skipped. `report` is called with the share of the work on the current mesh.
        """
        chosen = PredictOptions.parse(options)
        prepare, most = self._preparation(chosen, n_threads=1), chosen.batch_faces
        groups = _groups(worked_ahead(prepare, meshes, size=_n_faces, most=2 * most), most, on_error)
        return (result for group in groups for result in self._answered(group, chosen, on_error, report))

    def _preparation(
        self, options: PredictOptions, n_threads: int | None = None
    ) -> Callable[[MeshLike], tuple[Views, ...]]:
        """What makes the views of a mesh for every member. All meshes share one limit of memory."""
        if options.element is not None and self.info.model.target_kind is None:
            raise ConfigError(f"'{self.info.name}' predicts whole meshes; it has no answer for each {options.element}")
        if options.memory is not None:
            return_freed_memory()
        budgets = [FaceBudget(each.info.model, each.info.prepare, options.memory) for each in self.members]

        def prepared(given: MeshLike) -> tuple[Views, ...]:
            mesh = loaded(given, budgets[0])
            pairs = zip(self.members, budgets, strict=True)
            try:
                return tuple(member.views(mesh, options, budget, n_threads) for member, budget in pairs)
            except MeshError as error:
                if not is_file(given):
                    raise
                raise type(error)(str(error).replace(f"{mesh.name}: ", f"{given}: ", 1)) from None

        return prepared

    def _answered(
        self, group: list[_Prepared], options: PredictOptions, on_error: OnError | None, report: Report | None
    ) -> Iterator[Result]:
        """The answers for meshes that share passes; if one of them fails, each is tried alone."""
        try:
            return iter(self._results(group, options, report))
        except Exception as error:
            if on_error is None:
                raise
            if len(group) > 1:
                return (result for one in group for result in self._answered([one], options, on_error, report))
            on_error(group[0][0], error)
            return iter(())

    def _results(self, meshes: list[_Prepared], options: PredictOptions, report: Report | None) -> list[Result]:
        def results(number: int, member: Member) -> list[Result]:
            def report_part(share: float) -> None:
                if report is not None:
                    report((number + share) / len(self.members))

            return member.results([(given, views[number]) for given, views in meshes], options, report_part)

        each = [results(number, member) for number, member in enumerate(self.members)]
        means = (_together(found) for found in zip(*each, strict=True))
        return [mean if options.element is None else mean.on(options.element) for mean in means]


def _n_faces(views: tuple[Views, ...]) -> int:
    """Faces of all views that are in memory."""
    return sum(each.n_faces for each in views)


def _groups(
    meshes: Iterable[tuple[MeshLike, Future[tuple[Views, ...]]]], batch_faces: int, on_error: OnError | None
) -> Iterator[list[_Prepared]]:
    """Group consecutive meshes up to a total number of faces; larger ones are alone."""
    group: list[_Prepared] = []
    for given, outcome in meshes:
        if error := outcome.exception():
            if on_error is None or not isinstance(error, Exception):
                raise error
            on_error(given, error)
            continue
        views = outcome.result()
        if group and sum(_n_faces(other) for _, other in group) + _n_faces(views) > batch_faces:
            yield group
            group = []
        group.append((given, views))
    if group:
        yield group


def _together(results: tuple[Result, ...]) -> Result:
    """The mean of the answers of all members for a mesh."""
    known = [result.familiarity for result in results if result.familiarity is not None]
    outputs: Any = sum(result.outputs for result in results) / len(results)
    return replace(
        results[0],
        outputs=outputs.astype(np.float32, copy=False),
        familiarity=float(np.mean(known)) if known else None,
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
    )
