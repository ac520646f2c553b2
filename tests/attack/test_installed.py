"""The wheel in an empty environment with what it asks for and nothing else: the demo, training, predicting, the viewer.

Run by `make wheel`; installing torch takes a minute.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from test_package import ROOT, build_both


def installed(root: Path) -> Path:
    """Where the programs of the environment are."""
    _, wheel = build_both(root)
    subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)
    programs = root / "venv" / ("Scripts" if os.name == "nt" else "bin")
    words = ["install", "--quiet", "--no-compile", "--constraint", str(ROOT / "constraints.txt"), f"{wheel}[view]"]
    subprocess.run([str(programs / "python"), "-m", "pip", *words], check=True)
    return programs


def run(bin_folder: Path, folder: Path, *words: str) -> str:
    command = [str(bin_folder / "hodgeformer"), *words]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def environment() -> dict[str, str]:
    """Without the sources, which would be found instead of what is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def train_and_predict(bin_folder: Path, folder: Path) -> None:
    listed = subprocess.run([bin_folder / "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"pytest|hypothesis|trimesh|matplotlib", listed)
    run(bin_folder, folder, "demo", "--epochs", "1", "--out", "demo")
    (page,) = (folder / "demo").glob("*.html")
    assert page.stat().st_size > 10_000
    words = ("--out", "run", "--set", "train.epochs=1", "--set", "model.blocks=HT", "--set", "model.d_model=16")
    run(bin_folder, folder, "train", str(folder / "demo" / "data"), *words)
    mesh = next((folder / "demo" / "data").rglob("*.ply"))
    for model in ("human", "run"):
        run(bin_folder, folder, "predict", model, str(mesh), "--out", f"by-{model}")
        assert (folder / f"by-{model}" / mesh.name).is_file()


def open_the_viewer(bin_folder: Path, folder: Path) -> None:
    command = [str(bin_folder / "hodgeformer"), "view", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            address = next(found[0] for line in viewer.stdout if (found := re.search(r"http://\S+", line)))
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address, timeout=60) as page:
                text = page.read().decode()
            (script,) = re.findall(r'src="([^"]+\.js)"', text)
            with opener.open(urllib.request.urljoin(address, script), timeout=60) as answer:
                assert len(answer.read()) > 100_000
        finally:
            viewer.terminate()


@pytest.mark.attack(minutes=3)
def test_the_wheel_alone_shows_the_demo_trains_predicts_and_answers_a_browser(tmp_path: Path) -> None:
    programs = installed(tmp_path)
    train_and_predict(programs, tmp_path)
    open_the_viewer(programs, tmp_path)
