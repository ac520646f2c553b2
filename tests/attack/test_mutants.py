"""Every deliberate error is noticed by the test that is named for it; the ordinary run shows that it passes without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hodgeformer.lab.mutants import MUTANTS

pytestmark = pytest.mark.attack


@pytest.mark.parametrize("name", MUTANTS)
def test_every_error_is_noticed(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "hodgeformer.lab.mutants", MUTANTS[name].test]
    environment = {**os.environ, "HODGEFORMER_MUTANT": name, "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED and " error" not in done.stdout.splitlines()[-1], done.stdout
