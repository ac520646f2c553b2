"""The map of the project, guarded: imports point one way, mesh/ knows no torch, only cli/ prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from house import (
    DOORS,
    FILES,
    PAGE,
    SOURCE,
    WALKS,
    cycle,
    drawn_rooms,
    files_entered,
    imports,
    module_graph,
    room,
    with_drawing,
)

# Each room may import from the rooms of the rows above it, and from itself. Rooms in one row do not see each other.
LEVELS = [
    {"errors"},
    {"containers", "files", "memory", "palette", "settings", "threads"},
    {"mesh", "ops", "cluster"},
    {"packed", "familiarity"},
    {"nn"},
    {"trained"},
    {"checkpoint", "draw"},
    {"data", "predict"},
    {"train", "runtime"},
    {"study", "bench", "export"},
    {"server"},
    {"viewer"},
    {"cli"},
]
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    here = room(path)
    if here in DOORS:
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "hodgeformer" or len(parts) == 1 or parts[1] in DOORS or parts[1] == "__version__":
            continue
        there = parts[1]
        assert there in LEVEL, f"{path} imports {name}, which has no place on the map"
        assert there == here or LEVEL[there] < LEVEL[here], f"{path} imports {name} against the arrows"


def test_no_module_is_part_of_a_ring() -> None:
    graph = {name: others - {"hodgeformer"} for name, others in module_graph().items() if name != "hodgeformer"}
    assert not cycle(graph)


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name != "__init__.py"], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_no_file_only_forwards(path: Path) -> None:
    """Every file has something of its own to say."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    said = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    assert len(said) > 1, f"{path} holds nothing but imports"


def test_the_page_draws_the_rooms_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_drawing(page, "rooms", drawn_rooms()) == page, "docs/architecture.md is behind: make map"


@pytest.mark.parametrize("name", WALKS)
def test_the_page_tells_the_walks_as_they_are(name: str) -> None:
    """The files, not their order: threads that run ahead may change that."""
    text = re.search(rf"<!-- drawn: {name} -->\n(.*?)\n<!-- end -->", PAGE.read_text(encoding="utf-8"), re.S)
    assert text is not None
    told = set()
    for stay in re.finditer(r"^- \*\*(\w+)\*\*(?:: (.*))?$", text[1], re.M):
        inside = re.findall(r"`([\w/]+)`", stay[2] or "")
        told |= {f"{stay[1]}/{file}.py" for file in inside} or {f"{stay[1]}.py"}
    with WALKS[name]() as act:
        act()  # compiles what is not compiled yet
        assert set(files_entered(act)) == told, "docs/architecture.md is behind: make map"


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
