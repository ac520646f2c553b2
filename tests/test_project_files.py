"""Files that no program here reads: the container, the workflows, the templates, the change log."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hodgeformer import __version__

yaml = pytest.importorskip("yaml", reason="needs a reader of YAML: pip install pyyaml")

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_container_copies_what_is_there_and_installs_what_there_is() -> None:
    text = (ROOT / "Dockerfile").read_text()
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, flags=re.M) for name in line.split()}
    assert copied == sent and all((ROOT / name).exists() for name in copied)
    assert {"src", "constraints.txt", PROJECT["readme"], *PROJECT["license-files"]} <= copied
    for extras in re.findall(r"\.\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert re.search(r"^USER (?!root)", text, flags=re.M)


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_call_what_there_is(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    made = [target for step in steps(workflow) for target in re.findall(r"make (\w+)", step.get("run", ""))]
    assert made and set(made) <= TARGETS
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(re.search(r"@(release/)?v\d+$", name) for name in used)  # a major version, so that fixes come
    assert "http" not in path.read_text()


def test_every_allowed_python_is_tested() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())["jobs"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert f">={classified[0]}" == PROJECT["requires-python"]
    for job in ("resolve", "test"):
        assert jobs[job]["strategy"]["matrix"]["python"] == classified
    readme = (ROOT / PROJECT["readme"]).read_text()
    assert all(version in readme for version in classified)


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[bf]*.yml")), ids=lambda path: path.stem)
def test_templates_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"]
    assert all(field["attributes"]["label"] for field in form["body"])


def test_the_version_is_written_once_and_told() -> None:
    assert "version" in PROJECT["dynamic"]
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    headings = re.findall(r"^## \[?([^\]\s]+)\]?", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert headings[:2] == ["Unreleased", __version__]
