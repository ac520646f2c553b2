"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow, and compiling a kernel is too; neither says anything about the code.
settings.register_profile("hodgeformer", deadline=None)
settings.load_profile("hodgeformer")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The root of the benchmark meshes, which are not part of the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("HODGEFORMER_DATA", beside))
    if not root.is_dir():
        pytest.skip(f"benchmark meshes not found at {root}; set HODGEFORMER_DATA to their folder")
    return root
