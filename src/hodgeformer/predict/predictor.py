"""Load a model once, or several that answer together; mesh in, labels and probabilities out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

import numpy as np

from hodgeformer.base.containers import Element
from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import write_atomically
from hodgeformer.mesh.io import MeshLike, as_mesh
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import Faces, PrepareConfig
from hodgeformer.predict.inference import Room, answers, see
from hodgeformer.predict.mesh_predictor import MeshPredictor, PredictOptions, Report, Sight, Sights
from hodgeformer.predict.pretrained import PRETRAINED, locate_models, model_card
from hodgeformer.predict.result import Result

if TYPE_CHECKING:  # exported models are predicted with without torch
    from hodgeformer.nn.model import HodgeFormer
    from hodgeformer.predict.checkpoint import Checkpoint


__all__ = [
    "Ensemble",
    "MeshPredictor",
    "ModelLike",
    "Models",
    "PredictOptions",
    "Predictor",
    "Report",
    "load_checkpoints",
]

ModelLike = Union[str, os.PathLike[str], "Checkpoint", "Predictor"]
"""A name, a run folder or a checkpoint file; or one that is loaded already."""
Models = ModelLike | list[ModelLike] | tuple[ModelLike, ...]
"""One of them, or several that answer together."""


class Predictor(MeshPredictor):
    """A trained model, run by PyTorch, and everything around it."""

    def __init__(self, checkpoint: Checkpoint, device: str = "auto") -> None:
        from hodgeformer.nn.device import find_device
        from hodgeformer.predict.forward import Forward

        self.checkpoint, self.device = checkpoint, find_device(device)
        self.model: HodgeFormer = checkpoint.build_model().to(self.device)
        super().__init__(checkpoint, Forward(self.model))

    @classmethod
    def load(cls, model: Models, device: str = "auto") -> Predictor:
        """A bundled name, a run folder, a folder of `save_pretrained`, a checkpoint file, or a hub id OWNER/NAME.

        Several, as a list, as "a,b", as a pattern or as the folder of a cross-validation, answer together: the mean of
        their probabilities. They must know the same classes.
        """
        members = [cls(checkpoint, device) for checkpoint in load_checkpoints(model)]
        return members[0] if len(members) == 1 else Ensemble(members)

    @classmethod
    def from_pretrained(cls, model: Models, device: str = "auto") -> Predictor:
        """`load` by the name that other libraries have for it."""
        return cls.load(model, device)

    @classmethod
    def from_model(
        cls,
        model: HodgeFormer,
        *,
        prepare: PrepareConfig | None = None,
        classes: Sequence[str] = (),
        name: str = "model",
    ) -> Predictor:
        """A model that was trained in a loop of one's own, on meshes prepared like this."""
        from hodgeformer.predict.checkpoint import Checkpoint

        n = 0 if model.config.task == "regression" else model.config.n_classes
        return cls(
            Checkpoint(
                model=model.config,
                prepare=prepare or PrepareConfig(),
                weights={key: value.detach().cpu() for key, value in model.state_dict().items()},
                name=name,
                classes=tuple(classes) or tuple(str(number) for number in range(n)),
            )
        )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model and a card that says what it is into a folder, as a model hub wants it."""
        from hodgeformer.predict.checkpoint import save_checkpoint

        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{folder}: cannot be made ({error.strerror})") from None
        save_checkpoint(folder / PRETRAINED, self.checkpoint)
        write_atomically(folder / "README.md", model_card(self.checkpoint).encode())
        return folder

    def features(
        self, mesh: MeshLike, element: Element = "vertex", *, faces: Faces = "auto", memory: int | None = None
    ) -> FloatArray:
        """(n, d) what the encoder makes of each vertex, edge or face of the file, or of the whole mesh (one row).

        Columns are the features of all kinds that the model updates, side by side, as its last layer reads them. They
        come the way that answers do: the mean over all views, carried back from the size that the model works on.
        """
        from hodgeformer.predict.forward import FeatureForward

        network = FeatureForward(self.model, element=element)
        room = Room(network.config, self.checkpoint.prepare, memory)
        given = as_mesh(mesh)
        seen = see(given, self.checkpoint.at(faces), room=room, reads_order=network.config.reads_order)
        answer = next(answers(network, [(given, seen)], batch_faces=PredictOptions().batch_faces))
        return answer.output.astype(np.float32, copy=False)


class Ensemble(Predictor):
    """Several models that answer one question: the mean of what they say, and every warning that one of them has.

    `checkpoint` and `model` are those of the first.
    """

    def __init__(self, members: Sequence[Predictor]) -> None:
        self.members = tuple(members)
        first = self.members[0]
        MeshPredictor.__init__(self, first._trained, first._network)
        self.checkpoint, self.model, self.device = first.checkpoint, first.model, first.device

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        raise ConfigError(f"{folder}: {len(self.members)} models are no single one; save each by itself")

    def features(self, mesh: MeshLike, element: Element = "vertex", **options: Any) -> FloatArray:
        raise ConfigError(f"features of {len(self.members)} models cannot be compared; take those of one of them")

    def _rooms(self, options: PredictOptions) -> tuple[Room, ...]:
        return tuple(room for member in self.members for room in member._rooms(options))

    def _see(self, mesh: Mesh, options: PredictOptions, rooms: tuple[Room, ...], n_threads: int | None) -> Sight:
        looks = zip(self.members, rooms, strict=True)
        return tuple(seen for member, room in looks for seen in member._see(mesh, options, (room,), n_threads))

    def _plain_results(self, meshes: Sights, options: PredictOptions, report: Report | None) -> list[Result]:
        each = []
        for number, member in enumerate(self.members):
            told = None if report is None else partial(_told, report, number, len(self.members))
            mine: Sights = [(given, (sight[number],)) for given, sight in meshes]
            each.append(member._plain_results(mine, options, told))
        return [_together(results) for results in zip(*each, strict=True)]


def _told(report: Report, done: int, n: int, share: float) -> None:
    report((done + share) / n)


def _together(results: tuple[Result, ...]) -> Result:
    """The mean of the answers of several models for a mesh."""
    known = [result.familiarity for result in results if result.familiarity is not None]
    return replace(
        results[0],
        outputs=cast(Any, sum(result.outputs for result in results) / len(results)),
        familiarity=float(np.mean(known)) if known else None,
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
    )


def load_checkpoints(model: Models) -> list[Checkpoint]:
    """The checkpoints of one or several models that answer the same question."""
    from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint

    found: list[Checkpoint] = []
    for one in model if isinstance(model, list | tuple) else [model]:
        if isinstance(one, Predictor):
            found += [member.checkpoint for member in getattr(one, "members", (one,))]
        elif isinstance(one, Checkpoint):
            found.append(one)
        else:
            found += [load_checkpoint(path) for path in locate_models(one)]
    if not found:
        raise CheckpointError("no model was named")
    first = found[0]
    for other in found[1:]:
        if _question(other) != _question(first):
            raise CheckpointError(
                f"{_named(first)} and {_named(other)} cannot answer together: {' '.join(_question(first))} against "
                f"{' '.join(_question(other))}"
            )
    return found


def _question(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What a model answers, in words."""
    model = checkpoint.model
    answer = f"of {', '.join(checkpoint.classes)}" if checkpoint.classes else f"of {model.n_classes} values"
    return model.task, "per", model.element, answer


def _named(checkpoint: Checkpoint) -> str:
    return f"'{checkpoint.name}'" if checkpoint.path is None else str(checkpoint.path)
