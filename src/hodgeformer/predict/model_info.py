"""Everything that a prediction needs besides the network itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from hodgeformer.base.settings import Settings
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import Faces, PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.familiarity import DataStatistics, Familiarity

Byte = Annotated[int, Field(ge=0, le=255)]
Height = Annotated[float, Field(ge=-1000.0, le=1000.0)]  # in radii of a mesh


class ModelInfo(Settings):
    """Everything a checkpoint stores besides the weights."""

    prepare: PrepareConfig = Field(description="How meshes become input, including the seed of random connections.")
    model: ModelConfig = Field(description="The shape of the network, its task and element.")
    name: str = Field(default="model", max_length=200, description="The name of the model.")
    classes: tuple[str, ...] = Field(default=(), description="The names of the classes.")
    colors: tuple[tuple[Byte, Byte, Byte], ...] = Field(default=(), description="One color per class.")
    metrics: dict[str, float] = Field(
        default_factory=dict, description="Scores by name; names include the element and the weighting."
    )
    statistics: DataStatistics | None = Field(default=None, description="Statistics of the training meshes.")
    temperature: float = Field(
        default=1.0,
        ge=0.01,
        le=100.0,
        description="Outputs are divided by it before they become probabilities; fitted to meshes not trained on.",
    )
    familiarity: Familiarity | None = Field(
        default=None, description="What meshes the model is made for; fitted to meshes not trained on."
    )
    heights: tuple[Height, ...] = Field(
        default=(),
        description="The usual height of each class above the center of a mesh, in radii; used to guess which axis "
        "points up.",
    )
    training: dict[str, Any] = Field(default_factory=dict, description="The resolved configuration of the run.")
    versions: dict[str, str] = Field(default_factory=dict, description="Versions of the software that wrote the file.")
    path: Path | None = Field(default=None, exclude=True, description="The file that the model was loaded from.")

    @field_validator("model", mode="before")
    @classmethod
    def _stars_of_old_files(cls, model: Any) -> Any:
        """Files from before D blocks learned their stars have the cotangent ones."""
        return {"star_bound": 0.0, **model} if isinstance(model, dict) else model

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        n = 0 if self.model.task == "regression" else self.model.n_classes
        for name in ("classes", "colors", "heights"):
            if (found := len(getattr(self, name))) not in (0, n):
                raise ValueError(f"{found} {name} for a {self.model.task} model with {n} classes")
        width = self.model.d_model * len(self.model.updated)
        if self.familiarity and not len(self.familiarity.center) == len(self.familiarity.spread) == width:
            raise ValueError(f"familiarity has {len(self.familiarity.center)} features, the model has {width}")
        return self

    @property
    def turn_axis(self) -> FloatArray | None:
        """The axis about which training rotated meshes; None for any rotation."""
        augment = self.training.get("augment")
        if not isinstance(augment, dict) or augment.get("rotation") != "axis":
            return None
        axis: FloatArray = np.eye(3)[{"x": 0, "z": 2}.get(str(augment.get("axis")), 1)]
        return axis

    def at(self, faces: Faces | str = "auto") -> PrepareConfig:
        """The preparation of meshes at a resolution.

        "auto" is that of training: at most as many faces as the largest training mesh, and at least about half as many
        as the smallest.
        """
        if faces != "auto":
            return self.prepare.replace(faces=faces)
        if self.statistics is None:
            return self.prepare
        low, _, high = self.statistics.n["f"]
        # Older checkpoints have no resolution, but the sizes of their training meshes.
        most = self.prepare.most_faces or max(4, round(high))
        return self.prepare.replace(faces=most, least_faces=min(most, int(low)))
