"""The code as it is: which file imports which, which package uses which, and the files that a command passes through.

`make map` writes the drawings of docs/architecture.md anew.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hodgeformer"
FILES = tuple(sorted(SOURCE.rglob("*.py")))
PAGE = ROOT / "docs" / "architecture.md"
ENTRY_POINTS = ("__init__", "__main__")  # the public names and `python -m`; nothing imports them


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module or name a file imports: anywhere in it, for types only, relative, or by `import_module`."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                parts = package.split(".")
                home = ".".join([*parts[: len(parts) - node.level + 1], *([home] if home else [])])
            yield home
            yield from (f"{home}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            name = node.args[0]
            # A name put together at run time still begins with the name of its package.
            text = name.values[0] if isinstance(name, ast.JoinedStr) else name
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value.rstrip(".")


def module_graph() -> dict[str, set[str]]:
    """Each module of the package with the modules it imports. Packages count only as the file they are."""
    modules = {module_of(path): path for path in FILES}
    return {name: (modules.keys() & imports(path)) - {name} for name, path in modules.items()}


def package_graph() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        if (here := package_of(path)) not in ENTRY_POINTS:
            there = {name.split(".")[1] for name in imports(path) if name.startswith("hodgeformer.")}
            graph.setdefault(here, set()).update(there - {here, "__version__"})
    return graph


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Some modules that import each other in a circle, or none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


def drawn_packages() -> str:
    """The packages as a Mermaid graph. An arrow that follows from others is left out."""
    graph = package_graph()

    def reached(name: str) -> set[str]:
        return set().union(*({other} | reached(other) for other in graph[name]))

    lines = ["```mermaid", "graph BT"]
    for name in sorted(graph):
        implied = set().union(*(reached(other) for other in graph[name]))
        lines += [f"  {name} --> {other}" for other in sorted(graph[name] - implied)]
    return "\n".join([*lines, "```"])


def files_entered(act: Callable[[], object]) -> list[str]:
    """The files whose functions `act` calls, in the order of the first call; what merely imports does not count."""
    import torch

    from hodgeformer.kernels import _numba_linear

    entered: dict[str, None] = {}
    prefix = f"{SOURCE}{os.sep}"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # rows that other threads work on would not be seen

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & 0x02 and not code.co_name.startswith("<")  # CO_NEWLOCALS: not a class body
        if event == "call" and is_function and code.co_filename.startswith(prefix):
            entered.setdefault(code.co_filename.removeprefix(prefix).replace(os.sep, "/"))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with patch.object(_numba_linear, "faster_than_torch", lambda: True):  # on every processor the same
            act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        torch.set_num_threads(threads)
    return list(entered)


def package_changes(files: list[str]) -> int:
    return sum(a.split("/")[0] != b.split("/")[0] for a, b in pairwise(files))


def drawn_walk(files: list[str]) -> str:
    """The files of a walk, a line for each stay in a package."""
    lines = []
    for name, stay in groupby(files, key=lambda file: file.split("/")[0].removesuffix(".py")):
        inside = [file.partition("/")[2].removesuffix(".py") for file in stay]
        lines.append(f"- **{name}**" + (": " + ", ".join(f"`{file}`" for file in inside) if inside != [""] else ""))
    return f"{len(files)} files, {package_changes(files)} changes of package.\n\n" + "\n".join(lines)


def with_drawing(page: str, name: str, drawing: str) -> str:
    """The page with what stands between its marks for `name` drawn anew."""
    return re.sub(
        rf"(<!-- drawn: {name} -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{drawing}\n{m[2]}", page, flags=re.S
    )


@contextmanager
def predicting() -> Iterator[Callable[[], object]]:
    """`hodgeformer predict human x.obj`."""
    from typer.testing import CliRunner

    from hodgeformer.cli import app
    from hodgeformer.lab.bench.yardsticks import bumpy_torus
    from hodgeformer.mesh.io import save_mesh

    with tempfile.TemporaryDirectory() as folder:
        save_mesh(bumpy_torus(256), Path(folder) / "x.obj")

        def act() -> None:
            answer = CliRunner().invoke(app, ["predict", "human", f"{folder}/x.obj", "--out", f"{folder}/out"])
            assert answer.exit_code == 0, answer.output

        yield act


@contextmanager
def training() -> Iterator[Callable[[], object]]:
    """One step of training: two meshes read, changed, prepared, packed, and learned from."""
    from hodgeformer.data.folder import write_folder
    from hodgeformer.data.synthetic import synthetic_figures
    from hodgeformer.training.setup import set_up

    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder) / "data", Path(folder) / "run"
        write_folder(synthetic_figures(n_train=4, n_test=2, n_faces=200), data)
        setup = set_up(data, run, settings=['model.blocks="HT"', "train.workers=0", "train.batch_size=2"])
        learner = setup.learner()
        with setup.training_loader() as loader:
            batches = loader.batches()
            yield lambda: learner.learn(next(batches), 1e-3)


WALKS: dict[str, Callable[[], AbstractContextManager[Callable[[], object]]]] = {
    "predict": predicting,
    "training": training,
}

if __name__ == "__main__":
    text = with_drawing(PAGE.read_text(encoding="utf-8"), "packages", drawn_packages())
    for name, walk in WALKS.items():
        with walk() as act:
            act()  # compiles what is not compiled yet
            text = with_drawing(text, name, drawn_walk(files_entered(act)))
    PAGE.write_text(text, encoding="utf-8")
