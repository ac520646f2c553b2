"""`hodgeformer evaluate`: the scores of a model on a data set."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.cli.results import (
    AllowRemoteOption,
    DataArgument,
    DeviceOption,
    FacesOption,
    JsonOption,
    MemoryOption,
    ModelArgument,
    QuietOption,
    SmoothOption,
    SplitOption,
    TtaOption,
    UpOption,
    bar,
    counted,
    options_of,
    save_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hodgeformer.data.dataset import DataSet, Sample
    from hodgeformer.predict.model_info import ModelInfo
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.training.metrics import Scores

_CALIBRATE = (
    "First fit confidence and familiarity to this split and store both in the model. Use a split that the model was "
    "not trained on."
)
_OUT = "Also write the scores to this CSV file, and details to a JSON file beside it."


def evaluate(
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    split: SplitOption = "test",
    faces: FacesOption = "auto",
    memory: MemoryOption = None,
    smooth: SmoothOption = None,
    tta: TtaOption = 1,
    up: UpOption = "auto",
    calibrate: Annotated[bool, typer.Option("--calibrate", help=_CALIBRATE)] = False,
    out: Annotated[Path | None, typer.Option(help=_OUT)] = None,
    allow_remote: AllowRemoteOption = False,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a model on labeled meshes.

    Reports accuracy per element, by area, per mesh and per class, mean IoU, confusion and calibration.

    Scores count the elements of the original files, whatever resolution the model works at.
    """
    from hodgeformer.data.open import open_dataset
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.training.evaluate import evaluate as scores_of
    from hodgeformer.training.evaluate import fitting

    options = options_of(context).model_dump(include={"faces", "memory", "smooth", "tta", "up"})
    predictor = Predictor.load(model, device)
    if calibrate:
        _check_own(predictor)
    dataset = fitting(open_dataset(data, allow_remote=allow_remote), predictor.info)
    samples = dataset.split(split)
    if calibrate:
        predictor = _calibrated(predictor, dataset, samples, faces, device, quiet=quiet)
    with bar("evaluating", quiet=quiet) as progress:
        scores = scores_of(predictor, dataset, split=split, report=progress, **options)
    about = {"model": model, "data": dataset.name, "split": split, "rotations": tta}
    about |= {"faces": predictor.info.at(faces).faces, "smooth": smooth, "up": up}
    about |= {"temperature": predictor.info.temperature, "calibrated_on": split if calibrate else None}
    learned = warn_of_learned([member.info for member in predictor.members], dataset, samples)
    scores = scores.without_copies(learned)
    about |= {"n_meshes": len(samples), "n_learned_from": len(learned), **scores.to_dict()}
    if out is not None:
        save_rows(out.parent, out.stem, score_rows(scores), about)
    if as_json:
        print(json.dumps(about, indent=2))
        return
    print_scores(scores, split)
    if calibrate:
        print(
            f"note: confidence was fitted to {split}, so its calibration there is too optimistic; score another split"
        )


def _check_own(predictor: Predictor) -> None:
    """Refuse to change a model of the package."""
    from hodgeformer.base.errors import ConfigError
    from hodgeformer.predict.pretrained import bundled_models

    path = predictor.checkpoint.path
    if path in [bundled.path for bundled in bundled_models().values()]:
        raise ConfigError(f"{path} is part of the package; copy it and calibrate the copy")


def _calibrated(
    predictor: Predictor, dataset: DataSet, samples: Sequence[Sample], faces: Any, device: str, *, quiet: bool
) -> Predictor:
    """The model with confidence and familiarity fitted to the samples, as its file is from now on."""
    from hodgeformer.predict.checkpoint import save_checkpoint
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.training.calibration import calibrated
    from hodgeformer.training.evaluate import Evaluator

    with bar("calibrating", quiet=quiet) as progress:
        answers = Evaluator(dataset, samples, predictor.info.at(faces)).answers(predictor.model)
        checkpoint = calibrated(predictor.checkpoint, counted(answers, progress, len(samples)))
    assert checkpoint.path is not None
    save_checkpoint(checkpoint.path, checkpoint)
    return Predictor.load(checkpoint, device)


def warn_of_learned(models: Sequence[ModelInfo], dataset: DataSet, samples: Sequence[Sample]) -> list[str]:
    """Warn on standard error if a model was trained on some of the meshes or on copies of them; returns their names."""
    from hodgeformer.training.evaluate import learned_from

    each = (learned_from(info, dataset, samples) for info in models)
    names = list(dict.fromkeys(name for learned in each for name in learned))
    if names:
        shown = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
        copies = f"{len(names)} of these {len(samples)} meshes are copies of training meshes ({shown})"
        print(f"note: {copies}: the scores are too optimistic", file=sys.stderr)
    return names


def score_rows(scores: Scores) -> list[dict[str, Any]]:
    """Every named score, and the IoU of every class."""
    low, high = scores.interval or (None, None)
    rows: list[dict[str, Any]] = []
    for name, value in scores.values.items():
        row: dict[str, Any] = {"score": name.replace("_", " "), "value": round(value, 4)}
        if name == scores.main_name and low is not None and high is not None:
            row |= {"interval_low": round(low, 4), "interval_high": round(high, 4)}
        rows.append(row)
    return rows + [{"score": f"IoU of {row['class']}", "value": round(row["iou"], 4)} for row in scores.per_class()]


def print_scores(scores: Scores, split: str) -> None:
    """The named scores, and a table of the classes."""
    from rich.console import Console
    from rich.table import Table

    for name, value in scores.values.items():
        interval = ""
        if name == scores.main_name and scores.interval is not None:
            low, high = scores.interval
            interval = f"  (95 % interval {low:.4f} to {high:.4f}, bootstrap over meshes)"
        elif name == scores.main_name and scores.meshes is not None:
            n = f"{len(scores.meshes)} mesh{'es' if len(scores.meshes) > 1 else ''}"
            interval = f"  (no interval from {n}: score more, or all of them with hodgeformer train --folds)"
        print(f"{split} {name.replace('_', ' ')}: {value:.4f}{interval}")
    if not scores.classes:
        return
    table = Table("class", *("recall", "precision", "IoU", "count"), box=None)
    for row in scores.per_class():
        numbers = (f"{row[key]:.4f}" for key in ("recall", "precision", "iou"))
        table.add_row(row["class"], *numbers, str(row["elements"]))
    Console().print(table, highlight=False)
    table = Table("confidence", *("accuracy", "share"), box=None)
    for row in scores.calibration():
        table.add_row(*(f"{row[key]:.4f}" for key in ("confidence", "accuracy", "share")))
    Console().print(table, highlight=False)
