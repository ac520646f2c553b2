"""Calibrate the bundled `human`, with models that were each trained without one family of bodies.

    python -m hodgeformer.lab.calibrate_human HUMAN FAMILY=RUN ... --out NEW.safetensors

HUMAN was trained on all bodies, so its own answers cannot show how reliable its probabilities are. Each RUN left one
family out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.predict.checkpoint import Checkpoint, save_checkpoint
from hodgeformer.predict.model_info import distance_from
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.calibration import calibrated
from hodgeformer.training.evaluate import Answer, Evaluator

_KNOWN = 4  # one of this many bodies that a model was trained on


def answers(checkpoint: Checkpoint, dataset: DataSet, split: str, step: int = 1) -> list[Answer]:
    evaluator = Evaluator(dataset, dataset.split(split)[::step], checkpoint.prepare)
    return list(evaluator.answers(checkpoint.build_model()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("human")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    unseen: list[Answer] = []
    distances: list[float] = []
    for text in arguments.runs:
        family, _, run = text.partition("=")
        checkpoint = Predictor.load(run, "cpu").checkpoint
        dataset = open_dataset(DataConfig(name="human", hold_out=(family,)))
        known = np.stack([answer.features for answer in answers(checkpoint, dataset, "train", _KNOWN)])
        unseen += (found := answers(checkpoint, dataset, "val"))
        distances += [distance_from(known, answer.features) for answer in found]
    human = Predictor.load(arguments.human, "cpu").checkpoint
    own = np.stack([answer.features for answer in answers(human, open_dataset(DataConfig(name="human")), "train")])
    fitted = calibrated(human, unseen, features=own, distances=distances)
    save_checkpoint(arguments.out, fitted, half=True)


if __name__ == "__main__":
    main()
