"""One head of one layer on one mesh: how its stars spread their weight around one element, over all rows, and compared
with the textbook's star; and the eigenfunctions of its Laplacians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.base.errors import ConfigError
from hodgeformer.mesh.geometry import centers
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.mesh.topology import inverse_permutation
from hodgeformer.nn.config import STAR_KIND
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.operators import (
    Eigenpairs,
    HeadOperators,
    cotangent_eigenpairs,
    eigenpairs,
    head_operators,
    star_row,
)


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
        return {
            "largest_row_sum_error": float(np.abs(self.row_sums - 1).max()),
            "effective_neighbors_mean": float(self.neighbors.mean()),
            "effective_neighbors_min": float(self.neighbors.min()),
            "effective_neighbors_max": float(self.neighbors.max()),
            "own_weight_mean": float(self.own_weight.mean()),
            "distance_mean": float(self.distance.mean()),
        }


@dataclass(frozen=True, eq=False)
class OperatorReport:
    """Per star, named such as "L_v.star1": reach, correlations with the textbook's star, and `attention` around element
    `picked` for those that act on elements of `kind`. Per Laplacian: eigenpairs.

    Arrays are in the order of the mesh file; rows of the stars in `reach` in that of the prepared mesh.
    """

    layer: int
    head: int
    kind: ElementKind
    picked: int
    attention: dict[str, FloatArray]
    reach: dict[str, Reach]
    correlations: dict[str, dict[str, float | None]]
    eigen: dict[ElementKind, Eigenpairs]
    cotangent: Eigenpairs

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "head": self.head,
            "element": ELEMENT_NAMES[self.kind],
            "picked": self.picked,
            "reach": {name: reach.summary() for name, reach in self.reach.items()},
            "correlation_with_classical_star": self.correlations,
            "eigenvalues": {f"L_{kind}": _pairs(found) for kind, found in self.eigen.items()},
            "eigenvalues_cotangent": _pairs(self.cotangent),
        }

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
        correlations={title: compare_stars(star, operators.classical[name]) for title, name, star in stars},
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


def compare_stars(learned: csr_array, classical: csr_array) -> dict[str, float | None]:
    """Pearson correlations of a learned star with the textbook's, on the entries of the learned one.

    `entries` takes classical zeros for zeros, `absolute_entries` ignores the signs, which only signed stars
    learn, `diagonal` compares diagonals only. None where one side does not vary.
    """
    row = np.repeat(np.arange(learned.shape[0]), np.diff(learned.indptr))
    there = np.asarray(classical[row, learned.indices]).ravel()
    return {
        "entries": correlation(learned.data, there),
        "absolute_entries": correlation(np.abs(learned.data), np.abs(there)),
        "diagonal": correlation(learned.diagonal(), classical.diagonal()),
    }


def correlation(a: NDArray[Any], b: NDArray[Any]) -> float | None:
    """Pearson's, None where one side does not vary."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / scale if scale > 1e-12 * len(a) else None


def farthest(operators: HeadOperators, kind: ElementKind) -> int:
    """The element of the file that is farthest from the center of the mesh."""
    prepared = operators.prepared
    at = centers(kind, prepared.topology, prepared.positions)
    return int(prepared.order[kind][np.linalg.norm(at, axis=1).argmax()])


def _pairs(found: Eigenpairs) -> list[dict[str, float | bool]]:
    return [
        {"real": value.real, "imag": value.imag, "conjugate_pair": found.is_pair(i), "residual": float(residual)}
        for i, (value, residual) in enumerate(zip(found.values.tolist(), found.residuals, strict=True))
    ]
