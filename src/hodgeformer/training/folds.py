"""Cross-validation: as many runs as there are folds, each scored on meshes of sources that it has never seen.

The folder of a cross-validation holds config.toml, what was said of all its runs, the runs fold-1, fold-2, ..., and at
the end folds.csv. Stopped at any moment, it goes on with the run it was at. As a model it is all of its models.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.settings import Table, read_toml
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import open_dataset
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.pretrained import FOLD
from hodgeformer.training.config import Overrides, RunConfig, Source, said_tables
from hodgeformer.training.distributed import Processes
from hodgeformer.training.fit import fit, kept
from hodgeformer.training.listener import Listener, Outcome
from hodgeformer.training.metrics import Scores
from hodgeformer.training.run_folder import RunFolder, write_csv

_START = "start.safetensors"


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The end of a cross-validation: the outcome of the run of each fold."""

    folder: Path
    outcomes: tuple[Outcome, ...]

    @property
    def scores(self) -> list[Scores]:
        """What each model scores on the fold that it has never seen."""
        return [outcome.scores for outcome in self.outcomes if outcome.scores is not None]

    @property
    def table(self) -> list[dict[str, Any]]:
        """Mean, spread (the standard deviation) and the values of the folds, for each score and the IoU of each class.

        A class that a fold does not show has no value there.
        """
        named = [_named_values(scores) for scores in self.scores]
        return [_row(name, [values.get(name, float("nan")) for values in named]) for name in named[0]]

    def predictor(self, device: str = "auto") -> Predictor:
        """All models together."""
        return Predictor.load(self.folder, device)

    def __repr__(self) -> str:
        first = self.table[0]
        return f"CrossValidation({str(self.folder)!r}, {first['score']} {first['mean']:.4f} +- {first['spread']:.4f})"


def fit_folds(
    source: Source | DataSet | None,
    out: Path | str,
    n_folds: int | None = None,
    *,
    settings: Overrides = (),
    start: Checkpoint | None = None,
    processes: Processes | None = None,
    listener: Listener | None = None,
) -> CrossValidation:
    """Train and score a model for each fold, with the arguments of `fit`; without a source go on in `out`."""
    folder, processes, listener = RunFolder(Path(out)), processes or Processes(), listener or Listener()
    with folder.owned(new=source is not None) if processes.is_first else nullcontext():
        found = kept(source, folder.root, processes)
        if found is None:
            tables = read_toml(folder.config)
            start = load_checkpoint(folder.root / _START) if (folder.root / _START).is_file() else None
        else:
            tables = said_tables(found, settings)
            tables["data"] = {**tables.get("data", {}), "folds": n_folds}
            open_dataset(RunConfig.parse(_tables_of(tables, 0)).data)  # refuses what cannot be divided
            if processes.is_first:
                _create(folder, tables, start)
        outcomes = []
        n = int(tables["data"]["folds"])
        for number in range(n):
            if processes.is_first:
                listener.planned(f"fold {number + 1} of {n}")
            run = folder.root / f"{FOLD}{number + 1}"
            this = None if RunFolder(run).config.is_file() else _tables_of(tables, number)
            outcomes.append(fit(this, run, start=start, processes=processes, listener=listener))
        done = CrossValidation(folder.root, tuple(outcomes))
        if processes.is_first:
            write_csv(folder.root / "folds.csv", done.table)
    return done


def is_cross_validation(folder: Path) -> bool:
    """Whether a folder is that of a cross-validation, not of a single run."""
    config = RunFolder(folder).config
    data = read_toml(config).get("data", {}) if config.is_file() else {}
    return isinstance(data, dict) and "folds" in data and "fold" not in data


def _tables_of(tables: Table, fold: int) -> Table:
    return {**tables, "data": {**tables["data"], "fold": fold}}


def _create(folder: RunFolder, tables: Table, start: Checkpoint | None) -> None:
    if start is not None:
        save_checkpoint(folder.root / _START, start)
    data = {key: str(value) if isinstance(value, Path) else value for key, value in tables["data"].items()}
    try:
        text = tomli_w.dumps({**tables, "data": data})
    except TypeError as error:
        raise ConfigError(f"these settings cannot be kept for the other folds ({error})") from None
    folder.create(text)


def _named_values(scores: Scores) -> dict[str, float]:
    return scores.values | {f"IoU of {row['class']}": row["iou"] for row in scores.per_class()}


def _row(name: str, values: Sequence[float]) -> dict[str, Any]:
    known = [value for value in values if not np.isnan(value)]
    each = {f"fold_{i + 1}": None if np.isnan(value) else value for i, value in enumerate(values)}
    mean = statistics.mean(known) if known else None
    spread = statistics.stdev(known) if len(known) > 1 else None
    return {"score": name.replace("_", " "), "mean": mean, "spread": spread, **each}
