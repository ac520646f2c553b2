"""What can be asked of a prediction."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from hodgeformer.settings import Settings

OutElement = Literal["face", "vertex", "edge"]
DEFAULT_SMOOTH = 0.8


class PredictOptions(Settings):
    """How a mesh is predicted.

    `max_faces`: larger meshes are simplified to about so many faces, predicted and projected back. `smooth`: how much
    an element listens to its neighbors, in [0, 1); True is 0.8. `tta`: mean over so many rotations, the first of which
    is none. `element`: what the answer of a segmentation is asked for, by default what the model was trained on.
    `batch_faces`: meshes of together at most so many faces go through the model at once. `seed` draws the rotations.
    """

    max_faces: int | None = Field(default=None, ge=4)
    smooth: float = Field(default=0.0, ge=0.0, lt=1.0)
    tta: int = Field(default=1, ge=1, le=1000)
    element: OutElement | None = None
    batch_faces: int = Field(default=40_000, ge=1)
    seed: int = Field(default=0, ge=0)

    @field_validator("smooth", mode="before")
    @classmethod
    def _flag(cls, value: object) -> object:
        return DEFAULT_SMOOTH * value if isinstance(value, bool) else value
