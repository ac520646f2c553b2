"""The network against the paper's equations, written again with dense matrices, and against numbers of that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dense_paper import Surface, answer, surface_of
from hodgeformer.base.containers import KINDS
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from meshes import icosphere, open_grid, tetrahedron

NUMBERS = Path(__file__).with_name("dense_paper.json")
CASES: dict[str, dict[str, Any]] = {
    "text, faces": {"blocks": "HHT", "updates": "vef"},
    "text, mesh": {"blocks": "HT", "updates": "vef", "task": "classification"},
    "vertices, faces": {"blocks": "HTH", "updates": "v"},
    "as published, mesh": {
        "blocks": "HH", "updates": "v", "task": "classification", "feed_forward_norm": True, "residual_dropout": 0.1,
        "center_head": False,
    },
}  # fmt: skip


def model_of(case: str) -> HodgeFormer:
    """Weights from a formula, so that no generator of random numbers decides the figures."""
    shape = {"task": "segmentation", "n_classes": 3, "d_model": 8, "d_hidden": 12, "n_heads": 2}
    model = HodgeFormer(ModelConfig.parse(shape | CASES[case])).double().eval()
    for number, value in enumerate(model.state_dict().values()):
        if value.is_floating_point():
            angles = torch.arange(value.numel(), dtype=torch.float64).view(value.shape) * 0.7 + number
            scale = value.shape[1] ** -0.5 if value.ndim == 2 else 0.3
            value.copy_(1 + scale * angles.sin() if value.ndim == 1 else scale * 1.7 * angles.sin())
    return model


def dense(prepared: PreparedMesh) -> tuple[Surface, dict[str, NDArray[np.float64]]]:
    rows = {
        kind: np.split(np.asarray(pattern.indices), np.asarray(pattern.offsets)[1:-1])
        for kind, pattern in zip(KINDS, prepared.patterns, strict=True)
    }
    topology = prepared.topology
    surface = surface_of(topology.n.v, topology.faces, topology.edges, rows)
    return surface, {kind: prepared.x_in[kind].astype(np.float64) for kind in KINDS}


def by_equations(model: HodgeFormer, prepared: PreparedMesh) -> NDArray[np.float64]:
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    config, (surface, x_in) = model.config, dense(prepared)
    of = {"blocks": config.blocks, "updates": config.updates, "heads": config.n_heads}
    return answer(weights, x_in, surface, mesh=config.target_kind is None, **of)


def by_the_package(model: HodgeFormer, prepared: PreparedMesh) -> NDArray[np.float64]:
    with torch.inference_mode():
        return model(pack([prepared]).to(dtype=torch.float64)).numpy()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mesh", [icosphere(1), open_grid()], ids=lambda mesh: mesh.name)
def test_the_network_is_that_of_the_equations(mesh: Mesh, case: str) -> None:
    model, prepared = model_of(case), prepare(mesh, PrepareConfig(max_neighbors=None))
    expected = by_equations(model, prepared)
    assert np.ptp(expected, axis=0).max() > 1e-3 or case.endswith("mesh")
    np.testing.assert_allclose(by_the_package(model, prepared), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_the_figures_of_the_equations_stay(case: str) -> None:
    """A tetrahedron in which every element attends to all: nothing is left to a rule for neighbors."""
    model, prepared = model_of(case), prepare(tetrahedron(), PrepareConfig(n_neighbors=100))
    expected = np.array(json.loads(NUMBERS.read_text())[case])
    for found in (by_equations(model, prepared), by_the_package(model, prepared)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-7)  # input features are kept in float32


if __name__ == "__main__":
    prepared = prepare(tetrahedron(), PrepareConfig(n_neighbors=100))
    figures = {case: by_equations(model_of(case), prepared).round(10).tolist() for case in CASES}
    NUMBERS.write_text(json.dumps(figures, indent=1) + "\n")
