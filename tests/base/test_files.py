"""One way to write a file, and one meaning of offline."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import hodgeformer
from hodgeformer.base.errors import CheckpointError, ConfigError, OutputError
from hodgeformer.base.files import offline, place, write_atomically
from hodgeformer.mesh.io import save_mesh
from meshes import icosphere


def test_a_full_disk_is_the_error_of_the_caller_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "labels.txt"
    write_atomically(path, b"before")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match=r"labels\.txt: cannot be written \(No space left on device\).*unchanged"):
        write_atomically(path, b"after")
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_atomically(path, b"after", CheckpointError)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_address_is_read_and_written_like_a_path() -> None:
    path = place("memory://places/a/labels.txt")
    write_atomically(path, b"1\n")
    assert path.read_bytes() == b"1\n" and str(path) == "memory://places/a/labels.txt"
    assert place(path) is path


def test_an_address_on_this_machine_is_a_path(tmp_path: Path) -> None:
    assert place(f"file://{tmp_path}/a.ply") == place(str(tmp_path / "a.ply")) == tmp_path / "a.ply"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://bucket/a.ply", "pip install s3fs"),
        ("gs://bucket/a.ply", "pip install gcsfs"),
        ("https://host/a.ply", r"pip install 'fsspec\[http\]'"),
        ("scans://a.ply", "not an address that can be read"),
    ],
)
def test_an_address_that_cannot_be_read_here_says_what_to_do(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("s3fs", "gcsfs", "aiohttp", "fsspec.implementations.http"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=said) as raised:
        place(address)
    assert "\n" not in str(raised.value)


def test_addresses_without_their_package_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(ConfigError, match=r"^s3://a/b: addresses need a package: pip install 'hodgeformer\[remote\]'$"):
        place("s3://a/b")


def test_a_folder_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does its folder exist"):
        write_atomically(tmp_path / "none" / "labels.txt", b"")


@pytest.mark.parametrize(
    ("value", "expected"), [("", False), ("0", False), ("false", False), ("No", False), ("1", True), ("true", True)]
)
def test_offline_is_said_in_words_or_numbers(value: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HODGEFORMER_OFFLINE", value)
    assert offline() is expected


def test_drafts_of_a_process_that_was_killed_are_removed(tmp_path: Path) -> None:
    old, young, other = (tmp_path / name for name in (".a.txt.0123abcd.tmp", ".b.txt.0123abcd.tmp", ".mine.tmp"))
    for path in (old, young, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (0, 0))
    write_atomically(tmp_path / "c.txt", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name, "c.txt"}


COMPILING = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import numpy as np
    from hodgeformer.draw.raster import _only_largest
    _only_largest(np.float32(1), np.float32(0), np.float32(0))
print(len([warning for warning in told if "compile" in str(warning.message)]), *_only_largest.stats.cache_hits.values())
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


@pytest.mark.attack
def test_predicting_where_nothing_can_be_written(folders: tuple[Path, Path | None]) -> None:
    home, temporary = folders
    save_mesh(icosphere(2), home / "ball.obj")
    out = ["--out", str(temporary)] if temporary else ["--format", "none"]
    found = run_read_only(["-m", "hodgeformer", "predict", "human", str(home / "ball.obj"), *out], home, temporary)
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("UserWarning") == 1
    assert not temporary or (temporary / "ball.ply").is_file()
