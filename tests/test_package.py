"""What is published is whole: an sdist from which the wheel is built, and in the wheel all that the package reads."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="needs what packages are built with: pip install hatchling")

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import sys; from hatchling import build; getattr(build, sys.argv[1])(sys.argv[2])"


def built(kind: str, source: Path, folder: Path) -> Path:
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (file,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


def build_both(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from what is in it."""
    sdist = built("sdist", ROOT, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return sdist, built("wheel", source, folder)


def test_sdist_and_wheel_are_complete(tmp_path: Path) -> None:
    sdist, wheel = build_both(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        told = "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith(".txt"))
    assert inside == files_below(ROOT / "src") | {f"hodgeformer/{name}" for name in files_below(ROOT, "configs")}
    for name in (
        "py.typed",
        "models/human.safetensors",
        "web/viewer/static/index.html",
        "draw/page.html",
        "configs/human.toml",
    ):
        assert f"hodgeformer/{name}" in inside
    assert "hodgeformer = hodgeformer.cli:main" in told
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames()}
    wanted = set().union(*(files_below(ROOT, name) for name in ("src", "tests", "docs", "configs", "results")))
    assert wanted <= packed and {"Makefile", "constraints.txt", "constraints-oldest.txt", "README.md"} <= packed


def files_below(root: Path, folder: str = ".") -> set[str]:
    """What belongs to the sources below a folder, without what was made from them."""
    made = ("__pycache__", "_build", "reference")
    found = (path.relative_to(root) for path in (root / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in found if not any(part in made for part in path.parts)}


def test_the_oldest_versions_are_those_that_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    used = [project["dependencies"], *(extras[name] for name in extras if name not in ("dev", "docs"))]
    wanted = (re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", text) for texts in used for text in texts)
    least = {found[1]: found[2] for found in wanted if found}
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    newest = (ROOT / "constraints.txt").read_text().splitlines()
    assert f"torch=={oldest.pop('torch')}" in newest  # of which one version is tested
    assert least.pop("torch")
    assert oldest.keys() == least.keys()
    for name, version in oldest.items():
        assert re.fullmatch(rf"{re.escape(least[name])}(\.0)*", version), f"{name} {version} is not the least allowed"
