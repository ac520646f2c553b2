"""What is known of a trained model beside its weights: all that a prediction needs around the network itself."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from hodgeformer.base.settings import Settings
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import Faces, PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.familiarity import DataStatistics, Familiarity

Byte = Annotated[int, Field(ge=0, le=255)]
Height = Annotated[float, Field(ge=-1000.0, le=1000.0)]  # in radii of a mesh


class Trained(Settings):
    """Every setting of a trained model. Task and element are those of `model`.

    `prepare` includes pose and the seed of the random connections. `metrics` are named with element and weighting.
    `temperature` makes probabilities mean what they say, `familiarity` knows what meshes the model is for, `heights`
    tell where its classes usually lie over the center of a mesh: all fitted to meshes it has not learned from.
    `training` is the resolved configuration of the run, `versions` the software that wrote the file.
    """

    prepare: PrepareConfig
    model: ModelConfig
    name: str = Field(default="model", max_length=200)
    classes: tuple[str, ...] = ()
    colors: tuple[tuple[Byte, Byte, Byte], ...] = ()
    metrics: dict[str, float] = Field(default_factory=dict)
    statistics: DataStatistics | None = None
    temperature: float = Field(default=1.0, ge=0.01, le=100.0)
    familiarity: Familiarity | None = None
    heights: tuple[Height, ...] = ()
    training: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        n = 0 if self.model.task == "regression" else self.model.n_classes
        for name in ("classes", "colors", "heights"):
            if (found := len(getattr(self, name))) not in (0, n):
                raise ValueError(f"{found} {name} for a {self.model.task} of {n} classes")
        width = self.model.d_model * len(self.model.updated)
        if self.familiarity and not len(self.familiarity.center) == len(self.familiarity.spread) == width:
            raise ValueError(f"familiarity of {len(self.familiarity.center)} features for a model that has {width}")
        return self

    @property
    def turn_axis(self) -> FloatArray | None:
        """The axis that training turned meshes about; None for any rotation."""
        augment = self.training.get("augment")
        if not isinstance(augment, dict) or augment.get("rotation") != "axis":
            return None
        axis: FloatArray = np.eye(3)[{"x": 0, "z": 2}.get(str(augment.get("axis")), 1)]
        return axis

    def at(self, faces: Faces | str = "auto") -> PrepareConfig:
        """How meshes are prepared at a resolution.

        "auto" is that of training: no more faces than the largest mesh had, and, by half, no fewer than the smallest.
        """
        if faces != "auto":
            return self.prepare.replace(faces=faces)
        if self.statistics is None:
            return self.prepare
        low, _, high = self.statistics.n["f"]
        # Runs from before there was a resolution know how large their meshes were.
        most = self.prepare.most_faces or max(4, round(high))
        return self.prepare.replace(faces=most, least_faces=min(most, int(low)))
