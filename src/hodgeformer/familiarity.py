"""Whether a mesh is of the kind that a model knows: fitted to meshes it has not learned from, and told in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.elements import proper_complex
from hodgeformer.mesh.geometry import face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.topology import pieces
from hodgeformer.settings import Settings

# How far beyond the usual a sign may be at least before it tells anything, however alike the fitted meshes are.
_LEAST = {"distance": 0.5, "doubt": 0.05, "pieces": 0.9, "opening": 0.35}
_STRICTNESS = 2.0  # how far the limit is from the usual, in distances of the 95 % quantile
_PRIOR = 3  # meshes that the mean spread of all features counts as
_SIZABLE = 0.05  # share of the area from which a piece is one


@dataclass(frozen=True, eq=False)
class Impression:
    """What is noticed of a mesh as the model gets it.

    `features` are the means of what the encoder makes of its elements, `doubt` is one less the mean confidence,
    `pieces` are those of a sizable area, `opening` is the rim of the largest hole in roots of the area.
    """

    features: FloatArray
    doubt: float
    pieces: float
    opening: float


class Familiarity(Settings):
    """What the signs of known meshes are like: (usual, limit) of each, and `center` and `spread` of their features."""

    center: tuple[float, ...]
    spread: tuple[float, ...]
    signs: dict[str, tuple[float, float]]

    @classmethod
    def fit(cls, impressions: Sequence[Impression]) -> Familiarity:
        """From meshes that the model has not learned from, two at least."""
        features = np.stack([impression.features for impression in impressions])
        center, spread = _moments(features)
        others = (np.delete(features, i, axis=0) for i in range(len(features)))
        distances = [_distance(x, *_moments(rest)) for x, rest in zip(features, others, strict=True)]
        found = {"distance": np.array(distances)}
        found |= {name: np.array([getattr(i, name) for i in impressions]) for name in ("doubt", "pieces", "opening")}
        signs = {}
        for name, values in found.items():
            usual = float(np.median(values))
            beyond = _STRICTNESS * (float(np.quantile(values, 0.95)) - usual)
            signs[name] = usual, usual + max(beyond, _LEAST[name])
        return cls(center=tuple(center.tolist()), spread=tuple(spread.tolist()), signs=signs)

    def judge(self, impression: Impression) -> tuple[float, tuple[str, ...]]:
        """How familiar a mesh is, from 1 to 0, and below 0.5 why not."""
        distance = _distance(impression.features, np.array(self.center), np.array(self.spread))
        values = {
            "distance": distance,
            **{name: getattr(impression, name) for name in self.signs if name != "distance"},
        }
        strange = {name: (values[name] - usual) / (limit - usual) for name, (usual, limit) in self.signs.items()}
        words = {
            "distance": "its features are unlike those of the meshes that the model knows",
            "doubt": f"the model is unsure: a mean confidence of {1 - impression.doubt:.0%}, where "
            f"{1 - self.signs['doubt'][0]:.0%} is usual",
            "pieces": f"{impression.pieces:.0f} large pieces, where {self.signs['pieces'][0]:.0f} is usual; several "
            "objects are better given one by one",
            "opening": "a large hole, so that a part may be missing",
        }
        reasons = tuple(words[name] for name, excess in strange.items() if excess > 1)
        return 2.0 ** -(max(0.0, *strange.values()) ** 2), reasons


def impression(mesh: Mesh, features: FloatArray, probabilities: NDArray[np.floating] | None) -> Impression:
    """Of a mesh as the model gets it and its answer, which for a regression has no probabilities."""
    proper, topology = proper_complex(mesh)
    areas = norms(face_vectors(mesh.vertices, mesh.faces))[proper] / 2
    total = float(areas.sum()) or 1.0
    piece = pieces(topology.faces, mesh.n_vertices)[topology.faces[:, 0]]
    rim = topology.edges[np.bincount(topology.face_edges.ravel(), minlength=topology.n.e) == 1]
    lengths = norms(mesh.vertices[rim[:, 1]] - mesh.vertices[rim[:, 0]])
    hole = pieces(rim, mesh.n_vertices)
    return Impression(
        features=np.asarray(features, dtype=np.float64),
        doubt=0.0 if probabilities is None else 1 - float(probabilities.max(axis=1).mean()),
        pieces=float(max(1, (np.bincount(piece, areas) > _SIZABLE * total).sum())),
        opening=float(np.bincount(hole[rim[:, 0]], lengths, 1).max() / np.sqrt(total)),
    )


def _moments(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation; few meshes spread less in some feature than they should."""
    variance = features.var(axis=0)
    variance = (len(features) * variance + _PRIOR * variance.mean()) / (len(features) + _PRIOR)
    return features.mean(axis=0), np.sqrt(variance) + 1e-9


def _distance(features: FloatArray, center: FloatArray, spread: FloatArray) -> float:
    return float(np.sqrt(np.mean(((features - center) / spread) ** 2)))
