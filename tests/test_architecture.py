"""The rules of docs/architecture.md: imports point one way, mesh/ does not import torch, only cli/ prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from code_map import (
    ENTRY_POINTS,
    FILES,
    PAGE,
    SOURCE,
    cycle,
    drawn_packages,
    imports,
    module_graph,
    package_of,
    with_drawing,
)


def levels() -> dict[str, int]:
    """The row of each package in the table of docs/architecture.md."""
    rows = re.findall(r"^\| (\d+) \| (`[^|]+`) \|", PAGE.read_text(encoding="utf-8"), re.M)
    return {name: int(number) for number, packages in rows for name in re.findall(r"`(\w+)`", packages)}


LEVEL = levels()


def test_every_package_has_a_row() -> None:
    assert set(LEVEL) == {package_of(path) for path in FILES} - {*ENTRY_POINTS, "models"}
    loose = [path.name for path in SOURCE.glob("*.py")]
    assert sorted(loose) == ["__init__.py", "__main__.py"], "the root holds the public names and nothing else"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    here = package_of(path)
    if here in ENTRY_POINTS:
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "hodgeformer":
            continue
        assert len(parts) > 1 or here == "cli", f"{path} imports the package as a whole"
        there = parts[1] if len(parts) > 1 else here
        assert there in LEVEL, f"{path} imports {name}, which has no row in docs/architecture.md"
        assert there == here or LEVEL[there] < LEVEL[here], f"{path} imports {name}, not in a row above"


def test_no_modules_import_each_other() -> None:
    graph = {name: others - {"hodgeformer"} for name, others in module_graph().items() if name != "hodgeformer"}
    assert not cycle(graph)


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name != "__init__.py"], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_no_file_only_reexports(path: Path) -> None:
    """Every file defines something."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    said = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    assert len(said) > 1, f"{path} contains nothing but imports"


def test_the_page_draws_the_packages_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_drawing(page, "packages", drawn_packages()) == page, "run `make map`"


@pytest.mark.parametrize("path", sorted((SOURCE / "mesh").rglob("*.py")), ids=lambda p: p.name)
def test_mesh_does_not_import_torch(path: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imports(path))


@pytest.mark.parametrize("path", [p for p in FILES if package_of(p) != "cli"], ids=lambda p: str(p.relative_to(SOURCE)))
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
