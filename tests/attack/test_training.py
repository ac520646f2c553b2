"""Random kills inside training: nothing is lost, and what is resumed ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_training.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")


def killed(kills: int, folder: Path) -> dict[str, int]:
    seed = int(os.environ.get("HODGEFORMER_ATTACK_SEED", "0"))
    command = [sys.executable, str(SCRIPT), str(kills), str(seed), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_a_few_random_kills_change_nothing(tmp_path: Path) -> None:
    told = killed(6, tmp_path)
    assert told["kills"] == 6 and told["different"] == 0


@pytest.mark.attack
def test_many_random_kills_change_nothing(tmp_path: Path) -> None:
    told = killed(int(os.environ.get("HODGEFORMER_ATTACK_KILLS", "200")), tmp_path)
    print(json.dumps(told))  # noqa: T201 - the table of the attack
    assert told["different"] == 0 and told["after_first_state"] > told["kills"] // 2
