"""The documentation: its reference has no gap, its commands run, its pages are built without a warning."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from clock import PATIENCE
from command import run
from pages import ROOT, blocks, run_as_script, run_commands, run_here

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_verb_and_option_has_a_sentence(reference: ModuleType) -> None:
    found = list(reference.verbs())
    assert {"hodgeformer train", "hodgeformer study ablation"} <= {name for name, _, _ in found}
    for name, text, rows in found:
        assert text.endswith((".", "...")), name
        for row in rows:
            assert row.meaning.split("  [")[0].strip().endswith("."), f"{name} {row.name}"


@pytest.mark.parametrize("option", ["--device", "--memory", "--quiet", "--smooth", "--split", "--tta", "--up"])
def test_an_option_means_the_same_in_every_verb(option: str, reference: ModuleType) -> None:
    found = [(name, row.meaning) for name, _, rows in reference.verbs() for row in rows if option in row.name.split()]
    assert len(found) > 1 and len({meaning for _, meaning in found}) == 1, found


def test_every_setting_has_a_sentence_and_a_default(reference: ModuleType) -> None:
    for _, group in reference.GROUPS:
        for row in reference.settings(group):
            assert row.meaning == group.model_fields[row.name].description
            assert "; default " in row.values


def test_files_that_pages_name_are_there() -> None:
    pages = [*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md"), *ROOT.glob("*.md")]
    roots = (ROOT, ROOT / "src" / "hodgeformer", ROOT / "tests")
    file = re.compile(r"`([a-z_]+/[a-z_0-9/]+\.py)`")
    named = [(page.name, name) for page in pages for name in file.findall(page.read_text())]
    assert len(named) > 20
    assert [both for both in named if not any((root / both[1]).is_file() for root in roots)] == []


def test_names_of_the_glossary_are_in_the_code() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src" / "hodgeformer").rglob("*.py"))
    rows = [line.split("|")[2] for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    names = {
        name for row in rows for term in re.findall(r"`([^`]+)`", row) for name in re.findall(r"[A-Za-z_]\w+", term)
    }
    assert len(names) > 40
    assert sorted(name for name in names - {"HHTHHT"} if not re.search(rf"\b{name}\b", code)) == []


def test_classes_that_pages_name_are_in_the_code() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src" / "hodgeformer").rglob("*.py"))
    pages = [ROOT / "CONTRIBUTING.md", *(DOCS / f"{name}.md" for name in ("architecture", "library", "method"))]
    names = {name for page in pages for name in re.findall(r"`(?:hf\.)?([A-Z][a-z]+[A-Z]\w+)[`(\[]", page.read_text())}
    assert len(names) > 10
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", code)) == []


def test_drawings_are_those_of_their_script() -> None:
    spec = importlib.util.spec_from_file_location("drawings", DOCS / "drawings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["drawings"] = module
    spec.loader.exec_module(module)
    for name, drawn in module.DRAWINGS.items():
        assert (DOCS / "images" / f"{name}.svg").read_text() == drawn().svg(), "run `make pictures`"


def test_every_public_name_has_a_sentence(reference: ModuleType) -> None:
    for name, value in reference.public_names():
        assert (inspect.getdoc(value) or "").strip(), name


def test_every_public_function_has_an_example_that_runs(reference: ModuleType) -> None:
    """Those of the README and of the page of public names are run by their own tests."""
    examples = (ROOT / "README.md").read_text() + (DOCS / "library.md").read_text()
    code = "".join(re.findall(r"```python\n(.*?)```", examples, flags=re.DOTALL))
    functions = [name for name, value in reference.public_names() if inspect.isfunction(value)]
    assert [name for name in functions if not re.search(rf"{re.escape(name)}\(", code)] == []


def test_the_reference_says_what_the_code_says(reference: ModuleType, tmp_path: Path) -> None:
    reference.write(tmp_path / "reference")
    settings = (tmp_path / "reference" / "settings.md").read_text()
    assert "| `lr` | number > 0; default not set |" in settings
    assert '| `optimizer` | `"adam"`, `"adamw"`; default `"adamw"` |' in settings
    commands = (tmp_path / "reference" / "commands.md").read_text()
    assert "## `hodgeformer predict`" in commands and "`--format" in commands
    assert "## `hf.Predictor`" in (tmp_path / "reference" / "api.md").read_text()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page asks for: OBJ files, CSV files with a label per face, its dataset.toml, and a new mesh."""
    from hodgeformer.data.figures import figure
    from hodgeformer.mesh.io import save_mesh

    folder = tmp_path_factory.mktemp("own")
    for kind in ("meshes", "labels"):
        (folder / "my_data" / kind).mkdir(parents=True)
    for i in range(8):
        mesh, labels = figure(np.random.default_rng(i), n_faces=200)
        save_mesh(mesh, folder / "my_data" / "meshes" / f"{i}.obj")
        np.savetxt(folder / "my_data" / "labels" / f"{i}.csv", labels, fmt="%d")
    (folder / "my_data" / "dataset.toml").write_text(blocks("docs/own-data.md", "toml")[0])
    for name in ("new.obj", "scan.stl"):
        save_mesh(figure(np.random.default_rng(99), n_faces=300)[0], folder / name)
    return folder


def test_from_folder_to_model_as_the_page_says(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_commands("docs/own-data.md", desk, monkeypatch) > 3
    assert all((desk / "out" / f"new.{suffix}").is_file() for suffix in ("ply", "json", "png", "html"))
    code = "\n".join(blocks("docs/own-data.md", "python"))
    assert "minutes=10" in code
    code = code.replace("minutes=10", "epochs=1, blocks='D', d_model=16, workers=0")
    run_here(f"{code}\nassert len(result.labels) > 200", desk, monkeypatch)


@pytest.mark.parametrize("page", ["start", "predicting"])
def test_predicting_in_python_as_the_page_says(page: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hodgeformer.mesh.io import load_mesh, save_mesh

    mesh = load_mesh(desk / "scan.stl")
    save_mesh(mesh, desk / "scan.glb")
    (desk / "predictions").mkdir(exist_ok=True)
    labels = np.arange(mesh.n_faces) % 2
    save_mesh(mesh, desk / "predictions" / "scan.ply", face_labels=labels)
    np.savetxt(desk / "predictions" / "scan.txt", labels, fmt="%d")
    run_here("\n".join(blocks(f"docs/{page}.md", "python")), desk, monkeypatch)


@pytest.mark.slow
def test_training_in_python_as_the_page_says(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings are shortened: what they do is the same, in workers too. As a script, the README's code trains."""
    shutil.copytree(desk / "my_data", tmp_path / "my_data")
    shutil.copy(desk / "new.obj", tmp_path)
    code = "\n".join(blocks("docs/python.md", "python")).replace(", minutes=10", "")
    code = code.replace("folds=5", "folds=2")
    run_here(code.replace("hf.train(", "hf.train(epochs=1, blocks='D', d_model=16, data="), tmp_path, monkeypatch)
    runs = {path.parent.name: path.read_text() for path in (tmp_path / "runs").glob("*/config.toml")}
    assert set(runs) == {"mine", "other", "folds"}
    assert not any("workers = 0" in config for config in runs.values())


def test_every_page_with_python_is_run() -> None:
    pages = {path.stem for path in DOCS.glob("*.md") if blocks(f"docs/{path.name}", "python")}
    assert pages == {"start", "predicting", "python", "own-data", "deploying", "library"}


@pytest.mark.slow
def test_exporting_and_serving_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")
    if shutil.which("curl") is None:
        pytest.skip("curl not found; install it, on Debian with: apt install curl")
    from hodgeformer.data.figures import figure
    from hodgeformer.mesh.io import save_mesh

    (tmp_path / "scans").mkdir()
    for i, name in enumerate(("scan.stl", "scans/a.obj", "scans/b.ply")):
        save_mesh(figure(np.random.default_rng(i), n_faces=300)[0], tmp_path / name)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    exporting, serving, asking = blocks("docs/deploying.md", "sh")
    monkeypatch.chdir(tmp_path)
    exported = run(*shlex.split(exporting)[1:])
    assert exported.exit_code == 0, exported.output
    run_as_script(blocks("docs/deploying.md", "python")[0], tmp_path)
    assert (tmp_path / "scan.ply").is_file()
    words = shlex.split(serving.replace("8000", "0"))
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = re.findall(r"http://127.0.0.1:(\d+)", server.stdout.readline())[0]
        try:
            for command in asking.replace("8000", port).splitlines():
                subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True, timeout=PATIENCE)
        finally:
            server.terminate()
    assert server.returncode == 0
    written = ("scan.json", "scan.glb", "both.json", "both.zip", "metrics.txt")
    assert all((tmp_path / name).stat().st_size > 500 for name in written)


OTHERS = ("README.md", "CONTRIBUTING.md", "Dockerfile", ".github/ISSUE_TEMPLATE/bug.yml")


@pytest.mark.parametrize("page", [*sorted(f"docs/{path.name}" for path in DOCS.glob("*.md")), *OTHERS])
def test_commands_of_every_page_exist(page: str, reference: ModuleType) -> None:
    """Verbs and options that a page names are those of the program."""
    known = {
        name: {word for row in rows for word in re.findall(r"--[\w-]+", row.name)}
        for name, _, rows in reference.verbs()
    }
    for line in re.findall(r"hodgeformer (?!\.)[^\n`#]*", (ROOT / page).read_text()):
        words = line.split()
        verb = f"hodgeformer {words[0]}"
        if verb not in known:
            continue  # prose
        if words[0] == "study" and len(words) > 1:
            verb = f"hodgeformer study {words[1].rstrip('`;,')}"
            assert verb in known, f"{page}: {line}"
        for option in re.findall(r"(?<!\S)--[\w-]+", line.split(" -m ")[-1]):
            assert option in known[verb] or option in known["hodgeformer"], f"{page}: {line}"


def test_pictures_are_small() -> None:
    pictures = sorted((DOCS / "images").iterdir())
    assert pictures
    assert all(picture.stat().st_size < 150_000 for picture in pictures)


@pytest.mark.attack
def test_the_site_is_built_without_a_warning_and_without_network(tmp_path: Path) -> None:
    """A workflow of its own builds it on every push."""
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    command += [str(DOCS), str(tmp_path / "site")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        outside = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:|//)', page.read_text())
        assert not outside, page.name
    for style in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:|//)|@import", style.read_text()), style.name
