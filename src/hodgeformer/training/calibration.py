"""What a model states about its own answers, fitted to meshes that it was not trained on.

This is the temperature of its probabilities, how strongly they follow those of neighbors, what meshes are familiar, and
the usual height of each part. Without validation meshes, rehearsals give the answers: shorter runs that each leave out
some of the training meshes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from hodgeformer.data.splits import in_folds
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.up import part_centers, up_from_shape, usual_heights
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint
from hodgeformer.predict.inference import tempered
from hodgeformer.predict.model_info import Familiarity, distance_from, impression
from hodgeformer.training.distributed import Processes
from hodgeformer.training.evaluate import Answer
from hodgeformer.training.listener import PartOf
from hodgeformer.training.loop import learn
from hodgeformer.training.metrics import Tally, scores_of
from hodgeformer.training.setup import Setup

STRENGTHS = (0.0, 0.5, 0.8, 0.9)
"""Of smoothing."""
_CALIBRATING = 5000  # elements of a mesh
_FEWEST, _FEWEST_REHEARSED = 5, 2  # meshes that familiarity is fitted to
_FEW, _FOLDS = 30, 3  # with fewer training meshes, each of them is left out of one rehearsal
_LEFT_OUT = 5  # otherwise every so many-th of them is left out of a single one
_LENGTH = 0.5  # of a rehearsal, relative to the run
_KNOWN = 60  # meshes that features are compared with


def calibrated(
    checkpoint: Checkpoint,
    answers: Iterable[Answer],
    *,
    features: FloatArray | None = None,
    distances: Sequence[float] = (),
    processes: Processes | None = None,
) -> Checkpoint:
    """The model with everything that is fitted to answers, at temperature 1, for meshes it was not trained on.

    The answers may be those of other models. Then `features` are those of this model for meshes it was trained on, and
    `distances` are those of the answers from meshes that the other models were trained on. Several processes pass the
    answers of their shares, and all of them get the same model.
    """
    processes = processes or Processes()
    has_classes = checkpoint.model.task != "regression"
    n_classes, kind = len(checkpoint.classes), checkpoint.model.target_kind
    strengths = STRENGTHS if has_classes and kind is not None else STRENGTHS[:1]
    tallies = [Tally(n_classes) for _ in strengths]
    rows, meshes, parts = [], [], []
    for answer in answers:
        some = slice(None, None, -(-len(answer.target) // _CALIBRATING))  # large meshes must not dominate
        outputs = [answer.smoothed(strength) for strength in strengths]
        rows.append(([output[some] for output in outputs], answer.target[some]))
        meshes.append((answer.working, answer.features))
        if has_classes and kind is not None:
            on_faces = convert_labels(answer.target, answer.mesh, source=kind, to="f")
            parts.append((*part_centers(answer.mesh, on_faces, n_classes), up_from_shape(answer.mesh)))
            for tally, output in zip(tallies, outputs, strict=True):
                tally.add(answer.mesh.name, predicted=output.argmax(axis=1), true=answer.target)
    heights, best = checkpoint.heights, 0
    if all_parts := processes.gathered(parts):
        columns = (np.stack(column) for column in zip(*all_parts, strict=True))
        heights = tuple(usual_heights(*columns).round(4).tolist())
        best = _best(processes.collect(tallies))
    temperature = 1.0
    if has_classes and (all_rows := processes.gathered([(outputs[best], target) for outputs, target in rows])):
        temperature = _fitted_temperature(*(np.concatenate(column) for column in zip(*all_rows, strict=True)))
    sure = [tempered(outputs[best], temperature) if has_classes else None for outputs, _ in rows]
    found = processes.gathered([impression(*mesh, output) for mesh, output in zip(meshes, sure, strict=True)])
    familiarity = None
    if features is not None and len(found) >= _FEWEST_REHEARSED:
        familiarity = Familiarity.fit(found, features=features, distances=processes.gathered(distances))
    elif len(found) >= _FEWEST:
        familiarity = Familiarity.fit(found)
    return checkpoint.replace(temperature=temperature, smooth=strengths[best], familiarity=familiarity, heights=heights)


def _best(tallies: Sequence[Sequence[Tally]]) -> int:
    """The strength with the highest sum of accuracy and mean IoU, so that thin parts count as well.

    For each process, `tallies` has one for each strength.
    """
    merged = [first.merge(others) for first, *others in zip(*tallies, strict=True)]
    scores = [scores_of(tally, element="face", classes=(), resamples=1).values for tally in merged]
    return int(np.argmax([values["face_accuracy"] + values["face_mean_iou"] for values in scores]))


def _fitted_temperature(probabilities: FloatArray, labels: NDArray[Any]) -> float:
    """The temperature that maximizes the likelihood of the labels, for answers at temperature 1."""
    known = labels >= 0
    logits, true = np.log(np.maximum(probabilities[known], 1e-12)), labels[known]

    def surprise(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(true)), true]).mean())

    found = minimize_scalar(surprise, bounds=(-3.0, 2.0), method="bounded")
    return float(f"{np.exp(found.x):.3g}")


def rehearsed(setup: Setup, chosen: Checkpoint, model: HodgeFormer) -> Checkpoint:
    """The chosen model, calibrated by rehearsals; a stopped one continues with the run."""
    samples = setup.dataset.split("train")
    n_sources = len({sample.source for sample in samples})
    if n_sources < 2:
        setup.listener.warned(
            "confidence is not calibrated: that needs training meshes from at least two sources, of which one is left "
            "out"
        )
        return chosen
    few = len(samples) < _FEW
    folds = in_folds(samples, min(n_sources, _FOLDS if few else _LEFT_OUT), setup.config.train.seed)
    folds = folds if few else folds[:1]
    answers: list[Answer] = []
    distances: list[float] = []
    for number, left_out in enumerate(folds):
        listener = PartOf(setup.listener, "calibrating", number, len(folds))
        part = setup.rehearsal(number + 1, left_out, _LENGTH, listener)
        other = model_of(part)
        known = _features(part, other)
        for answer in part.evaluator("unseen").answers(other):
            answers.append(answer)
            distances.append(distance_from(known, answer.features))
    setup.listener.beside("calibrating", 1.0)
    own = _features(setup, model)
    fitted = calibrated(chosen, answers, features=own, distances=distances, processes=setup.processes)
    if setup.processes.is_first:
        for done in setup.folder.rehearsals:
            shutil.rmtree(done, ignore_errors=True)
    return fitted


def model_of(part: Setup) -> HodgeFormer:
    """The model that a shorter run ends with, after training what is left of it."""
    if part.processes.is_first:
        part.folder.root.mkdir(exist_ok=True)
    learn(part)
    if part.processes.from_first([float(part.folder.last.is_file())])[0] == 0:
        # The run was killed while its finished rehearsals were being removed.
        part.folder.state.unlink(missing_ok=True)
        learn(part)
    return load_checkpoint(part.folder.last).build_model().to(part.config.train.torch_device())


def _features(setup: Setup, model: HodgeFormer) -> FloatArray:
    """The features of some training meshes, in all processes."""
    evaluator = setup.evaluator("train")
    mine = [answer.features for answer in islice(evaluator.answers(model), _KNOWN)]
    return np.stack(setup.processes.gathered(mine))
