"""Scores whose names state what is counted and how it is weighted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.mesh import FloatArray, IntArray

_BINS = 15  # of confidence
_FEWEST = 5  # meshes for an interval


class Tally:
    """Counts of correct and wrong answers. `confusion` has a row per true class and a column per predicted one.

    `reliability` has a row per bin of confidence: elements, the sum of their confidence, and how many are correct.
    """

    def __init__(self, n_classes: int) -> None:
        self.confusion: IntArray = np.zeros((n_classes, n_classes), dtype=np.int64)
        self.area_hit = self.area_total = 0.0
        self.reliability: FloatArray = np.zeros((_BINS, 3))
        self.meshes: dict[str, tuple[int, int]] = {}

    def add(
        self,
        name: str,
        *,
        predicted: IntArray,
        true: IntArray,
        areas: FloatArray | None = None,
        confidence: FloatArray | None = None,
    ) -> None:
        """Count one mesh; elements labeled -1 are skipped."""
        known = true >= 0
        predicted, true = predicted[known], true[known]
        n_classes = len(self.confusion)
        cells = np.bincount(true * n_classes + predicted, minlength=n_classes * n_classes)
        self.confusion += cells.reshape(n_classes, n_classes)
        hit = predicted == true
        if confidence is not None:
            bins = np.minimum((confidence[known] * _BINS).astype(np.int64), _BINS - 1)
            for column, values in enumerate((np.ones(len(hit)), confidence[known], hit)):
                self.reliability[:, column] += np.bincount(bins, values, _BINS)
        self.meshes[name] = (int(hit.sum()), len(hit))
        if areas is not None:
            self.area_hit += float(areas[known][hit].sum())
            self.area_total += float(areas[known].sum())

    def merge(self, others: Iterable[Tally]) -> Tally:
        """The combined counts of this and other sets of meshes, in the order of names."""
        merged = Tally(len(self.confusion))
        for tally in (self, *others):
            merged.confusion += tally.confusion
            merged.reliability += tally.reliability
            merged.area_hit += tally.area_hit
            merged.area_total += tally.area_total
            merged.meshes.update(tally.meshes)
        merged.meshes = dict(sorted(merged.meshes.items()))
        return merged


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a set of meshes: `values` by name, and for classes the confusion counts.

    `interval` is a 95 % bootstrap over meshes of the main value, None if the meshes are too few or too much alike for
    one; `reliability` and `meshes` are as in a tally. A regression has no classes and no confusion.
    """

    element: str
    values: dict[str, float]
    interval: tuple[float, float] | None = None
    classes: tuple[str, ...] = ()
    confusion: IntArray | None = None
    reliability: FloatArray | None = None
    meshes: dict[str, tuple[int, int]] | None = None

    @property
    def per_mesh(self) -> dict[str, float] | None:
        """The accuracy of each mesh that has labels."""
        if self.meshes is None:
            return None
        return {name: hit / total for name, (hit, total) in self.meshes.items() if total}

    def without_copies(self, names: Collection[str]) -> Scores:
        """The same scores, and beside the main one that of the other meshes, if these are copies of training meshes."""
        left = [counts for name, counts in (self.meshes or {}).items() if name not in names]
        hit, total = (sum(column) for column in zip(*left, strict=True)) if left else (0, 0)
        if not total or len(left) == len(self.meshes or ()):
            return self
        beside = {self.main_name: self.main, f"{self.main_name}_without_copies": hit / total}
        return replace(self, values=beside | self.values)

    @property
    def main_name(self) -> str:
        """The name of the value that models are compared by."""
        return f"{self.element}_accuracy" if self.classes else f"{self.element}_r2"

    @property
    def main(self) -> float:
        """The score that models are compared by, larger is better: accuracy over all elements of all meshes, or R2."""
        return self.values[self.main_name]

    def per_class(self) -> list[dict[str, Any]]:
        """Recall (accuracy within the class), precision, IoU and number of elements; NaN if undefined."""
        if self.confusion is None:
            return []
        hit = np.diag(self.confusion).astype(float)
        true, predicted = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        columns = (_ratio(hit, true), _ratio(hit, predicted), _ratio(hit, true + predicted - hit), true)
        return [
            {"class": name, "recall": float(r), "precision": float(p), "iou": float(i), "elements": int(n)}
            for name, r, p, i, n in zip(self.classes, *columns, strict=True)
        ]

    def calibration(self) -> list[dict[str, float]]:
        """For each bin of confidence that occurs: its mean, the accuracy, and the share of elements in it."""
        if self.reliability is None:
            return []
        total = max(self.reliability[:, 0].sum(), 1.0)
        return [
            {"confidence": confidence / n, "accuracy": right / n, "share": n / total}
            for n, confidence, right in self.reliability.tolist()
            if n
        ]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4f}" for name, value in self.values.items())
        return f"Scores({values})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        content: dict[str, Any] = {"element": self.element, "metrics": self.values}
        if self.interval is not None:
            content[f"{self.main_name}_interval_95"] = list(self.interval)
        if self.confusion is not None:
            content["per_class"] = [{k: _plain(v) for k, v in row.items()} for row in self.per_class()]
            content["confusion"] = self.confusion.tolist()
            content["calibration"] = self.calibration()
        if self.per_mesh is not None:
            content[f"{self.main_name}_of_meshes"] = self.per_mesh
        return content


def scores_of(tally: Tally, *, element: str, classes: tuple[str, ...], seed: int = 0, resamples: int = 1000) -> Scores:
    """All scores of the counted meshes."""
    hits, totals = np.array(list(tally.meshes.values()), dtype=float).reshape(-1, 2).T
    labeled = totals > 0
    hit = np.diag(tally.confusion).astype(float)
    true = tally.confusion.sum(axis=1)
    values = {f"{element}_accuracy": float(hits.sum() / max(totals.sum(), 1.0))}
    if element != "mesh":
        values[f"{element}_accuracy_area_weighted"] = tally.area_hit / (tally.area_total or 1.0)
        values[f"{element}_accuracy_mean_over_meshes"] = _mean(hits[labeled] / totals[labeled])
    values[f"{element}_accuracy_mean_over_classes"] = _mean(_ratio(hit, true))
    values[f"{element}_mean_iou"] = _mean(_ratio(hit, true + tally.confusion.sum(axis=0) - hit))
    elements, confidence, right = tally.reliability.T
    if elements.any():
        values[f"{element}_calibration_error"] = float(np.abs(confidence - right).sum() / elements.sum())
    return Scores(
        element=element,
        values=values,
        interval=_bootstrap(hits, totals, seed, resamples),
        classes=classes,
        confusion=tally.confusion,
        reliability=tally.reliability,
        meshes=dict(tally.meshes),
    )


def regression_scores(*, predicted: FloatArray, true: FloatArray, element: str) -> Scores:
    """Mean absolute error, root mean squared error and R2 over all values."""
    error = predicted - true
    spread = float(((true - true.mean(axis=0)) ** 2).sum())
    values = {
        f"{element}_r2": 1.0 - float((error**2).sum()) / spread if spread else 0.0,
        f"{element}_mean_absolute_error": float(np.abs(error).mean()),
        f"{element}_root_mean_squared_error": float(np.sqrt((error**2).mean())),
    }
    return Scores(element=element, values=values)


def _bootstrap(hits: FloatArray, totals: FloatArray, seed: int, resamples: int) -> tuple[float, float] | None:
    """Meshes drawn with replacement: elements of one mesh are far from independent."""
    if len(hits) < _FEWEST:
        return None
    draws = np.random.default_rng(seed).integers(len(hits), size=(resamples, len(hits)))
    accuracy = hits[draws].sum(axis=1) / np.maximum(totals[draws].sum(axis=1), 1.0)
    low, high = np.quantile(accuracy, [0.025, 0.975])
    return (float(low), float(high)) if low < high else None  # if all are right, no draw differs


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> FloatArray:
    unknown = np.full(len(part), np.nan)
    return np.asarray(np.divide(part, whole, out=unknown, where=np.asarray(whole) > 0), np.float64)


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else 0.0


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value
