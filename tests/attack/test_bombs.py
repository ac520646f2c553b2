"""The peak of memory for every file that asks for far more than its bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import bombs
from attack.attempts import MEMORY, TIMES_THE_FILE, Attempts
from attack.mutate import tally
from hodgeformer.base.memory import held_memory, peak_memory
from hodgeformer.mesh.io import load_mesh

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is reset by /proc"),
]


def measured(path: Path) -> None:
    """Read it; the peak goes into a file beside it."""
    Path("/proc/self/clear_refs").write_text("5")
    before = held_memory() or 0
    try:
        load_mesh(path)
    finally:
        path.with_name("peak").write_text(str((peak_memory() or 0) - before))


def test_the_peak_of_every_bomb(tmp_path: Path) -> None:
    """Each is read or refused within 300 MB and 20 times its bytes."""
    worst, rows = 0.0, []
    with Attempts("attack.test_bombs:measured") as reader:
        list(reader.attempts([bombs.bomb(name, tmp_path / "first") for name in bombs.NAMES[:3]], limited=False))
        for name in bombs.NAMES:
            path = bombs.bomb(name, tmp_path)
            (outcome,) = reader.attempts([path], limited=False)
            peak, allowed = int(path.with_name("peak").read_text()), MEMORY + TIMES_THE_FILE * path.stat().st_size
            rows.append(f"{name:24} {path.stat().st_size / 1e6:6.1f} MB on disk, peak {peak / 1e6:5.0f} MB, {outcome}")
            assert outcome in ("accepted", "refused") and peak <= allowed, rows[-1]
            worst = max(worst, peak / allowed)
            path.unlink()
    sys.stdout.write("\n".join(rows) + "\n")
    tally("bombs", len(rows), f"{len(rows)} within 300 MB + 20 x their bytes; the worst took {worst:.0%} of that")
