"""Scalar fields on an open mesh: what a source is, and the eigenfunctions of the cotangent Laplacian as the first one.

A source says which choices it offers (a layer, a head, a number); the page shows them as they come, so a new source
needs no change there.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.geometry import cross, norms
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Scene

N_EIGENFUNCTIONS = 16


@dataclass(frozen=True, eq=False)
class ScalarField:
    """One value per vertex or face, NaN for none; `signed` ones are drawn around zero, `note` says what they are."""

    values: NDArray[np.float32]
    element: Literal["vertex", "face"]
    signed: bool
    note: str


@dataclass(frozen=True)
class Choice:
    """One question with its possible answers, as value and text."""

    key: str
    title: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pick:
    """The clicked face and the clicked point on it."""

    face: int
    point: tuple[float, float, float]


class FieldSource(Protocol):
    """Where fields come from; `picks` says that a face must be clicked first."""

    name: str
    title: str
    picks: bool

    def choices(self, scene: Scene) -> tuple[Choice, ...] | None:
        """What can be chosen for this scene; None where there is nothing to show."""
        ...

    def field(self, scene: Scene, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField: ...


def chosen_option(choice: Choice, chosen: Mapping[str, str]) -> str:
    """The chosen value, which must be one that was offered; the first where none is chosen."""
    value = chosen.get(choice.key, choice.options[0][0])
    if value not in dict(choice.options):
        raise Refusal(400, f"{choice.title} '{value[:40]}' is not among the choices; reload the page.")
    return value


class Eigenfunctions:
    """The smoothest functions on the surface: L u = lambda M u, L cotangent weights, M areas of vertices."""

    name, title, picks = "eigenfunction", "Eigenfunction", False

    def __init__(self) -> None:
        self._found: weakref.WeakKeyDictionary[Mesh, tuple[FloatArray, FloatArray]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def choices(self, scene: Scene) -> tuple[Choice, ...] | None:
        n = min(N_EIGENFUNCTIONS, scene.mesh.n_vertices - 2)
        if n < 2:
            return None
        return (Choice("index", "Number", tuple((str(i), f"{i + 1}") for i in range(1, n))),)

    def field(self, scene: Scene, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        choices = self.choices(scene)
        if choices is None:
            raise Refusal(400, "The mesh is too small for eigenfunctions.")
        index = int(chosen_option(choices[0], chosen))
        values, vectors = self._solved(scene.mesh)
        note = f"Cotangent Laplacian, eigenvalue {max(values[index], 0.0):.4g}"
        return ScalarField(vectors[:, index].astype(np.float32), "vertex", signed=True, note=note)

    def _solved(self, mesh: Mesh) -> tuple[FloatArray, FloatArray]:
        with self._lock:
            if mesh not in self._found:
                self._found[mesh] = eigenfunctions(mesh, min(N_EIGENFUNCTIONS, mesh.n_vertices - 2))
            return self._found[mesh]


def eigenfunctions(mesh: Mesh, count: int) -> tuple[FloatArray, FloatArray]:
    """The `count` smallest eigenvalues and eigenvectors (n_vertices, count) of the cotangent Laplacian."""
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import ArpackError, eigsh

    vertices = mesh.vertices - mesh.vertices.mean(axis=0)
    vertices = vertices / max(float(np.abs(vertices).max()), np.finfo(float).tiny)
    corners, n = mesh.faces, mesh.n_vertices
    sides = [vertices[corners[:, (i + 2) % 3]] - vertices[corners[:, (i + 1) % 3]] for i in range(3)]
    double_area = norms(cross(sides[0], sides[1]))
    safe = np.maximum(double_area, 1e-12 * max(float(double_area.max()), np.finfo(float).tiny))
    mass = np.bincount(corners.ravel(), np.repeat(double_area / 6, 3), minlength=n)
    rows, columns, weights = [], [], []
    for i in range(3):
        a, b = corners[:, (i + 1) % 3], corners[:, (i + 2) % 3]
        # The cotangent at corner i weighs the side opposite to it; slivers are held to a finite weight.
        half = np.clip(-(sides[(i + 1) % 3] * sides[(i + 2) % 3]).sum(axis=1) / safe, -1e3, 1e3) / 2
        rows += [a, b, a, b]
        columns += [b, a, a, b]
        weights += [-half, -half, half, half]
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    laplacian = coo_array(entries, shape=(n, n)).tocsc()
    masses = diags_array(np.maximum(mass, 1e-9 * mass.mean())).tocsc()
    try:
        values, vectors = eigsh(laplacian, k=count, M=masses, sigma=-1e-3, v0=np.linspace(1, 2, n))
    except (ArpackError, RuntimeError, ValueError) as error:
        raise Refusal(422, f"Eigenfunctions cannot be found for this mesh ({error}).") from None
    order = np.argsort(values)
    return values[order], vectors[:, order]
