"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import settings
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from hodgeformer.data.folder import write_folder
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.training import report
from tiny_models import write_tiny
from tiny_sets import parts

# A busy machine is slow, and compiling a kernel is too; neither says anything about the code.
settings.register_profile("hodgeformer", deadline=None)
settings.load_profile("hodgeformer")


@pytest.fixture(scope="session", autouse=True)
def _compile_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let one worker compile a kernel and the others wait and read it from the cache, instead of all compiling it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    shared, compiled = tmp_path_factory.getbasetemp().parent, Dispatcher.compile

    def compile_once(kernel: Dispatcher, signature: Any) -> Any:
        function = kernel.py_func
        if not function.__module__.startswith("hodgeformer."):  # numba's own functions are not cached
            return compiled(kernel, signature)
        lock = shared / f"{function.__module__}-{function.__code__.co_firstlineno}.lock"
        # In this order, because threads share the first; a kernel may be compiled while it is compiled for other types.
        with global_compiler_lock, FileLock(lock, is_singleton=True):
            return compiled(kernel, signature)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compile", compile_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _small_pictures() -> Iterator[None]:
    """Draw reports small: at full size, pictures take most of the time of a tiny run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_PICTURE_WIDTH", 200)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The root of the benchmark meshes, which are not part of the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("HODGEFORMER_DATA", beside))
    if not root.is_dir():
        pytest.skip(f"benchmark meshes not found at {root}; set HODGEFORMER_DATA to their folder")
    return root


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights. No test writes to it, nor to the next one."""
    return write_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def eggs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small data set."""
    root = tmp_path_factory.mktemp("eggs")
    write_folder(parts(), root)
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs a browser driver: pip install playwright")
    from viewer_tab import CHROMIUM_OPTIONS

    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("Chromium not found; install it, on Debian with: apt install chromium")
    with sync_api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=found, args=CHROMIUM_OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def octahedron() -> Mesh:
    vertices = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    faces = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    return Mesh(vertices, np.array(faces), "octahedron")


@pytest.fixture
def strip() -> Mesh:
    """Four triangles in a row: 6 vertices, 9 edges."""
    vertices = np.array([[x, y, 0] for x in range(3) for y in range(2)], dtype=float)
    return Mesh(vertices, np.array([[0, 2, 1], [1, 2, 3], [2, 4, 3], [3, 4, 5]]), "strip")
