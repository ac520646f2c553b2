"""Kill prediction and label saving at random moments, go on, and compare with what nobody disturbed.

    python tests/attack/kill_saving.py KILLS SEED FOLDER

Children are forked from a process that has done the same once. What is printed at the end is JSON: for each of the two
the kills and how many fell inside the work. What is lost, half there or different ends the script with an error.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from attack.kills import in_child
from hodgeformer.cli import app
from hodgeformer.data.folder import open_folder
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.web.viewer.open_meshes import OpenMesh
from hodgeformer.web.viewer.outbox import Annotation, Outbox
from tiny_models import write_tiny
from tiny_sets import stretched

N_MESHES = 12
CLASSES = tuple("abcdefg")
MESHES = [stretched(i, (1.0, 1.1, 1.2), f"ball_{i:02}") for i in range(N_MESHES)]
N_FORMATS = 3
PAUSE = 0.03


def content(folder: Path) -> dict[str, bytes]:
    found = folder.iterdir() if folder.is_dir() else ()
    return {path.name: path.read_bytes() for path in found if not path.name.startswith(".")}


def kill_predictions(wanted: int, rng: random.Random, root: Path) -> dict[str, int]:
    meshes, out, model = root / "meshes", root / "out", str(write_tiny(root))
    meshes.mkdir()
    for mesh in MESHES:
        save_mesh(mesh, meshes / f"{mesh.name}.obj")

    def predict(out: Path) -> None:
        words = ["predict", model, str(meshes), "--out", str(out), "--format", "ply,json,txt"]
        app(words, standalone_mode=False)

    predict(root / "whole")
    whole, there = content(root / "whole"), dict[str, bytes]()
    assert len(whole) == N_MESHES * N_FORMATS
    told = {"kills": 0, "inside": 0, "ends": 0}
    while told["kills"] < wanted:
        after, before = rng.randint(len(there), len(whole)), len(there)
        was_killed = killed(lambda: predict(out), lambda: len(content(out)) >= after, rng.uniform(0, PAUSE))  # noqa: B023
        there = content(out)
        assert there == {name: whole[name] for name in there}, "a file is not whole"
        told["kills"] += was_killed
        told["inside"] += was_killed and before < len(there) < len(whole)
        if not was_killed or len(there) == len(whole):
            assert there == whole, "a run that went on ended otherwise"
            told["ends"] += 1
            shutil.rmtree(out)
            there = {}
    predict(out)
    assert content(out) == whole, "a run that went on ended otherwise"
    return told


def killed(act: Callable[[], object], is_time: Callable[[], bool], pause: float) -> bool:
    """Whether a child was still at work when it was killed, so many seconds after it was time."""
    child = in_child(act)
    while not is_time() and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.001)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed"
    return os.WIFSIGNALED(status)


def kill_savings(wanted: int, rng: random.Random, root: Path) -> dict[str, int]:
    """Each mesh gets the labels of one class everywhere, then those of the next, and so on."""
    told, saved = {"kills": 0, "inside": 0, "saved": 0}, 0
    while told["kills"] < wanted:
        acknowledged, after = root / "acknowledged", saved + rng.randrange(5)
        is_time = lambda: size(acknowledged) >= after  # noqa: B023, E731
        told["kills"] += killed(lambda: save_from(saved, root, acknowledged), is_time, rng.uniform(0, PAUSE))  # noqa: B023
        told["inside"] += size(acknowledged) > saved
        saved = size(acknowledged)
        check_labels(root, saved)
    return told | {"saved": saved}


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def save_from(first: int, root: Path, acknowledged: Path) -> None:
    """A byte is added to the file for each that is saved."""
    opened, outbox = [OpenMesh(mesh) for mesh in MESHES], Outbox(root)
    for i in count(first):
        mesh = opened[i % N_MESHES]
        labels = np.full(mesh.mesh.n_faces, expected(i))
        annotation = Annotation(labels, CLASSES, tuple((j, j, j) for j in range(len(CLASSES))))
        outbox.save(mesh, annotation)
        outbox.add_to_data_set(mesh, annotation, "set")
        with acknowledged.open("ab") as stream:
            stream.write(b".")


def expected(i: int) -> int:
    return i // N_MESHES % len(CLASSES)


def check_labels(root: Path, saved: int) -> None:
    """What was told to be saved is there; only the one that was being saved may be the old one or the new."""
    for path in root.glob("ball_*"):
        if path.suffix == ".txt":
            words = path.read_text().split()
            assert len(set(words)) == 1 and len(words) == MESHES[0].n_faces, path
        elif path.suffix in (".ply", ".glb"):
            load_mesh(path)
        else:
            assert json.loads(path.read_text())["classes"] == list(CLASSES), path
    if saved == 0:
        return
    data = open_folder(root / "set")
    for sample in data.samples:
        (label,) = np.unique(data.load(sample)[1]).tolist()
        place = int(sample.name.split("_")[1].split(".")[0])
        last = (saved - 1 - place) // N_MESHES * N_MESHES + place  # of this mesh, the last that was told
        allowed = {expected(last)} if last >= 0 else set()
        allowed |= {expected(saved)} if saved % N_MESHES == place else set()
        assert label in allowed, (sample.name, label, allowed)
    assert len(data.samples) in (min(saved, N_MESHES), min(saved + 1, N_MESHES))


def main() -> None:
    wanted, rng, root = int(sys.argv[1]), random.Random(int(sys.argv[2])), Path(sys.argv[3])
    torch.set_num_threads(1)
    folders = [root / "predictions", root / "labels"]
    for folder in folders:
        folder.mkdir()
    told = [kill(wanted, rng, folder) for kill, folder in zip((kill_predictions, kill_savings), folders, strict=True)]
    print(json.dumps(dict(zip(("predictions", "labels"), told, strict=True))))  # noqa: T201


if __name__ == "__main__":
    main()
