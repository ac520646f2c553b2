"""The options of a prediction, and how many faces one pass may have within the memory that they allow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from pydantic import Field, field_validator

from hodgeformer.base.containers import PartElement, PerElement
from hodgeformer.base.errors import MeshError
from hodgeformer.base.machine import GIGABYTE, free_memory, used_memory
from hodgeformer.base.settings import Faces, Settings, UpName

if TYPE_CHECKING:  # the command line reads the options, and must start fast
    from hodgeformer.mesh.mesh import Mesh
    from hodgeformer.mesh.prepare import PrepareConfig
    from hodgeformer.nn.config import ModelConfig
    from hodgeformer.predict.model_info import ModelInfo

UNLIMITED = 10**9
_SHARE = 0.9  # of the free memory that a prediction may use
_SMALL = 20_000  # faces; smaller meshes need no estimate
_WHOLE_BYTES = 1100  # per face of a view and its answer, besides features and classes
_READING = {".stl": 12}  # times the size of a file while it is read; other formats need less than 6
_SIMPLIFYING = 450  # bytes per face
FILL = 4
"""Entries of an eliminated surface in n log2 n: 1.5 to 3.5 on bodies and spheres of 640 to 200,000 vertices."""
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
        description="The memory limit of the process, in bytes or as a size such as 4GB; by default most of the free "
        "memory. Meshes that need more are refused before any work on them.",
    )
    smooth: float | None = Field(
        default=None,
        ge=0.0,
        lt=1.0,
        description="Smooth the boundaries of parts: how strongly the answer for an element follows its neighbors, "
        "from 0 (no) to below 1; yes is 0.8. By default as strongly as was best for meshes that the model was not "
        "trained on.",
    )
    tta: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Average over this many rotations of the mesh in total, including the original; 1 adds none.",
    )
    element: PartElement | None = Field(
        default=None,
        description="Give labels for these elements; by default those the model was trained on.",
    )
    up: UpName = Field(
        default="auto",
        description="The axis of the file that points up. auto guesses it for pictures, and for models of upright "
        "meshes assumes the axis of the training meshes.",
    )
    batch_faces: int = Field(
        default=40_000, ge=1, description="Meshes with up to this many faces in total go through the model at once."
    )
    seed: int = Field(default=0, ge=0, description="The seed for the rotations of tta.")

    @field_validator("smooth", mode="before")
    @classmethod
    def _flag(cls, value: object) -> object:
        return _DEFAULT_SMOOTH * value if isinstance(value, bool) else value

    @field_validator("memory", mode="before")
    @classmethod
    def _bytes(cls, value: object) -> object:
        """4GB, 500 MB or 2.5g as a number of bytes."""
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"(\d+\.?\d*) *([kmgt]?)i?b?", value.strip().lower())
        if found is None:
            raise ValueError("must be a size such as 4GB or 800MB")
        return int(float(found[1]) * 1024 ** (1 + "kmgt".find(found[2] or " ")))

    def strength(self, info: ModelInfo) -> float:
        """How strongly the answers of a model are smoothed."""
        return info.smooth if self.smooth is None else self.smooth


class PredictKeywords(TypedDict, total=False):
    """The settings of `PredictOptions`, for editors and type checkers."""

    faces: Faces
    memory: int | str | None
    smooth: float | bool | None
    tta: int
    element: PartElement | None
    up: UpName
    batch_faces: int
    seed: int


@dataclass(frozen=True)
class FaceBudget:
    """The number of faces that one pass may have, for the process to stay within `memory` bytes.

    By default it may use most of the free memory.
    """

    model: ModelConfig
    config: PrepareConfig
    memory: int | None = None

    def __call__(self, mesh: Mesh, n_views: int = 1) -> int:
        """Refuses a mesh whose views need too much, even if each goes through the model alone."""
        if self.memory is None and n_views * mesh.n_faces <= _SMALL:
            return UNLIMITED
        from hodgeformer.nn.memory import bytes_per_face

        each = bytes_per_face(self.model, self.config)
        view = mesh.n_faces * (_WHOLE_BYTES + 4 * sum(self.config.widths) + 16 * self.model.n_classes)
        one_pass = each * mesh.n_faces if self.model.patterned else self._lean(mesh)
        self._check(n_views * view + one_pass, f"{mesh.name}: a prediction on {mesh.n_faces:,} faces")
        return max(mesh.n_faces, int((self._limit - _used() - n_views * view) / each))

    def check_reading(self, path: Path) -> None:
        """Refuse a file that cannot be read within the limit, before reading it."""
        if self.memory is not None and isinstance(path, Path) and path.is_file():  # a store would be sent a request
            size = path.stat().st_size
            self._check(_READING.get(path.suffix.lower(), 6) * size, f"{path}: reading {size >> 20:,} MB")

    def check_simplifying(self, mesh: Mesh) -> None:
        """Refuse a mesh that cannot be simplified within the limit: simplifying takes more memory than the model."""
        if self.memory is not None:
            self._check(_SIMPLIFYING * mesh.n_faces, f"{mesh.name}: simplifying {mesh.n_faces:,} faces")

    @cached_property
    def _limit(self) -> float:
        return _used() + _SHARE * free_memory() if self.memory is None else self.memory

    def _check(self, n_bytes: float, work: str) -> None:
        if _used() + n_bytes > self._limit:
            raise MeshError(
                f"{work} needs about {(_used() + n_bytes) / GIGABYTE:.1f} GB of memory, and "
                f"{self._limit / GIGABYTE:.1f} GB are allowed; allow more, or use fewer faces"
            )

    def _lean(self, mesh: Mesh) -> float:
        """The memory of a pass over a whole surface without patterns: activations, and the eliminated surface.

        The factor has one value per time, and three lists of the places of its entries.
        """
        from hodgeformer.kernels.elimination import N_TIMES
        from hodgeformer.nn.memory import activation_memory

        n = PerElement(mesh.n_vertices, 0, 0)
        entries = FILL * mesh.n_vertices * np.log2(mesh.n_vertices) if "D" in self.model.blocks else 0
        return activation_memory(self.model, n, n.map(lambda _: 0), training=False) + 4 * (N_TIMES + 3) * entries


def _used() -> int:
    return used_memory() or 0
