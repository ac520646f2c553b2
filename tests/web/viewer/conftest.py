"""Fixtures of the viewer's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hodgeformer.mesh.io import save_mesh
from meshes import icosphere
from tiny_models import write_tiny


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder a viewer saves into; not made yet."""
    return tmp_path / "saved" / "here"


@pytest.fixture
def client(out: Path) -> Iterator[Any]:
    """A client of a viewer whose model goes by the sign of x."""
    from starlette.testclient import TestClient

    from hodgeformer.web.viewer.app import create_app
    from viewer_parts import BASE, make_viewer

    with TestClient(create_app(make_viewer(out)), base_url=BASE) as opened:
        yield opened


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights."""
    return write_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("viewer")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    """With blocks of all kinds."""
    return write_tiny(folder, blocks="HDT", star_std=0.5)


@pytest.fixture(scope="module")
def address(folder: Path, model: Path) -> Iterator[str]:
    """A running viewer that saves into folder/out."""
    from hodgeformer.web.viewer.app import make_viewer
    from viewer_parts import running

    viewer = make_viewer(model=str(model), mesh=None, out=folder / "out", faces="original", up="auto")
    with running(viewer) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def ball(folder: Path) -> Path:
    path = folder / "ball.ply"
    save_mesh(icosphere(3), path)
    return path
