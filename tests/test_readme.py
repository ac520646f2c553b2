"""Every command and every line of Python in the README runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import meshes
from hodgeformer.mesh.io import save_mesh
from pages import ROOT, blocks, run_as_script, run_commands

README = (ROOT / "README.md").read_text()
CHECKS = """
assert 0.99 < result.probabilities.sum(axis=1).min() < 1.01
assert len(labels) == len(result.labels) == result.mesh.n_faces
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README speaks of: scan.stl, scans/, and the data set data/."""
    from hodgeformer.data.folder import write_folder
    from hodgeformer.data.synthetic import synthetic_figures

    folder = tmp_path_factory.mktemp("desk")
    save_mesh(meshes.icosphere(3), folder / "scan.stl")
    (folder / "scans").mkdir()
    for i in range(2):
        save_mesh(meshes.icosphere(2 + i), folder / "scans" / f"scan{i}.obj")
    write_folder(synthetic_figures(n_train=6, n_test=2, n_faces=200), folder / "data")
    return folder


def test_commands_run_as_written(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_commands("README.md", desk, monkeypatch) > 3
    assert (desk / "out" / "scan.ply").is_file()
    assert (desk / "out" / "scan.json").is_file()
    assert (desk / "out" / "scan1.glb").is_file()


def test_python_runs_as_written(desk: Path) -> None:
    """In a script of its own: training through workers must not run the script again."""
    printed = run_as_script("\n".join(blocks("README.md", "python")) + CHECKS, desk)
    assert printed.count("'face_accuracy'") == 1
    assert "workers = 0" not in (desk / "runs" / "mine" / "config.toml").read_text()
    assert (desk / "out.png").stat().st_size > 1000


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https://)([^)]+)\)", README):
        file, _, heading = target.partition("#")
        assert (ROOT / file).exists(), target
        titles = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(encoding="utf-8"), flags=re.M) if heading else ()
        assert not heading or heading in {title.lower().replace(" ", "-") for title in titles}, target
