"""The diagonal stars that D blocks have learned, on one mesh: how far they are from the textbook's, and whether they
draw the borders of parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.nn.pack import pack
from hodgeformer.predict.checkpoint import Checkpoint
from hodgeformer.predict.inference import make_views
from hodgeformer.predict.operators import DIAGONAL_KIND, DiagonalName, log_factors, textbook_stars
from hodgeformer.predict.predictor import Predictor

_QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
_AT_THE_BOUND = 0.95  # of the bound


@dataclass(frozen=True, eq=False)
class StarReport:
    """Log factors log(learned star / textbook's) by block and star, (n, times), on the mesh as the model reads it.

    `mesh` has the model's resolution, the stars are those of the first frame of its pose. `textbook` are the stars
    that they multiply, `times` those of the report, from 1. `parts` are labels of faces: predicted, and true if known.
    """

    mesh: Mesh
    bound: float
    times: tuple[int, ...]
    blocks: dict[int, dict[DiagonalName, FloatArray]]
    textbook: dict[DiagonalName, FloatArray]
    parts: dict[str, IntArray]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each block, star and time: quantiles, the share within 5 % of the bound, the share of the variance
        that parts explain, and means of star1 on edges between two parts and inside parts."""
        sides = {name: between_parts(self.mesh, labels) for name, labels in self.parts.items()}
        of_star = {
            (name, star): convert_labels(labels, self.mesh, source="f", to=kind)
            for name, labels in self.parts.items()
            for star, kind in DIAGONAL_KIND.items()
        }
        found = []
        for block, stars in self.blocks.items():
            for star, factors in stars.items():
                for time in self.times:
                    values = factors[:, time - 1]
                    finite = values[np.isfinite(values)]
                    row = {name: float(np.quantile(finite, level)) for name, level in _QUANTILES.items()}
                    row["at_bound_percent"] = 100 * float(np.mean(np.abs(finite) > _AT_THE_BOUND * self.bound))
                    for name, (border, inside) in sides.items():
                        row[f"{name}_explain_percent"] = 100 * explained(values, of_star[name, star])
                        if star == "star1":
                            row[f"{name}_border"] = _mean(values[border])
                            row[f"{name}_inside"] = _mean(values[inside])
                    numbers = {"time": TIMES[time - 1], **row}
                    rounded = {name: None if np.isnan(v) else float(f"{v:.4g}") for name, v in numbers.items()}
                    found.append({"block": block, "star": star, **rounded})
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The content of the NPZ file."""
        arrays: dict[str, NDArray[Any]] = {f"textbook.{star}": values for star, values in self.textbook.items()}
        for block, stars in self.blocks.items():
            arrays |= {f"block_{block}.{star}.log_factor": values for star, values in stars.items()}
        return arrays


def study_stars(
    checkpoint: Checkpoint,
    mesh: Mesh,
    *,
    layer: int | None = None,
    time: int | None = None,
    truth: IntArray | None = None,
) -> StarReport:
    """The report on all D blocks or on one, `layer`, at all times or at one, `time`. Both count from 1.

    `truth` are labels of the faces of the file.
    """
    if time is not None and not 1 <= time <= N_TIMES:
        raise ConfigError(f"D blocks have times 1 to {N_TIMES}, got {time}")
    model, config = checkpoint.build_model(), checkpoint.at()
    if config.pose == "frame_average":
        config = config.replace(pose="frame")  # the first of the frames
    views = make_views(mesh, config, model=model.config)
    parts = {} if truth is None else {"true": truth}
    if checkpoint.model.task == "segmentation":
        parts = {"predicted": Predictor(checkpoint).predict(mesh).on("face").labels, **parts}
    if views.sized:
        parts = {name: views.sized[0].labels_over(labels, "f") for name, labels in parts.items()}
    view = views.prepared[0]
    textbook = textbook_stars(pack([view]))
    return StarReport(
        mesh=views.working_mesh,
        bound=checkpoint.model.diffusion_bound,
        times=tuple(range(1, N_TIMES + 1)) if time is None else (time,),
        blocks=log_factors(model, view, layer),
        textbook={star: view.to_file_order(textbook[star], kind) for star, kind in DIAGONAL_KIND.items()},
        parts=parts,
    )


def between_parts(mesh: Mesh, labels: IntArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which edges lie between faces of two parts, and which inside one; others have one face, or one unlabeled."""
    kept, topology = mesh.proper_faces, mesh.topology
    sides, parts = topology.face_edges.ravel(), np.repeat(labels[kept], 3)
    lowest, highest = np.full(topology.n.e, parts.max()), np.full(topology.n.e, parts.min())
    np.minimum.at(lowest, sides, parts)
    np.maximum.at(highest, sides, parts)
    known = (np.bincount(sides, minlength=topology.n.e) > 1) & (lowest >= 0)
    return known & (lowest < highest), known & (lowest == highest)


def explained(values: FloatArray, parts: IntArray) -> float:
    """The share of the variance of values that lies between parts and not within them; NaN where nothing varies."""
    known = np.isfinite(values) & (parts >= 0)
    values, (_, part) = values[known] - values[known].mean(), np.unique(parts[known], return_inverse=True)
    total, between = float(values @ values), np.bincount(part, values) ** 2 / np.bincount(part)
    return float(between.sum()) / total if total > 1e-12 * len(values) else float("nan")


def log10_of(star: FloatArray) -> FloatArray:
    """NaN where the star is zero."""
    return np.asarray(np.log10(np.where(star > 0, star, np.nan)))


def _mean(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")
