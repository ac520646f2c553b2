"""`hf.train`, which the command line calls too: from whatever holds the data to a model, or to one for each fold."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.settings import Settings, Table
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.memory import Pairs
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.mesh.prepare import Faces
from hodgeformer.predict.checkpoint import Checkpoint
from hodgeformer.predict.predictor import ModelLike, load_checkpoints
from hodgeformer.training.config import FROM_DATA, TABLES, Source, with_overrides
from hodgeformer.training.distributed import Processes
from hodgeformer.training.fit import fit
from hodgeformer.training.folds import CrossValidation, fit_folds, is_cross_validation
from hodgeformer.training.listener import Callback, Listeners, Outcome

Data = Source | DataConfig | DataSet | Pairs
"""A data-set folder, the name of a data set, a TOML file or its tables, a data set, or pairs (mesh, labels)."""


@overload
def train(
    data: Data | None,
    out: str | os.PathLike[str],
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    faces: Faces | str | None = None,
    start: ModelLike | None = None,
    folds: None = None,
    callbacks: Sequence[Callback] = (),
    processes: Processes | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Outcome: ...
@overload
def train(
    data: Data,
    out: str | os.PathLike[str],
    *,
    folds: int,
    minutes: float | None = None,
    epochs: int | None = None,
    faces: Faces | str | None = None,
    start: ModelLike | None = None,
    callbacks: Sequence[Callback] = (),
    processes: Processes | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> CrossValidation: ...
@overload
def train(
    data: Data | None, out: str | os.PathLike[str], *, folds: int | None, **settings: Any
) -> Outcome | CrossValidation: ...
def train(
    data: Data | None,
    out: str | os.PathLike[str],
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    faces: Faces | str | None = None,
    start: ModelLike | None = None,
    folds: int | None = None,
    callbacks: Sequence[Callback] = (),
    processes: Processes | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Outcome | CrossValidation:
    """Train a model into the new folder `out`; without `data` go on with what was stopped there. Nothing is printed.

    `data` is a data-set folder, a name, a TOML file or its tables, a data set, or pairs (mesh, labels). What is left
    open is planned from it. `minutes` or `epochs` is how long to train, each fold by itself; `start` a model to
    fine-tune; `folds` asks for a cross-validation. `callbacks` are functions that get the row of each epoch that was
    evaluated, or listeners (`hodgeformer.training.listener`), which hear of every step. `settings` are those of a
    configuration, by name (lr=3e-4) or in tables (train={"lr": 3e-4}, model={"blocks": "DD"}), `overrides` the same as
    the command line writes them ("data.val_fraction=0.1"). Ctrl-C saves the run and raises `Stopped`, a
    KeyboardInterrupt.
    """
    given = {"minutes": minutes, "epochs": epochs, "faces": faces}
    said = _tables(settings | {name: value for name, value in given.items() if value is not None})
    said = with_overrides(said, overrides)
    folder, listener = Path(out), Listeners(callbacks)
    if data is None and (said or start is not None or folds is not None):
        raise ConfigError(f"without data the run in {folder} goes on with its own settings; leave the others out")
    source = None if data is None else _source(data)
    first = None if start is None else _one(start)
    if folds is not None or (source is None and is_cross_validation(folder)):
        return fit_folds(source, folder, folds, settings=said, start=first, processes=processes, listener=listener)
    return fit(source, folder, settings=said, start=first, processes=processes, listener=listener)


def _source(data: Data) -> Source | DataSet:
    if isinstance(data, DataConfig):
        return {"data": {name: getattr(data, name) for name in data.model_fields_set}}
    is_tables = isinstance(data, Mapping) and all(isinstance(table, Mapping) for table in data.values())
    if isinstance(data, str | Path | DataSet) or is_tables:
        return data  # type: ignore[return-value]
    if not isinstance(data, Iterable):
        raise ConfigError(f"a {type(data).__name__} is nothing to train on; give a folder, a name, or (mesh, labels)")
    return open_dataset(data)  # type: ignore[arg-type]


def _one(model: ModelLike) -> Checkpoint:
    found = load_checkpoints(model)
    if len(found) > 1:
        raise CheckpointError(f"{len(found)} models cannot be started from; name one of them")
    return found[0]


def _tables(settings: Mapping[str, Any]) -> dict[str, Table]:
    """Settings by their names, each in the table that knows it."""
    owners: dict[str, list[str]] = {}
    for table, group in TABLES.items():
        for name in group.model_fields:
            if (table, name) not in [("model", decided) for decided in FROM_DATA]:
                owners.setdefault(name, []).append(table)
    tables: dict[str, Table] = {}
    for name, value in settings.items():
        if name in TABLES and isinstance(value, Mapping | Settings):
            said = (
                {key: getattr(value, key) for key in value.model_fields_set} if isinstance(value, Settings) else value
            )
            tables.setdefault(name, {}).update(said)
        elif len(tables_of := owners.get(name, [])) == 1:
            tables.setdefault(tables_of[0], {})[name] = value
        elif tables_of:
            several = " and ".join(f"[{table}]" for table in tables_of)
            raise ConfigError(f"'{name}' is a setting of {several}; say which: {tables_of[-1]}={{'{name}': {value!r}}}")
        else:
            close = difflib.get_close_matches(name, owners, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "docs/reference/settings lists them"
            raise ConfigError(f"unknown setting '{name}'; {hint}")
    return tables
