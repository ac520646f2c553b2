"""Exported models on real meshes: the labels that PyTorch finds, every one of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the run-time of exported models: pip install 'hodgeformer[export]'")

from attack.mutate import tally
from hodgeformer.export.export import export
from hodgeformer.predict.predictor import Predictor


@pytest.mark.attack(minutes=1)
@pytest.mark.real_data
@pytest.mark.parametrize(("model", "folder"), [("human", "human_seg/train"), ("shrec11", "shrec_16")])
def test_labels_of_fifty_meshes_are_those_of_torch(model: str, folder: str, real_data: Path, tmp_path: Path) -> None:
    found = sorted((real_data / folder).rglob("*.obj"))
    paths = [found[i * len(found) // 50] for i in range(50)]
    assert len(set(paths)) == 50
    export(Predictor.load(model).checkpoint, tmp_path / "model.onnx")
    both = (each.predict_many(paths) for each in (Predictor.load(model), Predictor.load(tmp_path / "model.onnx")))
    worst, n_labels = 0.0, 0
    for one, two in zip(*both, strict=True):
        np.testing.assert_array_equal(one.labels, two.labels, err_msg=str(one.path))
        worst = max(worst, float(np.abs(one.probabilities - two.probabilities).max()))
        n_labels += len(one.labels)
    sys.stdout.write(f"{model}: {n_labels} labels of 50 meshes are the same, probabilities within {worst:.1e}\n")
    tally(f"exported {model} beside PyTorch", len(paths), f"{n_labels} labels the same, within {worst:.1e}")
    assert worst < 1e-4
