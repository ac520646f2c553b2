"""Training in a notebook, by a real kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import hodgeformer

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELL = """
import hodgeformer as hf
from hodgeformer.data.synthetic import synthetic_figures

figures = synthetic_figures(n_train=2, n_val=1, n_test=1, n_faces=200, seed=0)
pairs = [figures.load(sample) for sample in figures.samples]
outcome = hf.train(pairs, {out!r}, epochs=2, blocks="D", d_model=8, workers=0, calibrate=False)
"""


def outputs_of(code: str, folder: Path) -> list[dict[str, Any]]:
    cell = nbformat.v4.new_code_cell(code)
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(cells=[cell]), timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return json.loads(json.dumps(cell.outputs))  # type: ignore[no-any-return]


def test_training_shows_one_bar_and_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(Path(hodgeformer.__file__).resolve().parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))
    outputs = outputs_of(CELL.format(out=str(tmp_path / "run")), tmp_path)
    bars = [output["data"]["text/plain"] for output in outputs if output["output_type"] == "display_data"]
    assert len(bars) == 1
    line = next(line for line in bars[0].splitlines() if line.startswith("training"))
    assert "━" * 12 in line and "epoch 2/2, loss" in line
    printed = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "plan: " in printed and "epoch    2  loss" in printed
    assert "training: epoch" not in printed  # the bar says it
