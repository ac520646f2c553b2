"""Kill training at random moments, resume it, and compare with a run that nobody disturbed.

    python tests/attack/kill_training.py KILLS SEED FOLDER

Children are forked from a process that has trained once, so that a kill costs the training and no start of Python.
What is printed at the end is JSON: kills, how many fell after the first state of a run, runs, and how many ended
with other weights or rows than the undisturbed one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from attack.kills import in_child
from hodgeformer.data.folder import write_folder
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.training import report
from hodgeformer.training.run import train
from hodgeformer.training.run_folder import RunFolder
from tiny_sets import TINY, parts, shapes

KILLS_OF_A_RUN = 8
SETTINGS = [*TINY, "train.epochs=12", "train.save_every=0.0005", "train.eval_every=3", "augment.rotation=so3"]


def ended_as(first: Path, second: Path) -> bool:
    for name in ("best", "last"):
        one, two = (load_checkpoint(root / f"{name}.safetensors").weights for root in (first, second))
        if one.keys() != two.keys() or not all(torch.equal(one[key], two[key]) for key in one):
            return False
    rows = [[(row["epoch"], row["train_loss"]) for row in RunFolder(root).rows()[0]] for root in (first, second)]
    return rows[0] == rows[1]


def main() -> None:
    wanted, seed, root = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    rng = random.Random(seed)
    report._PICTURE_WIDTH = 200  # at full size, pictures would take most of the time
    whole, seconds = {}, {}
    # Without validation meshes a run ends with rehearsals, which are killed too.
    for name, dataset in (("parts", parts()), ("shapes", shapes(n_val=1))):
        write_folder(dataset, root / name)
        train(root / name, root / f"first-{name}", overrides=SETTINGS)  # compiles, which no child has to
        began = time.monotonic()
        whole[name] = train(root / name, root / f"whole-{name}", overrides=SETTINGS).folder
        seconds[name] = time.monotonic() - began
    told = {"kills": 0, "after_first_state": 0, "runs": 0, "different": 0, "seed": seed}
    while told["kills"] < wanted:
        name = rng.choice(list(whole))
        out = root / f"run-{told['runs']}"
        told["runs"] += 1
        for _ in range(min(KILLS_OF_A_RUN, wanted - told["kills"])):
            begun = RunFolder(out).config.exists()
            child = in_child(lambda: train(None, out) if begun else train(root / name, out, overrides=SETTINGS))  # noqa: B023
            time.sleep(rng.uniform(0, 0.5 * seconds[name]))
            after = RunFolder(out).state.exists()
            os.kill(child, signal.SIGKILL)
            if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
                told["kills"] += 1
                told["after_first_state"] += after
            elif RunFolder(out).report.exists():
                break  # it was done
        begun = RunFolder(out).config.exists()
        train(None, out) if begun else train(root / name, out, overrides=SETTINGS)
        told["different"] += not ended_as(whole[name], out)
        drafts = list(out.glob(".*.tmp"))
        assert not drafts, drafts
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
