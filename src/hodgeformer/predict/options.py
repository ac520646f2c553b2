"""The options of a prediction."""

from __future__ import annotations

from typing import TypedDict

from pydantic import Field, field_validator

from hodgeformer.base.containers import PartElement
from hodgeformer.base.settings import Settings
from hodgeformer.mesh.pose import UpName
from hodgeformer.mesh.prepare import Faces

_DEFAULT_SMOOTH = 0.8


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
        "more are processed in overlapping patches, which changes the answer slightly; those that cannot be read or "
        "simplified within it are refused.",
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
