"""What the bundled `human` says of its own answers, from models that have never seen a family.

    python tests/calibrate_human.py HUMAN FAMILY=RUN ... --out NEW.safetensors

HUMAN has learned from every body at hand, so its own answers cannot tell how sure it may be. Each RUN left one family
out: its answers there give the temperature, and how far unseen bodies lie from known ones gives the limits of what is
familiar. Centers and spreads of features are those of HUMAN itself.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from hodgeformer.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.familiarity import Familiarity
from hodgeformer.predict.pretrained import locate_model
from hodgeformer.train.evaluate import Answer, Evaluator, calibrated

_KNOWN = 4  # every so many-th of the bodies that a model learned from


def answers(checkpoint: Checkpoint, dataset: DataSet, split: str, step: int = 1) -> list[Answer]:
    evaluator = Evaluator(dataset, dataset.split(split)[::step], checkpoint.prepare)
    return list(evaluator.answers(checkpoint.build_model()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("human")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    limits: dict[str, list[tuple[float, float]]] = {}
    temperatures, errors = {}, {}
    for text in arguments.runs:
        family, _, run = text.partition("=")
        checkpoint = load_checkpoint(locate_model(run))
        dataset = open_dataset(DataConfig(name="human", hold_out=(family,)))
        unseen = answers(checkpoint, dataset, "val")
        fitted = calibrated(checkpoint, unseen)
        temperatures[family] = fitted.temperature
        assert fitted.familiarity is not None
        known = calibrated(checkpoint, answers(checkpoint, dataset, "train", _KNOWN)).familiarity
        assert known is not None
        center, spread = np.array(known.center), np.array(known.spread)
        far = [float(np.sqrt(np.mean(((answer.features - center) / spread) ** 2))) for answer in unseen]
        usual = float(np.median(far))
        limits.setdefault("distance", []).append((usual, usual + 2 * (float(np.quantile(far, 0.95)) - usual)))
        limits.setdefault("doubt", []).append(fitted.familiarity.signs["doubt"])
        errors[family] = len(unseen)
        print(f"{family}: {len(unseen)} bodies, temperature {fitted.temperature:.3f}, distances {usual:.2f}", flush=True)
    weights = np.sqrt([errors[family] for family in temperatures])
    temperature = float(np.exp(np.average(np.log(list(temperatures.values())), weights=weights)))
    human = load_checkpoint(locate_model(arguments.human))
    dataset = open_dataset(DataConfig(name="human"))
    final = calibrated(human, answers(human, dataset, "train"), temperature=round(temperature, 3))
    assert final.familiarity is not None
    signs = dict(final.familiarity.signs)
    for name, pairs in limits.items():
        usual = float(np.median([pair[0] for pair in pairs]))
        signs[name] = usual, max(pair[1] for pair in pairs)
    familiarity = Familiarity(center=final.familiarity.center, spread=final.familiarity.spread, signs=signs)
    save_checkpoint(arguments.out, replace(final, familiarity=familiarity))
    print(f"temperature {temperature:.3f}, signs {signs}")


if __name__ == "__main__":
    main()
