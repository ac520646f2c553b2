"""Compiled functions are kept where numba keeps them, or else in a folder of ours; nobody else is concerned."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import hodgeformer
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere

COMPILING = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import numpy as np
    from hodgeformer.draw.raster import _only_largest
    _only_largest(np.float32(1), np.float32(0), np.float32(0))
print(len([warning for warning in told if "compile" in str(warning.message)]), *_only_largest.stats.cache_hits.values())
"""
NOBODY_ELSE = """
import os, sys, warnings
before = dict(os.environ)
import hodgeformer
assert "numba" not in sys.modules
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import hodgeformer.draw.raster
assert dict(os.environ) == before
import numba
assert not numba.config.CACHE_DIR
def mine(x):
    return x + 1
try:
    numba.njit(cache=True)(mine)
except RuntimeError as error:
    assert "cannot cache function" in str(error)
else:
    raise AssertionError("numba has nowhere to keep this function, and did not say so")
"""
ONE_VARIANT = """
import sys
import numba
from numba.core import event
import hodgeformer as hf
from hodgeformer.mesh.io import load_mesh
seen = []
class Listener(event.Listener):
    def on_start(self, event):
        seen.append(event.data["dispatcher"].py_func.__module__.startswith("hodgeformer."))
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
hf.Predictor.load("human").predict(load_mesh(sys.argv[1]))
assert 10 < sum(seen) < 20, sum(seen)  # as many as are worth their time
functions = {
    f"{module.__name__}.{name}": function.nopython_signatures
    for module in list(sys.modules.values()) if getattr(module, "__name__", "").startswith("hodgeformer.")
    for name, function in vars(module).items() if isinstance(function, numba.core.dispatcher.Dispatcher)
}
print({name: variants for name, variants in functions.items() if len(variants) > 1})
"""
READ_ONLY = """
set -e
for place in "$@"; do
    mount --bind "$place" "$place"
    mount -o remount,ro,bind "$place"
done
if [ -n "$TMPDIR" ]; then
    mount --bind "$TMPDIR" "$TMPDIR"
    mount -o remount,rw,bind "$TMPDIR"
fi
exec "$PYTHON" "${WORDS[@]}"
"""
UNSHARE = ["unshare", "--mount", *(() if hasattr(os, "getuid") and os.getuid() == 0 else ("--map-root-user",))]


def run_read_only(words: Sequence[str], home: Path, temporary: Path | None) -> subprocess.CompletedProcess[str]:
    """Python where the installation and the home are mounted read-only, and all temporary folders but one or none."""
    if not shutil.which("unshare") or subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("folders cannot be mounted read-only here: needs Linux, and root or user namespaces")
    package = Path(hodgeformer.__file__).parent
    script = f"WORDS=({shlex.join(words)})\n{READ_ONLY}"
    places = [package, home, *(place for place in map(Path, ("/tmp", "/var/tmp")) if place.is_dir())]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    }
    environment |= {"HOME": str(home), "TMPDIR": str(temporary or ""), "PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(package.parent)
    command = [*UNSHARE, "bash", "-c", script, "bash", *map(str, places)]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(params=[True, False], ids=["temporary", "nothing"])
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path | None]:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home, temporary):
        folder.mkdir()
    return home, temporary if request.param else None


def test_where_nothing_can_be_written_code_is_compiled_all_the_same(folders: tuple[Path, Path | None]) -> None:
    """In a folder of temporary files that is ours alone, then without any; with one warning.

    What lies compiled beside the package is not compiled again.
    """
    subprocess.run([sys.executable, "-c", COMPILING], check=True, capture_output=True)
    found = run_read_only(["-c", COMPILING], *folders)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == (["1", "1"] if folders[1] else ["1"])
    if folders[1]:
        (folder,) = folders[1].iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(folder.rglob("*.nbi"))


def test_functions_of_others_and_the_environment_are_left_alone(folders: tuple[Path, Path | None]) -> None:
    (folders[0] / "others.py").write_text(NOBODY_ELSE)
    found = run_read_only(["others.py"], *folders)
    assert found.returncode == 0, found.stderr


def test_a_first_prediction_compiles_each_function_once(tmp_path: Path) -> None:
    save_mesh(icosphere(2), tmp_path / "ball.obj")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "nothing compiled yet")}
    command = [sys.executable, "-c", ONE_VARIANT, str(tmp_path / "ball.obj")]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "{}"


WRITING = """
import sys
from pathlib import Path
from hodgeformer.base.files import write_atomically
write_atomically(Path(sys.argv[1]), b"1")
"""


def test_a_read_only_folder_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    found = run_read_only(["-c", WRITING, str(tmp_path / "a.txt")], tmp_path, None)
    assert re.search(r"a\.txt: .*Read-only", found.stderr.splitlines()[-1])
    words = ["view", "--no-browser", "--out", str(tmp_path / "new" / "labels")]
    viewer = run_read_only(["-m", "hodgeformer", *words], tmp_path, None)
    assert viewer.returncode == 2
    assert re.search(r"labels: .*read-only.*--out", viewer.stderr)


@pytest.mark.attack
def test_predicting_where_nothing_can_be_written(folders: tuple[Path, Path | None]) -> None:
    home, temporary = folders
    save_mesh(icosphere(2), home / "ball.obj")
    out = ["--out", str(temporary)] if temporary else ["--format", "none"]
    found = run_read_only(["-m", "hodgeformer", "predict", "human", str(home / "ball.obj"), *out], home, temporary)
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("UserWarning") == 1
    assert not temporary or (temporary / "ball.ply").is_file()
