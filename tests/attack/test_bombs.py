"""The peak of memory for every file that asks for far more than its bytes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import bombs
from attack.attempts import MEMORY, TIMES_THE_FILE, Attempts
from attack.mutate import tally
from hodgeformer.base.machine import peak_memory, used_memory
from hodgeformer.base.settings import read_toml
from hodgeformer.data.folder import open_folder
from hodgeformer.data.label_files import LABEL_SUFFIXES, read_labels, read_numbers
from hodgeformer.data.shards import write_shards
from hodgeformer.mesh.io import load_mesh
from tiny_sets import parts

pytestmark = [
    pytest.mark.attack(minutes=1),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is reset by /proc"),
]


FIRST = (*bombs.NAMES[:3], "names.index")  # so that what is compiled once does not count


def measured(path: Path) -> None:
    """Read it; the peak goes into a file beside it."""
    Path("/proc/self/clear_refs").write_text("5")
    before = used_memory() or 0
    try:
        read(path)
    finally:
        path.with_name("peak").write_text(str((peak_memory() or 0) - before))


def read(path: Path) -> object:
    """As training and prediction read a file of this name."""
    if path.suffix == ".toml":
        return read_toml(path)
    if path.suffix == ".pts":
        return read_numbers(path)
    if path.suffix == ".index":
        write_shards(parts(n_train=2, n_test=1), path.parent / "set")
        return open_folder(Path(shutil.copy(path, path.parent / "set" / "index.npz")).parent)
    return read_labels(path) if path.suffix in LABEL_SUFFIXES and path.suffix != ".ply" else load_mesh(path)


def test_the_peak_of_every_bomb(tmp_path: Path) -> None:
    """Each is read or refused within 300 MB and 20 times its bytes."""
    worst, rows = 0.0, []
    with Attempts("attack.test_bombs:measured") as reader:
        list(reader.attempts([bombs.bomb(name, tmp_path / "first") for name in FIRST], limited=False))
        for name in (*bombs.NAMES, *bombs.OTHERS):
            path = bombs.bomb(name, tmp_path)
            (outcome,) = reader.attempts([path], limited=False)
            peak, allowed = int(path.with_name("peak").read_text()), MEMORY + TIMES_THE_FILE * path.stat().st_size
            rows.append(f"{name:24} {path.stat().st_size / 1e6:6.1f} MB on disk, peak {peak / 1e6:5.0f} MB, {outcome}")
            either = name in bombs.OTHERS and name not in bombs.READ
            expected = ("accepted", "refused") if either else ("accepted" if name in bombs.READ else "refused",)
            assert outcome in expected and peak <= allowed, rows[-1]
            worst = max(worst, peak / allowed)
            path.unlink()
    sys.stdout.write("\n".join(rows) + "\n")
    tally("bombs", len(rows), f"{len(rows)} within 300 MB + 20 x their bytes; the worst took {worst:.0%} of that")
