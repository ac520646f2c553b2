"""Fixtures of the viewer's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiny_models import write_tiny


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder a viewer saves into; not made yet."""
    return tmp_path / "saved" / "here"


@pytest.fixture
def client(out: Path) -> Iterator[Any]:
    """A client of a viewer whose model goes by the sign of x."""
    from starlette.testclient import TestClient

    from hodgeformer.view.app import create_app
    from viewer_parts import BASE, make_viewer

    with TestClient(create_app(make_viewer(out)), base_url=BASE) as opened:
        yield opened


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights."""
    return write_tiny(tmp_path_factory.mktemp("model"))
