"""Resolve every extra against constraints.txt as an ordinary machine would, for each Python that is supported.

pip's configuration, extra links and local packages are switched off, so torch is that of the plain index, which brings
its own CUDA libraries. Nothing is installed. Ends with 1 if a Python cannot resolve; a Python that is not on this
machine, or an index that cannot be reached, is reported and does not count as a failure.

    python .ci/resolve.py [3.12 ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("PIP_CERT", "PIP_PROXY", "PIP_DEFAULT_TIMEOUT")  # how the index is reached, not what it offers
UNREACHABLE = ("ConnectionError", "NewConnectionError", "Could not fetch URL", "Temporary failure in name resolution")


def supported() -> list[str]:
    """The Pythons of the classifiers."""
    prefix = "Programming Language :: Python :: 3."
    return [f"3.{line.removeprefix(prefix)}" for line in project()["classifiers"] if line.startswith(prefix)]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def interpreter(version: str) -> str | None:
    """A Python of this version that starts: on the path, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        candidates.insert(0, sys.executable)
    starts = (path for path in candidates if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0)
    return next(starts, None)


def resolve(python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What pip would install, without installing it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_") or name in KEPT}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)

    run(python, "-m", "venv", str(folder))
    pip = (str(folder / ("Scripts" if os.name == "nt" else "bin") / "python"), "-m", "pip")
    # pip before 24 downloads every wheel of a dry run.
    run(*pip, "install", "--quiet", "pip>=24")
    extras = ",".join(sorted(project()["optional-dependencies"]))
    return run(
        *pip, "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--no-binary", "hodgeformer",
        "--constraint", "constraints.txt", f".[{extras}]",
    )  # fmt: skip


def main(versions: list[str]) -> int:
    failed = False
    for version in versions or supported():
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not on this machine, skipped")
            continue
        with tempfile.TemporaryDirectory() as folder:
            done = resolve(python, Path(folder) / "venv")
        if done.returncode == 0:
            chosen = done.stdout.strip().splitlines()[-1].removeprefix("Would install ").split()
            torch = [name for name in chosen if name.startswith(("torch-", "triton-"))]
            print(f"Python {version}: resolves, {len(chosen)} packages, {' '.join(torch)}")
        elif any(sign in done.stderr for sign in UNREACHABLE):
            print(f"Python {version}: the package index cannot be reached, skipped")
        else:
            print(f"Python {version}: does not resolve\n{done.stderr.strip()}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
