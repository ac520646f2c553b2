"""One head of an H block on one mesh: how its stars spread their weight, around one element and over all rows, and the
eigenfunctions of its Laplacians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.base.errors import ConfigError
from hodgeformer.lab.study.eigen import Eigenpairs, cotangent_eigenpairs, eigenpairs
from hodgeformer.mesh.geometry import centers
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.topology import inverse_permutation
from hodgeformer.nn.config import STAR_KIND
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.operators import HeadOperators, head_operators, star_row


@dataclass(frozen=True, eq=False)
class Reach:
    """Per row of a star: its sum, exp of its entropy (how many neighbors it really reads), weighted mean distance.

    Entries count without their signs. Rows of a star without signs sum to one. `distance` is in radii of the mesh.
    """

    row_sums: FloatArray
    neighbors: FloatArray
    own_weight: FloatArray
    distance: FloatArray

    def summary(self) -> dict[str, float]:
        """Means over the rows, rounded for tables."""
        return {
            "largest_row_sum_error": _rounded(np.abs(self.row_sums - 1).max()),
            "neighbors_mean": _rounded(self.neighbors.mean()),
            "neighbors_min": _rounded(self.neighbors.min()),
            "neighbors_max": _rounded(self.neighbors.max()),
            "own_weight_mean": _rounded(self.own_weight.mean()),
            "distance_mean": _rounded(self.distance.mean()),
        }


@dataclass(frozen=True, eq=False)
class OperatorReport:
    """Per star, named such as "L_v.star1": its reach, and `attention` around element `picked` for those that act on
    elements of `kind`. Per Laplacian: eigenpairs.

    Arrays are in the order of the mesh file; rows of the stars in `reach` in that of the prepared mesh.
    """

    layer: int
    head: int
    kind: ElementKind
    picked: int
    attention: dict[str, FloatArray]
    reach: dict[str, Reach]
    eigen: dict[ElementKind, Eigenpairs]
    cotangent: Eigenpairs

    def star_rows(self) -> list[dict[str, Any]]:
        """A row for each star."""
        return [{"star": name, **reach.summary()} for name, reach in self.reach.items()]

    def eigenvalue_rows(self) -> list[dict[str, Any]]:
        """A row for each eigenvalue of the cotangent Laplacian (the smallest), and of the learned ones (the largest).

        `residual` is |L f - value f| for a function f of unit norm.
        """
        spectra = {"cotangent": self.cotangent, **{f"L_{kind}": found for kind, found in self.eigen.items()}}
        return [
            {"operator": name, "real": _rounded(value.real), "imag": _rounded(value.imag), "residual": _rounded(rest)}
            for name, found in spectra.items()
            for value, rest in zip(found.values.tolist(), found.residuals.tolist(), strict=True)
        ]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The content of the NPZ file."""
        arrays: dict[str, NDArray[Any]] = {"cotangent.values": self.cotangent.values.real}
        arrays["cotangent.functions"] = self.cotangent.functions.real
        for kind, found in self.eigen.items():
            arrays[f"L_{kind}.values"], arrays[f"L_{kind}.functions"] = found.values, found.functions
        for name, weights in self.attention.items():
            arrays[f"{name}.attention"] = weights
        for name, reach in self.reach.items():
            arrays[f"{name}.row_sums"], arrays[f"{name}.neighbors"] = reach.row_sums, reach.neighbors
            arrays[f"{name}.distance"] = reach.distance
        return arrays


def study_operators(
    model: HodgeFormer,
    mesh: Mesh,
    config: PrepareConfig,
    *,
    layer: int | None = None,
    head: int = 1,
    kind: ElementKind | None = None,
    picked: int | None = None,
    n_functions: int = 6,
) -> OperatorReport:
    """The report on one head. `layer` and `head` count from 1; None: the last HodgeFormer block.

    `picked` is an element of the file, by default the one farthest from the center. Of the frames of a pose,
    the first is used.
    """
    operators = head_operators(model, prepare(mesh, config), layer=layer, head=head)
    kind = model.config.updated[0] if kind is None else kind
    picked = farthest(operators, kind) if picked is None else picked
    stars = [(f"L_{owner}.{name}", name, star) for owner, own in operators.stars.items() for name, star in own.items()]
    acts_on = {name: STAR_KIND[name] for _, name, _ in stars}
    if kind not in acts_on.values():
        known = ", ".join(dict.fromkeys(ELEMENT_NAMES[other] for other in acts_on.values()))
        raise ConfigError(f"this model has no star on the {ELEMENT_NAMES[kind]} elements, only on: {known}")
    prepared = operators.prepared
    cotangent = cotangent_eigenpairs(prepared.topology, prepared.positions, n_functions)
    learned = {owner: eigenpairs(operators.laplacian(owner), n_functions) for owner in operators.stars}
    shown = {title: star for title, name, star in stars if acts_on[name] == kind}
    return OperatorReport(
        layer=operators.layer,
        head=head,
        kind=kind,
        picked=picked,
        attention={title: attention_around(operators, star, kind, picked) for title, star in shown.items()},
        reach={title: reach_of(star, prepared, acts_on[name]) for title, name, star in stars},
        eigen={owner: found.in_file_order(prepared, owner) for owner, found in learned.items()},
        cotangent=cotangent.in_file_order(prepared, "v"),
    )


def reach_of(star: csr_array, prepared: PreparedMesh, kind: ElementKind) -> Reach:
    """The reach of a star that acts on elements of a kind."""
    n = star.shape[0]
    row = np.repeat(np.arange(n), np.diff(star.indptr))
    star = abs(star)
    weights, columns = star.data, star.indices

    def row_sums(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(row, weights=values, minlength=n), np.float64)

    shares = weights / np.maximum(row_sums(weights), 1e-300)[row]
    entropy = -row_sums(shares * np.log(np.maximum(shares, 1e-300)))
    at = centers(kind, prepared.topology, prepared.positions)
    apart = np.linalg.norm(at[row] - at[columns], axis=1)
    return Reach(
        row_sums=row_sums(weights),
        neighbors=np.exp(entropy),
        own_weight=star.diagonal(),
        distance=row_sums(weights * apart),
    )


def attention_around(operators: HeadOperators, star: csr_array, kind: ElementKind, picked: int) -> FloatArray:
    """The row of a star for element `picked` of the file, as one weight per element of the file; NaN outside S_i.

    A face of the file that repeats a vertex has no place in the complex and shows the weight of the nearest one.
    """
    prepared = operators.prepared
    n_file = len(prepared.face_source) if kind == "f" else prepared.n[kind]
    if not 0 <= picked < n_file:
        raise ConfigError(f"{prepared.name} has {ELEMENT_NAMES[kind]} elements 0 to {n_file - 1}, got {picked}")
    here = int(prepared.face_source[picked] if kind == "f" else inverse_permutation(prepared.order[kind])[picked])
    return prepared.to_file_order(star_row(star, here), kind)


def farthest(operators: HeadOperators, kind: ElementKind) -> int:
    """The element of the file that is farthest from the center of the mesh."""
    prepared = operators.prepared
    at = centers(kind, prepared.topology, prepared.positions)
    return int(prepared.order[kind][np.linalg.norm(at, axis=1).argmax()])


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
