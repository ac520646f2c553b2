"""What the bundled `human` says of its own answers, from models that have never seen a family.

    python -m hodgeformer.lab.calibrate_human HUMAN FAMILY=RUN ... --out NEW.safetensors

HUMAN has learned from every body at hand, so its own answers cannot tell how sure it may be. Each RUN left one family
out: its answers there give the temperature, and how far unseen bodies lie from known ones gives the limits of what is
familiar. Centers and spreads of features are those of HUMAN itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.predict.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.predict.inference import tempered
from hodgeformer.predict.pretrained import locate_model
from hodgeformer.training.evaluate import Answer, Evaluator, calibrated

_KNOWN = 4  # every so many-th of the bodies that a model learned from
_PASSED, _MARGIN = 0.975, 1.2  # of unseen bodies lie within the limits, with so much to spare


def answers(checkpoint: Checkpoint, dataset: DataSet, split: str, step: int = 1) -> list[Answer]:
    evaluator = Evaluator(dataset, dataset.split(split)[::step], checkpoint.prepare)
    return list(evaluator.answers(checkpoint.build_model()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("human")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    temperatures, unseen, distances = {}, [], []
    for text in arguments.runs:
        family, _, run = text.partition("=")
        checkpoint = load_checkpoint(locate_model(run, "calibrate"))
        dataset = open_dataset(DataConfig(name="human", hold_out=(family,)))
        found = answers(checkpoint, dataset, "val")
        known = calibrated(checkpoint, answers(checkpoint, dataset, "train", _KNOWN)).familiarity
        assert known is not None
        center, spread = np.array(known.center), np.array(known.spread)
        distances += [float(np.sqrt(np.mean(((answer.features - center) / spread) ** 2))) for answer in found]
        temperatures[family] = calibrated(checkpoint, found).temperature
        unseen += found
    # A family counts as one, however many bodies it has.
    temperature = round(float(np.exp(np.mean(np.log(list(temperatures.values()))))), 3)
    doubts = [1 - float(tempered(answer.output, temperature).max(axis=1).mean()) for answer in unseen]
    human = load_checkpoint(locate_model(arguments.human, "calibrate"))
    dataset = open_dataset(DataConfig(name="human"))
    final = calibrated(human, answers(human, dataset, "train"), temperature=temperature)
    assert final.familiarity is not None
    measured = {"distance": distances, "doubt": doubts}
    limits = {name: (float(np.median(x)), _MARGIN * float(np.quantile(x, _PASSED))) for name, x in measured.items()}
    familiarity = final.familiarity.replace(signs={**final.familiarity.signs, **limits})
    save_checkpoint(arguments.out, final.replace(familiarity=familiarity), half=True)


if __name__ == "__main__":
    main()
