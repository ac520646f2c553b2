"""Everything that a prediction needs besides the network itself, and whether a mesh resembles the training meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveFloat, model_validator

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.settings import Faces, Settings, UpName
from hodgeformer.mesh.elements import radius, unit_edge_lengths
from hodgeformer.mesh.geometry import face_vectors, in_range, norms
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.pose import UP_AXES, up_axis, upright
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.mesh.topology import component_numbers
from hodgeformer.nn.config import ModelConfig

Byte = Annotated[int, Field(ge=0, le=255)]
Height = Annotated[float, Field(ge=-1000.0, le=1000.0)]  # in radii of a mesh
Sign = Literal["distance", "doubt", "pieces", "opening"]
Count = Annotated[float, Field(ge=1, allow_inf_nan=False)]

# A sign may always exceed its usual value by this much, however similar the fitted meshes are.
_LEAST: dict[Sign, float] = {"distance": 0.5, "doubt": 0.05, "pieces": 0.9, "opening": 0.35}
_STRICTNESS = 2.0  # distance of the limit from the usual value, relative to that of the 95 % quantile
_PRIOR = 3  # weight of the mean spread of all features, in meshes
_SIZABLE = 0.05  # the smallest share of the area that counts as a piece

# How much a mesh may differ from the training meshes before there is a warning.
_FACES_FACTOR = 3.0
_LENGTH_FACTOR = 2.0
_SIZE_FACTOR = 1000.0  # meshes are scaled to one size, so only absurd sizes matter


class DataStatistics(Settings):
    """Statistics of the training meshes, to recognize a mesh that is very different."""

    n_meshes: int = Field(description="The number of meshes.")
    n: Annotated[dict[ElementKind, tuple[Count, Count, Count]], Field(min_length=3)] = Field(
        description="Minimum, median and maximum of the element counts, per kind."
    )
    size: tuple[FiniteFloat, FiniteFloat, FiniteFloat] = Field(
        description="Minimum, median and maximum of the radius of a mesh, in the units of the files."
    )
    edge_length: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] = Field(
        description="The 5, 25, 50, 75 and 95 % quantiles of edge lengths after scaling to the unit sphere."
    )
    shapes: tuple[str, ...] = Field(
        default=(), description="The first digits of the hash of each mesh, to recognize meshes that were trained on."
    )

    def unlike(self, mesh: Mesh) -> tuple[str, ...]:
        """How the working mesh differs from the training meshes, one sentence each."""
        found = []
        low, _, high = self.n["f"]
        if not low / _FACES_FACTOR <= mesh.n_faces <= _FACES_FACTOR * high:
            remedy = "; use faces = auto to simplify it" if mesh.n_faces > high else ""
            found.append(f"{mesh.n_faces:,} faces, the training meshes had {low:,.0f} to {high:,.0f}{remedy}")
        median = float(np.median(unit_edge_lengths(mesh)))
        q5, *_, q95 = self.edge_length
        if not q5 / _LENGTH_FACTOR <= median <= q95 * _LENGTH_FACTOR:
            found.append(
                f"a median edge length of {median:.3g} radii, in the training meshes most edges had {q5:.3g} to "
                f"{q95:.3g}"
            )
        smallest, _, largest = self.size
        if not smallest / _SIZE_FACTOR <= (size := radius(mesh)) <= largest * _SIZE_FACTOR:
            found.append(
                f"a radius of {size:.3g}, the training meshes had {smallest:.3g} to {largest:.3g}; "
                "this is harmless if only the unit differs"
            )
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Impression:
    """The signs of familiarity of a working mesh.

    `features` are the mean encoder features, `doubt` is one minus the mean confidence, `pieces` is the number of
    connected pieces with a sizable area, `opening` is the rim length of the largest hole relative to the root of the
    area.
    """

    features: FloatArray
    doubt: float
    pieces: float
    opening: float


class Familiarity(Settings):
    """The usual signs of familiar meshes, and their limits."""

    center: tuple[FiniteFloat, ...] = Field(description="The mean of the features of familiar meshes.")
    spread: tuple[PositiveFloat, ...] = Field(description="The spread of the features of familiar meshes.")
    signs: Annotated[dict[Sign, tuple[FiniteFloat, FiniteFloat]], Field(min_length=4)] = Field(
        description="The usual value and the limit of each sign of an unfamiliar mesh."
    )

    @classmethod
    def fit(
        cls,
        impressions: Sequence[Impression],
        *,
        features: FloatArray | None = None,
        distances: Sequence[float] | None = None,
    ) -> Familiarity:
        """Fit to at least two meshes that the model was not trained on.

        If other models gave the impressions, `features` are those of this model, for meshes that it knows, and
        `distances` are those of the unknown meshes from the ones that the other models know.
        """
        features = np.stack([impression.features for impression in impressions]) if features is None else features
        center, spread = _moments(features)
        if distances is None:
            others = (np.delete(features, i, axis=0) for i in range(len(features)))
            distances = [_distance(x, *_moments(rest)) for x, rest in zip(features, others, strict=True)]
        found: dict[Sign, FloatArray] = {"distance": np.array(distances)}
        for name in ("doubt", "pieces", "opening"):
            found[name] = np.array([getattr(impression, name) for impression in impressions])
        signs: dict[Sign, tuple[float, float]] = {}
        for name, values in found.items():
            usual = float(np.median(values))
            beyond = _STRICTNESS * (float(np.quantile(values, 0.95)) - usual)
            signs[name] = usual, usual + max(beyond, _LEAST[name])
        return cls(center=tuple(center.tolist()), spread=tuple(spread.tolist()), signs=signs)

    def judge(self, impression: Impression) -> tuple[float, tuple[str, ...]]:
        """How familiar a mesh is, from 1 to 0, and the reasons if it is below 0.5."""
        distance = _distance(impression.features, np.array(self.center), np.array(self.spread))
        values = {name: distance if name == "distance" else getattr(impression, name) for name in self.signs}
        strange = {
            name: (values[name] - usual) / ((limit - usual) or 1.0) for name, (usual, limit) in self.signs.items()
        }
        words: dict[Sign, str] = {
            "distance": "its features differ from those of the training meshes",
            "doubt": f"the model is unsure: a mean confidence of {1 - impression.doubt:.0%}, usually "
            f"{1 - self.signs['doubt'][0]:.0%}",
            "pieces": f"{impression.pieces:.0f} large pieces, usually {self.signs['pieces'][0]:.0f}; if these are "
            "several objects, predict each of them separately",
            "opening": "a large hole; a part may be missing",
        }
        reasons = tuple(words[name] for name, excess in strange.items() if excess > 1)
        return 2.0 ** -(min(30.0, max(0.0, *strange.values())) ** 2), reasons


class ModelInfo(Settings):
    """Everything a checkpoint stores besides the weights."""

    prepare: PrepareConfig = Field(description="How meshes become input, including the seed of random connections.")
    model: ModelConfig = Field(description="The shape of the network, its task and element.")
    name: str = Field(default="model", max_length=200, description="The name of the model.")
    classes: tuple[str, ...] = Field(default=(), description="The names of the classes.")
    colors: tuple[tuple[Byte, Byte, Byte], ...] = Field(default=(), description="One color per class.")
    metrics: dict[str, float] = Field(
        default_factory=dict, description="Scores by name; names include the element and the weighting."
    )
    statistics: DataStatistics | None = Field(default=None, description="Statistics of the training meshes.")
    temperature: float = Field(
        default=1.0,
        ge=0.01,
        le=100.0,
        description="Outputs are divided by it before they become probabilities; fitted to meshes not trained on.",
    )
    smooth: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="How strongly the answer for an element follows its neighbors; fitted to meshes not trained on.",
    )
    familiarity: Familiarity | None = Field(
        default=None, description="What meshes the model is made for; fitted to meshes not trained on."
    )
    heights: tuple[Height, ...] = Field(
        default=(),
        description="The usual height of each class above the center of a mesh, in radii; used to guess which axis "
        "points up.",
    )
    training: dict[str, Any] = Field(default_factory=dict, description="The resolved configuration of the run.")
    versions: dict[str, str] = Field(default_factory=dict, description="Versions of the software that wrote the file.")
    path: Path | None = Field(default=None, exclude=True, description="The file that the model was loaded from.")

    @model_validator(mode="before")
    @classmethod
    def _stars_of_old_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Files from before D blocks learned their stars have the cotangent ones."""
        model = values.get("model")
        return {**values, "model": {"star_bound": 0.0, **model}} if isinstance(model, dict) else values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        n = 0 if self.model.task == "regression" else self.model.n_classes
        for name in ("classes", "colors", "heights"):
            if (found := len(getattr(self, name))) not in (0, n):
                raise ValueError(f"{found} {name} for a {self.model.task} model with {n} classes")
        width = self.model.d_model * len(self.model.updated)
        if self.familiarity and not len(self.familiarity.center) == len(self.familiarity.spread) == width:
            raise ValueError(f"familiarity has {len(self.familiarity.center)} features, the model has {width}")
        return self

    @property
    def question(self) -> str:
        """What the model predicts, in words; equal for models that can form an ensemble."""
        model = self.model
        return f"{model.task} per {model.element} of {', '.join(self.classes) or f'{model.n_classes} values'}"

    @property
    def title(self) -> str:
        return f"'{self.name}'" if self.path is None else str(self.path)

    @property
    def turn_axis(self) -> FloatArray | None:
        """The axis about which answers may be averaged over rotations; None for any rotation."""
        if (up := up_axis(self.prepare.pose)) is not None:
            return up
        augment = self.training.get("augment")
        if not isinstance(augment, dict) or augment.get("rotation") != "axis":
            return None
        return np.asarray(np.eye(3)[{"x": 0, "z": 2}.get(str(augment.get("axis")), 1)])

    def upright(self, up: UpName) -> FloatArray | None:
        """The rotation of a file in which another axis points up than in the training files."""
        wanted = up_axis(self.prepare.pose)
        return None if wanted is None or up == "auto" else upright(np.array(UP_AXES[up], dtype=np.float64), wanted)

    def compare(self, mesh: Mesh, features: FloatArray, outputs: FloatArray) -> tuple[float | None, tuple[str, ...]]:
        """How familiar a working mesh is, if the model was calibrated, and how it differs, one sentence each."""
        unlike = () if self.statistics is None else self.statistics.unlike(mesh)
        if self.familiarity is None:
            return None, unlike
        probabilities = None if self.model.task == "regression" else outputs
        score, reasons = self.familiarity.judge(impression(mesh, features, probabilities))
        return score, unlike + reasons

    def at(self, faces: Faces | str = "auto") -> PrepareConfig:
        """The preparation of meshes at a resolution.

        "auto" is that of training: at most as many faces as the largest training mesh, and at least about half as many
        as the smallest.
        """
        if faces != "auto":
            return self.prepare.replace(faces=faces)
        if self.statistics is None:
            return self.prepare
        low, _, high = self.statistics.n["f"]
        # Older checkpoints have no resolution, but the sizes of their training meshes.
        most = self.prepare.most_faces or max(4, round(high))
        return self.prepare.replace(faces=most, least_faces=min(most, int(low)))


def impression(mesh: Mesh, features: FloatArray, probabilities: NDArray[np.floating] | None) -> Impression:
    """The impression of a working mesh and its answer; a regression has no probabilities."""
    mesh = in_range(mesh)
    proper, topology = mesh.proper_faces, mesh.topology
    areas = norms(face_vectors(mesh.vertices, mesh.faces))[proper] / 2
    total = float(areas.sum()) or 1.0
    piece = component_numbers(topology.faces, mesh.n_vertices)[topology.faces[:, 0]]
    rim = topology.edges[np.bincount(topology.face_edges.ravel(), minlength=topology.n.e) == 1]
    lengths = norms(mesh.vertices[rim[:, 1]] - mesh.vertices[rim[:, 0]])
    hole = component_numbers(rim, mesh.n_vertices)
    return Impression(
        features=np.asarray(features, dtype=np.float64),
        doubt=0.0 if probabilities is None else 1 - float(probabilities.max(axis=1).mean()),
        pieces=float(max(1, (np.bincount(piece, areas) > _SIZABLE * total).sum())),
        opening=float(np.bincount(hole[rim[:, 0]], lengths, 1).max() / np.sqrt(total)),
    )


def _moments(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation; few meshes underestimate the spread of some features."""
    variance = features.var(axis=0)
    variance = (len(features) * variance + _PRIOR * variance.mean()) / (len(features) + _PRIOR)
    return features.mean(axis=0), np.sqrt(variance) + 1e-9


def distance_from(known: FloatArray, features: FloatArray) -> float:
    """How far the features of a mesh are from those of known meshes (n, width), in their spreads."""
    return _distance(features, *_moments(known))


def _distance(features: FloatArray, center: FloatArray, spread: FloatArray) -> float:
    with np.errstate(over="ignore"):  # infinitely far is far enough
        return float(np.sqrt(np.mean(((features - center) / spread) ** 2)))
