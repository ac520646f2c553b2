"""The map of the project, guarded: imports point one way, mesh/ knows no torch, only cli/ prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "hodgeformer"
FILES = sorted(SOURCE.rglob("*.py"))

# Each room may import from the rooms of the rows above it, and from itself. Rooms in one row do not see each other.
LEVELS = [
    {"errors"},
    {"containers", "files", "memory", "palette", "settings", "threads"},
    {"mesh", "ops"},
    {"packed"},
    {"nn"},
    {"checkpoint", "draw"},
    {"data", "predict"},
    {"train"},
    {"study", "bench"},
    {"viewer"},
    {"cli"},
]
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "hodgeformer")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__"):
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "hodgeformer" or len(parts) == 1 or parts[1] == "__version__":
            continue
        there = parts[1]
        assert there in LEVEL, f"{path} imports {name}, which has no place on the map"
        assert there == here or LEVEL[there] < LEVEL[here], f"{path} imports {name} against the arrows"


@pytest.mark.parametrize("path", sorted((SOURCE / "mesh").rglob("*.py")), ids=lambda p: p.name)
def test_mesh_knows_no_torch(path: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imports(path))


@pytest.mark.parametrize("path", [p for p in FILES if room(p) != "cli"], ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_the_command_line_prints(path: Path) -> None:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert not any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls)


def loaded_modules(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {line.split(".")[0] for line in run.stdout.splitlines()}


@pytest.mark.parametrize("statement", ["import hodgeformer", "import hodgeformer.cli"])
def test_importing_is_light(statement: str) -> None:
    heavy = {"torch", "numba", "scipy", "trimesh", "matplotlib", "starlette"}
    assert not heavy & loaded_modules(statement)


def test_every_public_name_exists() -> None:
    import hodgeformer

    for name in hodgeformer.__all__:
        assert getattr(hodgeformer, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = hodgeformer.no_such_name
