"""Deliberate errors, each with the test that must notice it; they are listed in mutants.toml.

    python -m hodgeformer.lab.mutants --list
    python -m hodgeformer.lab.mutants [NAME ...]

Each is put into a copy of the source, alone, and its test has to fail there. Each text occurs exactly once in
`src`, in any file. If you rewrite that line, rewrite the error too.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mutant:
    name: str
    text: str
    replaced: str
    test: str


MUTANTS = tuple(
    Mutant(name=name, **mutant)
    for name, mutant in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
)


def place_of(mutant: Mutant, source: Path = SOURCE) -> Path:
    """The one file that contains the text."""
    files = [path for path in sorted(source.rglob("*.py")) if mutant.text in path.read_text(encoding="utf-8")]
    if len(files) != 1 or files[0].read_text(encoding="utf-8").count(mutant.text) != 1:
        raise LookupError(f"'{mutant.name}': its text occurs in {len(files)} files of src, expected exactly once")
    return files[0]


def copied_source(folder: Path) -> Path:
    """A copy of the source with its compiled kernels, which are reused while a file is unchanged."""
    return Path(shutil.copytree(SOURCE, folder / "src", symlinks=True))


def noticed(mutant: Mutant, source: Path) -> bool:
    """Whether the test fails with the error in the copy; the copy is restored."""
    place = place_of(mutant, source)
    before, times = place.read_text(encoding="utf-8"), place.stat()
    place.write_text(before.replace(mutant.text, mutant.replaced), encoding="utf-8")
    try:
        return not passes([mutant.test], source)
    finally:
        place.write_text(before, encoding="utf-8")
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))


def passes(tests: Sequence[str], source: Path) -> bool:
    """Whether all the tests pass with the copy; anything but a pass or a failure is an error."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode not in (0, 1) or re.search(r"\d+ errors? in ", done.stdout):
        raise RuntimeError(f"{tests} could not be run:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    return done.returncode == 0


def main(names: Sequence[str]) -> int:
    if list(names) == ["--list"]:
        for mutant in MUTANTS:
            _LOG.info("%s  (%s)", mutant.name, mutant.test)
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        source = copied_source(Path(folder))
        for mutant in MUTANTS:
            if names and mutant.name not in names:
                continue
            found = noticed(mutant, source)
            survivors += not found
            _LOG.info("%s  %s  (%s)", "noticed " if found else "SURVIVED", mutant.name, mutant.test)
    return survivors


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sys.exit(bool(main(sys.argv[1:])))
