"""One model of an ensemble, most often the only one: from a mesh to its answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import place
from hodgeformer.base.palette import class_colors
from hodgeformer.mesh.io import MeshLike
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.pose import random_turns
from hodgeformer.predict.inference import Network, Report, Views, answers, is_file, make_views, tempered
from hodgeformer.predict.model_info import ModelInfo
from hodgeformer.predict.options import FaceBudget, PredictOptions
from hodgeformer.predict.pretrained import EXPORTED
from hodgeformer.predict.result import Result

if TYPE_CHECKING:  # exported models run without torch
    from hodgeformer.predict.checkpoint import Checkpoint


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

    def views(self, mesh: Mesh, options: PredictOptions, budget: FaceBudget, n_threads: int | None = None) -> Views:
        """The mesh as this model reads it."""
        return make_views(
            mesh,
            self.info.at(options.faces),
            model=self.info.model,
            turns=random_turns(options.tta - 1, self.info.turn_axis, seed=options.seed),
            upright=self.info.upright(options.up),
            budget=budget,
            n_threads=n_threads,
        )

    def results(
        self, meshes: Iterable[tuple[MeshLike, Views]], options: PredictOptions, report: Report
    ) -> list[Result]:
        """The answers of the model, on the element that it was trained on."""
        info, results = self.info, []
        smooth, batch_faces = options.strength(info), options.batch_faces
        fitted = {"temperature": info.temperature, "smooth": smooth}
        for answer in answers(self.network, meshes, batch_faces=batch_faces, report=report, **fitted):
            mesh, working = answer.views.mesh, answer.views.working_mesh
            if not np.isfinite(answer.output).all():
                raise CheckpointError(f"{info.title}: the answer for '{mesh.name}' is not finite; train it again")
            # Familiarity was fitted to answers of the model's own smoothness, so an option must not change it.
            usual = answer.output
            if smooth != info.smooth and info.familiarity is not None:
                usual = tempered(answer.smoothed(info.smooth), info.temperature)
            familiarity, warnings = info.compare(working, answer.features, usual)
            result = Result(
                mesh=mesh,
                task=info.model.task,
                element=info.model.element,
                outputs=cast(Any, answer.output),  # rounded to float32 at the end
                names=info.classes,
                colors=info.colors or class_colors(len(info.classes)),
                warnings=warnings,
                path=place(answer.owner) if is_file(answer.owner) else None,
                working_faces=working.n_faces,
                familiarity=familiarity,
                up_axis=options.up,
                heights=info.heights,
            )
            results.append(result)
        return results
