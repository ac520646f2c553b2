"""A study trains one model per row and seed, skips finished runs and continues stopped ones."""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field

from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.base.files import write_atomically
from hodgeformer.base.settings import Settings, Table, read_toml
from hodgeformer.predict.checkpoint import load_checkpoint, save_checkpoint
from hodgeformer.training.config import TABLES, with_overrides
from hodgeformer.training.listener import Listener
from hodgeformer.training.loop import learn
from hodgeformer.training.run import run as take_road
from hodgeformer.training.run import with_calibration
from hodgeformer.training.run_folder import InUseError, RunFolder
from hodgeformer.training.setup import Setup
from hodgeformer.training.state import Position

_HERE = Path(__file__).resolve()
_FOLDERS = tuple(_HERE.parents[up] / "configs" / kind for up in (2, 4) for kind in ("ablation", "results"))
"""Where the studies are: in an installed package, or in a checkout; the paper's and our own."""
_NEVER = 1_000_000  # epochs


class StudyRow(Settings):
    """One variant of a study: what it changes, and the results to compare with."""

    name: str = Field(description="The name of the variant.")
    extends: str = Field(
        default="", description="A configuration beside the study whose settings the variant starts with."
    )
    recipe: str = Field(
        default="",
        description='A row of another results file, "FILE: ROW", with the score of our recipe on the same data.',
    )
    paper: dict[str, float] = Field(
        default_factory=dict, description="The accuracy in percent that the paper reports, by data set."
    )
    others: dict[str, float] = Field(default_factory=dict, description="The same of other methods, by their names.")
    data: dict[str, Any] = Field(default_factory=dict, description="Settings of [data] that the variant changes.")
    prepare: dict[str, Any] = Field(default_factory=dict, description="Settings of [prepare] that the variant changes.")
    augment: dict[str, Any] = Field(default_factory=dict, description="Settings of [augment] that the variant changes.")
    model: dict[str, Any] = Field(default_factory=dict, description="Settings of [model] that the variant changes.")
    train: dict[str, Any] = Field(default_factory=dict, description="Settings of [train] that the variant changes.")

    @property
    def tables(self) -> dict[str, Table]:
        return {name: getattr(self, name) for name in TABLES}


class Study(Settings):
    """Variants, and what they have in common."""

    title: str = Field(description="The title of the study.")
    extends: str = Field(
        default="", description="A configuration beside the study whose settings all variants start with."
    )
    base: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of all variants, by table; they override those of extends."
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Which labels the figures of another method count, where not hard ones."
    )
    rows: tuple[StudyRow, ...] = Field(min_length=1, description="The variants.")


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One training of a study."""

    row: StudyRow
    seed: int
    tables: Table
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.toml")

    @property
    def result(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.json")


@dataclass(frozen=True)
class RunResult:
    """A finished training: the scores of its last weights on `split`, and its cost in total.

    Only a segmentation has a mean IoU. `interval` is the 95 % interval of the score over the meshes of the split.
    """

    score: float
    score_name: str
    split: str
    cpu_minutes: float
    minutes: float
    epochs: int
    n_parameters: int
    mean_iou: float | None = None
    interval: tuple[float, float] | None = None


def known_studies() -> dict[str, Path]:
    """The studies that come with the project, by name."""
    return {path.stem: path for folder in _FOLDERS for path in sorted(folder.glob("*.toml"))}


def load_study(name: str) -> tuple[str, Study]:
    """A study by its name or from a TOML file, and its short name."""
    path = Path(name)
    if not path.is_file():
        known = known_studies()
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known studies: {', '.join(known) or 'none'}"
            raise ConfigError(f"'{name}' is neither a study nor a TOML file; {hint}")
        path = known[name]
    study = Study.parse(read_toml(path))

    base = read_toml(path.parent / study.extends) if study.extends else {}
    rows = tuple(row.replace(extends=str(path.parent / row.extends)) if row.extends else row for row in study.rows)
    return path.stem, study.replace(extends="", base=_merged(base, study.base), rows=rows)


def plan_study(
    study: Study,
    *,
    data: Table,
    overrides: Sequence[str] = (),
    seeds: Sequence[int],
    out: Path,
    rows: Sequence[str] = (),
) -> list[PlannedRun]:
    """All trainings, or those of the named rows, seed by seed, so that a study stopped halfway has the same seeds for
    every row.

    A seed decides weights, order and augmentation, and the split where the data set draws one. Overrides change what a
    row has in common with others or takes from a configuration, not what makes it a variant.
    """
    unknown = set(rows) - {row.name for row in study.rows}
    if unknown:
        known = ", ".join(row.name for row in study.rows)
        raise ConfigError(f"the study has no row '{min(unknown)}'; its rows are: {known}")
    # Without workers all CPU time is that of this process. Only the last weights count, so only they are evaluated.
    common = _merged({"data": dict(data), "train": {"workers": 0, "eval_every": _NEVER}}, study.base)
    runs = []
    for seed in seeds:
        for row in study.rows:
            if rows and row.name not in rows:
                continue
            start = _merged(common, read_toml(Path(row.extends)) if row.extends else {})
            tables = _merged(
                with_overrides(start, overrides), row.tables, {"train": {"seed": seed}, "data": {"seed": seed}}
            )
            if not tables["data"].keys() - {"seed"}:
                raise ConfigError(f"'{row.name}' of '{study.title}' names no data; set it with --data")
            runs.append(PlannedRun(row, seed, tables, out / f"{_slug(row.name)}-seed{seed}"))
    return runs


def finished_result(run: PlannedRun) -> RunResult | None:
    """The result of a finished run; an error if it was made with other settings."""
    if run.config.is_file() and read_toml(run.config) != run.tables:
        raise ConfigError(f"{run.config} was made with other settings than these; choose another --out, or remove it")
    if not run.result.is_file():
        return None
    return RunResult(**json.loads(run.result.read_text(encoding="utf-8")))


def carry_out(run: PlannedRun, listener: Listener) -> RunResult | None:
    """Train, or continue a stopped run, and score the last weights; None if another process is running it."""
    if (found := finished_result(run)) is not None:
        return found
    run.config.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(run.config, tomli_w.dumps(run.tables).encode())
    begun = RunFolder(run.folder).config.is_file()
    # A row chooses its pose and smooths its answers only if its settings ask for it: rows differ in nothing else.
    tables = _merged({"train": {"calibrate": False}}, run.tables)
    try:
        return take_road(None if begun else tables, run.folder, partial(_train, run), listener=listener)
    except InUseError:
        return None


def _train(run: PlannedRun, setup: Setup) -> RunResult:
    if (elsewhere := finished_result(run)) is not None:  # since we looked
        return elsewhere
    if setup.tested is None:
        raise DataError(
            f"{setup.dataset.name}: a study needs a validation or a test split to score on; draw one, such as with "
            "--set data.val_fraction=0.15"
        )
    result = _scored(setup, learn(setup).position)
    write_atomically(run.result, json.dumps(asdict(result), indent=2).encode())
    setup.folder.state.unlink(missing_ok=True)  # as large as three models, and no longer needed
    return result


def _scored(setup: Setup, end: Position) -> RunResult:
    """Score the last weights, not the best: where validation data also scores, choosing by it would be optimistic."""
    assert setup.tested is not None
    chosen, began = load_checkpoint(setup.folder.last), time.process_time()
    model = chosen.build_model()
    if setup.config.train.calibrate and setup.tested != "val":
        chosen = with_calibration(setup, chosen, model)
        save_checkpoint(setup.folder.last, chosen)
    calibrating = time.process_time() - began
    scores = setup.evaluator(setup.tested, smooth=chosen.smooth).scores(model)
    return RunResult(
        score=scores.main,
        score_name=scores.main_name,
        split=setup.tested,
        cpu_minutes=(end.cpu + calibrating) / 60,
        minutes=end.elapsed / 60,
        epochs=end.epoch,
        n_parameters=model.n_parameters,
        mean_iou=scores.values.get(f"{scores.element}_mean_iou"),
        interval=scores.interval,
    )


def _merged(*parts: Mapping[str, Table]) -> dict[str, Table]:
    """Merge tables of settings; later ones win."""
    names = dict.fromkeys(name for part in parts for name, table in part.items() if table)
    return {name: {key: value for part in parts for key, value in part.get(name, {}).items()} for name in names}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
