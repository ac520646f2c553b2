"""Scalar fields on an open mesh: the interface of their sources, and the eigenfunctions of the cotangent Laplacian.

A source describes its choices (a layer, a head, a number); the page shows them as described, so a new source needs no
change there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError

from hodgeformer.base.errors import HodgeFormerError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.predict.operators import Eigenpairs, cotangent_eigenpairs
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.models import Recent
from hodgeformer.web.viewer.open_meshes import OpenMesh

N_EIGENFUNCTIONS = 16
MAX_KEPT = 4
"""Results of a source that stay in memory."""


@dataclass(frozen=True, eq=False)
class ScalarField:
    """One value per vertex or face, NaN for none; `signed` ones are drawn around zero, `note` describes them."""

    values: NDArray[np.float32]
    element: Literal["vertex", "face"]
    signed: bool
    note: str


@dataclass(frozen=True)
class Choice:
    """One choice of the user, with its options as value and text."""

    key: str
    title: str
    options: tuple[tuple[str, str], ...]

    def answer(self, chosen: Mapping[str, str]) -> str:
        """The chosen value, which must be an option; by default the first."""
        value = chosen.get(self.key, self.options[0][0])
        if value not in dict(self.options):
            raise Refusal(400, f"{self.title} '{value[:40]}' is not an option; reload the page.")
        return value


@dataclass(frozen=True)
class Pick:
    """The clicked face and the clicked point on it."""

    face: int
    point: tuple[float, float, float]


class FieldSource(Protocol):
    """A source of fields; `picks`: a face must be clicked first."""

    name: str
    title: str
    picks: bool

    def choices(self, opened: OpenMesh) -> tuple[Choice, ...] | None:
        """What can be chosen for this mesh; None if there is nothing to show."""
        ...

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField: ...


class Eigenfunctions:
    """The smoothest functions on the surface: L u = lambda M u, L cotangent weights, M areas of vertices."""

    name, title, picks = "eigenfunction", "Eigenfunction", False

    def __init__(self) -> None:
        self._found: Recent[str, Eigenpairs] = Recent(MAX_KEPT)

    def choices(self, opened: OpenMesh) -> tuple[Choice, ...] | None:
        n = min(N_EIGENFUNCTIONS, opened.mesh.n_vertices - 2)
        if n < 2:
            return None
        return (Choice("index", "Number", tuple((str(i), f"{i + 1}") for i in range(1, n))),)

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        choices = self.choices(opened)
        if choices is None:
            raise Refusal(400, "The mesh is too small for eigenfunctions.")
        index = int(choices[0].answer(chosen))
        found = self._found.get(opened.id, lambda: smoothest_functions(opened.mesh))
        if index >= len(found):
            raise Refusal(422, f"Only {len(found)} eigenfunctions were found; choose a smaller number.")
        note = f"Cotangent Laplacian, eigenvalue {max(found.values[index].real, 0.0):.4g}"
        return ScalarField(found.functions[:, index].real.astype(np.float32), "vertex", signed=True, note=note)


def smoothest_functions(mesh: Mesh) -> Eigenpairs:
    """Eigenfunctions of the cotangent Laplacian in the order of the file, smallest eigenvalues first."""
    try:
        return cotangent_eigenpairs(mesh.topology, mesh.vertices, min(N_EIGENFUNCTIONS, mesh.n_vertices - 2))
    except (ArpackError, HodgeFormerError, RuntimeError, ValueError) as error:
        raise Refusal(422, f"Eigenfunctions cannot be found for this mesh ({error}).") from None
