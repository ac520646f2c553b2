"""Everything that can be said of one head of one layer on one mesh, in the order of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.geometry import centers
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import STAR_KIND
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.study.eigen import Eigenpairs, End, cotangent_eigenpairs, eigenpairs
from hodgeformer.study.operators import HeadOperators, head_operators
from hodgeformer.study.reach import Reach, attention_around, compare_stars, reach_of


@dataclass(frozen=True, eq=False)
class OperatorReport:
    """Per star, named such as "L_v.star1": reach, correlations with the textbook's star, and `attention` around element
    `picked` for those that act on elements of `kind`. Per Laplacian: eigenpairs, and the roughness of those of L_v.

    Arrays are in the order of the mesh file; rows of the stars in `reach` in that of the prepared mesh.
    """

    layer: int
    head: int
    kind: ElementKind
    picked: int
    attention: dict[str, NDArray[np.float64]]
    reach: dict[str, Reach]
    correlations: dict[str, dict[str, float | None]]
    eigen: dict[ElementKind, Eigenpairs]
    cotangent: Eigenpairs
    roughness: NDArray[np.float64] | None

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
            "roughness_of_L_v": None if self.roughness is None else self.roughness.tolist(),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the NPZ file holds."""
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
    end: End = "largest",
) -> OperatorReport:
    """Look into one head. `layer` and `head` count from 1; None: the last HodgeFormer block.

    `picked` is an element of the file, by default the one farthest from the middle. A pose that averages over frames
    is looked at in its first frame.
    """
    operators = head_operators(model, prepare(mesh, config), layer=layer, head=head)
    kind = model.config.updated[0] if kind is None else kind
    picked = farthest(operators, kind) if picked is None else picked
    stars = [(f"L_{owner}.{name}", name, star) for owner, own in operators.stars.items() for name, star in own.items()]
    acts_on = {name: STAR_KIND[name] for _, name, _ in stars}
    if kind not in acts_on.values():
        known = ", ".join(dict.fromkeys(ELEMENT_NAMES[other] for other in acts_on.values()))
        raise ConfigError(f"this model has no star on the {ELEMENT_NAMES[kind]} elements, only on: {known}")
    stiffness, mass = operators.cotangent()
    cotangent = cotangent_eigenpairs(stiffness=stiffness, mass=mass, k=n_functions)
    learned = {owner: eigenpairs(operators.laplacian(owner), n_functions, end) for owner in operators.stars}
    shown = {title: star for title, name, star in stars if acts_on[name] == kind}
    return OperatorReport(
        layer=operators.layer,
        head=head,
        kind=kind,
        picked=picked,
        attention={title: attention_around(operators, star, kind, picked) for title, star in shown.items()},
        reach={title: reach_of(star, operators.prepared, acts_on[name]) for title, name, star in stars},
        correlations={title: compare_stars(star, operators.classical[name]) for title, name, star in stars},
        eigen={owner: found.in_file_order(operators.prepared, owner) for owner, found in learned.items()},
        cotangent=cotangent.in_file_order(operators.prepared, "v"),
        roughness=roughness(learned["v"].functions, stiffness, mass) if "v" in learned else None,
    )


def roughness(functions: NDArray[np.complex128], stiffness: Any, mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """f* W f / f* M f: the eigenvalue of the cotangent Laplacian that varies as much as f does."""
    energy = np.einsum("nk,nk->k", functions.conj(), stiffness @ functions).real
    norm = np.einsum("nk,nk,n->k", functions.conj(), functions, mass).real
    return np.asarray(energy / np.maximum(norm, 1e-300), np.float64)


def farthest(operators: HeadOperators, kind: ElementKind) -> int:
    """The element of the file that lies farthest from the middle of the mesh."""
    prepared = operators.prepared
    at = centers(kind, prepared.topology, prepared.positions)
    return int(prepared.order[kind][np.linalg.norm(at, axis=1).argmax()])


def _pairs(found: Eigenpairs) -> list[dict[str, float | bool]]:
    return [
        {"real": value.real, "imag": value.imag, "conjugate_pair": found.is_pair(i), "residual": float(residual)}
        for i, (value, residual) in enumerate(zip(found.values.tolist(), found.residuals, strict=True))
    ]
