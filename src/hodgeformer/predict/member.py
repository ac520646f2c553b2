"""One model of an ensemble, most often the only one: its settings and its network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard, cast

import numpy as np

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import place
from hodgeformer.base.palette import class_colors
from hodgeformer.mesh.io import MeshLike
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.pose import UP_AXES, random_turns, up_axis, upright
from hodgeformer.predict.inference import Answered, Network, Report, Views, answers, make_views, tempered
from hodgeformer.predict.model_info import ModelInfo, impression
from hodgeformer.predict.options import FaceBudget, PredictOptions
from hodgeformer.predict.pretrained import EXPORTED
from hodgeformer.predict.result import Result

if TYPE_CHECKING:  # exported models run without torch
    from hodgeformer.predict.checkpoint import Checkpoint


def is_file(given: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(given, str | os.PathLike) or hasattr(given, "read_bytes")  # remote paths are not PathLike


@dataclass(frozen=True, eq=False)
class Member:
    """The settings of a model, and its network: `Forward` in PyTorch, or an `OnnxNetwork`."""

    info: ModelInfo
    network: Network

    @classmethod
    def load(cls, path: Path, device: str = "auto") -> Self:
        """Load a checkpoint, or a file that `hodgeformer export` wrote."""
        if path.suffix != EXPORTED:
            from hodgeformer.predict.checkpoint import load_checkpoint

            return cls.in_torch(load_checkpoint(path), device)
        from hodgeformer.predict.exported import load_exported

        if device not in ("auto", "cpu"):
            raise ConfigError(f"device '{device}' is not supported: exported models run on the CPU")
        return cls(*load_exported(path))

    @classmethod
    def in_torch(cls, checkpoint: Checkpoint, device: str = "auto") -> Self:
        from hodgeformer.nn.model import find_device
        from hodgeformer.predict.checkpoint import Forward

        return cls(checkpoint, Forward(checkpoint.build_model().to(find_device(device))))

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The settings with the weights; None for an exported model."""
        return None if type(self.info) is ModelInfo else cast("Checkpoint", self.info)

    @property
    def question(self) -> str:
        """What the model predicts, in words; equal for models that can form an ensemble."""
        model = self.info.model
        return f"{model.task} per {model.element} of {', '.join(self.info.classes) or f'{model.n_classes} values'}"

    @property
    def title(self) -> str:
        return f"'{self.info.name}'" if self.info.path is None else str(self.info.path)

    def budget(self, options: PredictOptions) -> FaceBudget:
        return FaceBudget(self.info.model, self.info.prepare, options.memory)

    def views(self, mesh: Mesh, options: PredictOptions, budget: FaceBudget, n_threads: int | None = None) -> Views:
        """The mesh as this model reads it."""
        config = self.info.at(options.faces)
        if config.most_faces is not None and mesh.n_faces > config.most_faces:
            budget.check_simplifying(mesh)
        return make_views(
            mesh,
            config,
            turns=random_turns(options.tta - 1, self.info.turn_axis, seed=options.seed),
            upright=self._upright(options),
            room=budget,
            model=self.info.model,
            n_threads=n_threads,
        )

    def _upright(self, options: PredictOptions) -> FloatArray | None:
        """The rotation of a file in which another axis points up than in the training files."""
        wanted = up_axis(self.info.prepare.pose)
        if wanted is None or options.up == "auto":
            return None
        return upright(np.array(UP_AXES[options.up], dtype=np.float64), wanted)

    def results(
        self, meshes: Iterable[tuple[MeshLike, Views]], options: PredictOptions, report: Report
    ) -> list[Result]:
        """The answers of the model, on the element that it was trained on."""
        info, model = self.info, self.info.model
        found = answers(
            self.network,
            meshes,
            batch_faces=options.batch_faces,
            temperature=info.temperature,
            smooth=options.strength(info),
            report=report,
        )
        results = []
        for answer in found:
            mesh = answer.views.mesh
            if not np.isfinite(answer.output).all():
                raise CheckpointError(f"{self.title}: the answer for '{mesh.name}' is not finite; train it again")
            familiarity, warnings = self._familiarity(answer, options)
            result = Result(
                mesh=mesh,
                task=model.task,
                element=model.element,
                outputs=cast(Any, answer.output),  # rounded to float32 at the end
                names=info.classes,
                colors=info.colors or class_colors(len(info.classes)),
                warnings=warnings,
                path=place(answer.owner) if is_file(answer.owner) else None,
                working_faces=answer.views.working_mesh.n_faces,
                familiarity=familiarity,
                up_axis=options.up,
                heights=info.heights,
            )
            results.append(result)
        return results

    def _familiarity(self, answer: Answered[Any], options: PredictOptions) -> tuple[float | None, tuple[str, ...]]:
        """How familiar a mesh is, if the model was calibrated, and how it differs, one sentence each."""
        known, statistics = self.info.familiarity, self.info.statistics
        working = answer.views.working_mesh
        unlike = () if statistics is None else statistics.unlike(working)
        if known is None:
            return None, unlike
        # Familiarity was fitted to answers of the model's own smoothness, so an option must not change it.
        usual = answer.output
        if options.strength(self.info) != self.info.smooth:
            usual = tempered(answer.smoothed(self.info.smooth), self.info.temperature)
        is_sure = self.info.model.task != "regression"
        score, reasons = known.judge(impression(working, answer.features, usual if is_sure else None))
        return score, unlike + reasons


def together(results: tuple[Result, ...]) -> Result:
    """The mean of the answers of all members for a mesh."""
    if len(results) == 1:
        return results[0]
    known = [result.familiarity for result in results if result.familiarity is not None]
    return replace(
        results[0],
        outputs=cast(Any, sum(result.outputs for result in results) / len(results)),
        familiarity=float(np.mean(known)) if known else None,
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
    )
