"""Scripts that kill their own children: how a child is made, and how a script is run and tells what it saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.mutate import SEED

_PARENT = os.getppid()


def in_child(act: Callable[[], object]) -> int:
    """The number of a process that is forked from this one, does this in silence, and ends."""
    if os.getppid() != _PARENT:
        raise SystemExit("the test that started this script was stopped")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - ends with the process
            act()
            code = 0
        finally:
            os._exit(code)
    return child


def told_by(script: str, kills: int, folder: Path, part: int = 0) -> Any:
    """What a script of this folder prints at its end, after so many kills."""
    command = [sys.executable, str(Path(__file__).with_name(script)), str(kills), str(1000 * SEED + part), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
