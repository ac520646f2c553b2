"""What a model says of its own answers, fitted to meshes that it was not trained on.

This is the temperature of its probabilities, how strongly they follow those of neighbors, what meshes are familiar, and
the usual height of each part. Without validation meshes, shorter runs that leave some of the training meshes out answer
for those: rehearsals.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from hodgeformer.data.splits import in_folds
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.pose import part_centers, up_from_shape, usual_heights
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint
from hodgeformer.predict.inference import tempered
from hodgeformer.predict.model_info import Familiarity, distance_from, impression
from hodgeformer.training.distributed import Processes
from hodgeformer.training.evaluate import Answer
from hodgeformer.training.listener import PartOf
from hodgeformer.training.loop import learn
from hodgeformer.training.setup import Setup

STRENGTHS = (0.0, 0.5, 0.8, 0.9)
"""Of smoothing."""
_CALIBRATING = 5000  # elements of a mesh
_FEWEST = 5  # meshes that familiarity is fitted to, if they are all there is
_FEW, _FOLDS = 30, 3  # with fewer training meshes, each of them is left out of one rehearsal
_LEFT_OUT = 5  # otherwise every so many-th of them is left out of a single one
_LENGTH = 0.5  # of a rehearsal, relative to the run
_KNOWN = 60  # meshes that features are compared with


def calibrated(
    checkpoint: Checkpoint,
    answers: Iterable[Answer],
    *,
    temperature: float | None = None,
    processes: Processes | None = None,
) -> Checkpoint:
    """The model with everything that is fitted to its answers, at temperature 1, for meshes it was not trained on.

    A temperature may be given. Several processes pass the answers of their shares, and all of them get the same model.
    """
    processes = processes or Processes()
    is_sure = checkpoint.model.task != "regression"
    n_classes, kind = len(checkpoint.classes), checkpoint.model.target_kind
    rows, seen, parts, counts = [], [], [], []
    for answer in answers:
        some = slice(None, None, -(-len(answer.target) // _CALIBRATING))  # large meshes must not dominate
        of_parts = is_sure and kind is not None
        outputs = [answer.smoothed(strength) for strength in (STRENGTHS if of_parts else STRENGTHS[:1])]
        rows.append(([output[some] for output in outputs], answer.target[some]))
        seen.append((answer.working, answer.features))
        if of_parts:
            assert kind is not None
            on_faces = convert_labels(answer.target, answer.mesh, source=kind, to="f")
            parts.append((*part_centers(answer.mesh, on_faces, n_classes), up_from_shape(answer.mesh)))
            counts.append(np.stack([_right(output, answer.target, n_classes) for output in outputs]))
    heights, smooth = checkpoint.heights, 0.0
    if all_parts := processes.gathered(parts):
        columns = (np.stack(column) for column in zip(*all_parts, strict=True))
        heights = tuple(usual_heights(*columns).round(4).tolist())
        smooth = _best_strength(np.sum(processes.gathered(counts), axis=0))
    at = STRENGTHS.index(smooth)
    if is_sure and temperature is None and (all_rows := processes.gathered([(x[at], y) for x, y in rows])):
        temperature = _fitted_temperature(*(np.concatenate(column) for column in zip(*all_rows, strict=True)))
    sure = [tempered(outputs[at], temperature or 1.0) if is_sure else None for outputs, _ in rows]
    known = processes.gathered([impression(*mesh, some) for mesh, some in zip(seen, sure, strict=True)])
    familiarity = Familiarity.fit(known) if len(known) >= _FEWEST else None
    return checkpoint.replace(temperature=temperature or 1.0, smooth=smooth, familiarity=familiarity, heights=heights)


def _right(output: FloatArray, target: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """(3, classes): how many elements of each class are right, are of this class, and are said to be."""
    known = target >= 0
    true, said = target[known], output[known].argmax(axis=1)
    return np.stack([np.bincount(column, minlength=n_classes) for column in (true[true == said], true, said)])


def _best_strength(counts: NDArray[Any]) -> float:
    """The strength of smoothing with the highest sum of accuracy and mean IoU, so that thin parts count as well."""
    right, true, said = np.moveaxis(counts, 1, 0)
    union = true + said - right
    present = union > 0
    iou = np.divide(right, union, out=np.zeros(right.shape), where=present).sum(axis=1) / np.maximum(
        present.sum(axis=1), 1
    )
    accuracy = right.sum(axis=1) / np.maximum(true.sum(axis=1), 1)
    return STRENGTHS[int(np.argmax(accuracy + iou))]


def _fitted_temperature(probabilities: FloatArray, labels: NDArray[Any]) -> float:
    """The temperature that maximizes the likelihood of the labels, for answers at temperature 1."""
    known = labels >= 0
    logits, true = np.log(np.maximum(probabilities[known], 1e-12)), labels[known]

    def surprise(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(true)), true]).mean())

    found = minimize_scalar(surprise, bounds=(-3.0, 2.0), method="bounded")
    return float(f"{np.exp(found.x):.3g}")


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The features of meshes that a model was trained on (n, width), and its answers for others."""

    known: FloatArray
    unseen: Sequence[Answer]


def calibrated_by(
    rehearsals: Sequence[Rehearsal],
    checkpoint: Checkpoint,
    features: FloatArray,
    *,
    temperature: float | None = None,
    processes: Processes | None = None,
) -> Checkpoint:
    """The same by the answers of other models, each for meshes that it was not trained on.

    `features` are those of the checkpoint's own model for meshes that it was trained on.
    """
    processes = processes or Processes()
    unseen = [answer for rehearsal in rehearsals for answer in rehearsal.unseen]
    fitted = calibrated(checkpoint, unseen, temperature=temperature, processes=processes)
    is_sure = checkpoint.model.task != "regression"
    impressions = processes.gathered(
        [
            impression(
                a.working, a.features, tempered(a.smoothed(fitted.smooth), fitted.temperature) if is_sure else None
            )
            for a in unseen
        ]
    )
    distances = processes.gathered(
        [distance_from(rehearsal.known, a.features) for rehearsal in rehearsals for a in rehearsal.unseen]
    )
    if len(impressions) < 2:
        return fitted.replace(familiarity=None)
    return fitted.replace(familiarity=Familiarity.fit(impressions, features=features, distances=distances))


def rehearsed(setup: Setup, chosen: Checkpoint, model: HodgeFormer) -> Checkpoint:
    """The chosen model, calibrated by rehearsals; a stopped one continues with the run."""
    samples = setup.dataset.split("train")
    n_sources = len({sample.source for sample in samples})
    if n_sources < 2:
        setup.listener.warned(
            "confidence is not calibrated: that needs training meshes from at least two sources, of which one is left "
            "out"
        )
        return chosen.replace(temperature=setup.config.train.temperature or 1.0)
    few = len(samples) < _FEW
    folds = in_folds(samples, min(n_sources, _FOLDS if few else _LEFT_OUT), setup.config.train.seed)
    parts = folds if few else folds[:1]
    found = []
    for number, held in enumerate(parts):
        part = setup.rehearsal(number + 1, held, _LENGTH, PartOf(setup.listener, "calibrating", number, len(parts)))
        if part.processes.is_first:
            part.folder.root.mkdir(exist_ok=True)
        learn(part)
        if setup.processes.from_first([float(part.folder.last.is_file())])[0] == 0:
            # The run was killed while its finished rehearsals were being removed.
            part.folder.state.unlink(missing_ok=True)
            learn(part)
        other = load_checkpoint(part.folder.last).build_model().to(setup.config.train.torch_device())
        answers = list(part.evaluator("unseen", in_units=True).answers(other))
        found.append(Rehearsal(_features(part, other), answers))
    own = _features(setup, model)
    fitted = calibrated_by(found, chosen, own, temperature=setup.config.train.temperature, processes=setup.processes)
    if setup.processes.is_first:
        for number in range(len(parts)):
            shutil.rmtree(setup.rehearsal_folder(number + 1), ignore_errors=True)
    return fitted


def _features(setup: Setup, model: HodgeFormer) -> FloatArray:
    """The features of some training meshes, in all processes."""
    evaluator = setup.evaluator("train", in_units=True)
    mine = [answer.features for answer in islice(evaluator.answers(model), _KNOWN)]
    return np.stack(setup.processes.gathered(mine))
