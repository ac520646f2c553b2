"""The page that is shipped is the page that its sources give."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[3] / "web"


def test_the_committed_page_is_what_its_sources_give() -> None:
    if shutil.which("npm") is None:
        pytest.skip("Node not found; the page cannot be built here (users do not need to)")
    if not (WEB / "node_modules" / "oxlint").is_dir():
        pytest.skip("the page's packages are not installed; run: npm ci --prefix web")
    run = subprocess.run([WEB / "check_build.sh"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
