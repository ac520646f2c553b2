"""Exported models on real meshes: the labels that PyTorch finds, every one of them."""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs the run-time of exported models: pip install 'hodgeformer[export]'")

from attack.mutate import tally
from hodgeformer.export.export import export
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.prepare import prepare
from hodgeformer.nn.pack import pack
from hodgeformer.predict.exported import GraphInputs, load_exported
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
    off, own = (
        max(errors)
        for errors in zip(*errors_of_single_precision(model, tmp_path / "model.onnx", paths[::5]), strict=True)
    )
    sys.stdout.write(f"{model}: {n_labels} labels of 50 meshes are the same, probabilities within {worst:.1e}; ")
    sys.stdout.write(f"one frame is within {off:.1e} of double precision, PyTorch within {own:.1e}\n")
    tally(f"exported {model} beside PyTorch", len(paths), f"{n_labels} labels the same, within {worst:.1e}")
    assert off < max(1e-4, 2 * own), "the graph is further from double precision than PyTorch"
    assert worst < max(1e-4, off + own), "the answers differ by more than rounding"


@torch.no_grad()
def errors_of_single_precision(name: str, exported: Path, paths: list[Path]) -> list[tuple[float, float]]:
    """How far the graph and PyTorch are from double precision: the worst probability of each mesh, in one frame."""
    checkpoint = Predictor.load(name).checkpoint
    model, network = checkpoint.build_model(), load_exported(exported)[1]
    errors = []
    for path in paths:
        view = prepare(load_mesh(path), checkpoint.prepare, embedded=("v", "e", "f"))
        batch = pack([view])
        exact = deepcopy(model).double()(batch.to(dtype=torch.float64)).softmax(1)
        graph = torch.from_numpy(network.run(GraphInputs(view, model.config.d_model))[0][:, 0])
        off, own = (float((rows.double().softmax(1) - exact).abs().max()) for rows in (graph, model(batch)))
        errors.append((off, own))
    return errors
