"""The results of a run, and of a cross-validation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.listener import Row
from hodgeformer.training.metrics import Scores


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished run. `chosen` is the checkpoint to use, `scores` are those of `split`; `waited` is the share of time
    spent waiting for data, `rows` are those of metrics.csv."""

    folder: Path
    chosen: Path
    split: str | None
    scores: Scores | None
    epochs: int
    elapsed: float
    waited: float
    rows: tuple[Row, ...] = ()

    @property
    def report(self) -> Path:
        """The page with curves, scores and pictures."""
        return self.folder / "report.html"

    @property
    def history(self) -> list[dict[str, float]]:
        """The metrics of each epoch, as in metrics.csv."""
        return [{name: float(value) for name, value in row.items() if value != ""} for row in self.rows]

    def predictor(self, device: str = "auto") -> Predictor:
        """The trained model, ready to predict."""
        return Predictor.load(self.chosen, device)

    def __repr__(self) -> str:
        scores = "" if self.scores is None else f", {self.split} {self.scores}"
        return f"Outcome({str(self.folder)!r}, {self.epochs} epochs in {self.elapsed / 60:.1f} minutes{scores})"


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """A finished cross-validation: the outcome of the run of each fold."""

    folder: Path
    outcomes: tuple[Outcome, ...]

    @property
    def scores(self) -> list[Scores]:
        """The scores of each model on its test fold."""
        return [outcome.scores for outcome in self.outcomes if outcome.scores is not None]

    @property
    def table(self) -> list[dict[str, Any]]:
        """Mean, spread (the standard deviation) and the values of the folds, for each score and the IoU of each class.

        A class that does not occur in a fold has no value there.
        """
        named = [
            scores.values | {f"IoU of {row['class']}": row["iou"] for row in scores.per_class()}
            for scores in self.scores
        ]
        return [_row(name, [values.get(name, float("nan")) for values in named]) for name in named[0]]

    def predictor(self, device: str = "auto") -> Predictor:
        """The ensemble of all models."""
        return Predictor.load(self.folder, device)

    def __repr__(self) -> str:
        first = self.table[0]
        return f"CrossValidation({str(self.folder)!r}, {first['score']} {first['mean']:.4f} +- {first['spread']:.4f})"


def _row(name: str, values: Sequence[float]) -> dict[str, Any]:
    known = [value for value in values if not np.isnan(value)]
    each = {f"fold_{i + 1}": None if np.isnan(value) else value for i, value in enumerate(values)}
    mean = statistics.mean(known) if known else None
    spread = statistics.stdev(known) if len(known) > 1 else None
    return {"score": name.replace("_", " "), "mean": mean, "spread": spread, **each}
