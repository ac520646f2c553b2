"""The three switches against numbers of the layers of the authors' code.

`authors_layers.npz` contains a small surface, features, weights and answers. The answers are not the output of that
code. A program that shares nothing with it or with this package computed them from its formulas (decision 14).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hodgeformer.base.containers import KINDS, PerElement, SparsityPattern
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer

FIXTURE = np.load(Path(__file__).with_name("authors_layers.npz"))


def model_of(task: str, dropout: float) -> HodgeFormer:
    config = {"blocks": "HT", "updates": "vef", "d_model": 8, "d_hidden": 10, "n_heads": 2, "n_classes": 3}
    switches = {"feed_forward_norm": True, "residual_dropout": dropout, "center_head": False, "dropout": dropout}
    model = HodgeFormer(ModelConfig.parse({"task": task, **config, **switches})).double()
    weights, own = torch.from_numpy(FIXTURE["weights"].astype(np.float64)), model.state_dict()
    shapes = {name: own[name].shape for name in FIXTURE["names"]}
    parts = weights.split([shape.numel() for shape in shapes.values()])
    given = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    missing, unknown = model.load_state_dict(given, strict=False)
    assert not unknown and all(name.startswith("embedding") or name.endswith("batches_tracked") for name in missing)
    return model


def surface() -> PackedComplex:
    n = PerElement(*(len(FIXTURE[f"rows.{kind}"]) for kind in KINDS))
    sides = {name: torch.from_numpy(FIXTURE[name].astype(np.int64)) for name in ("edges", "faces", "face_edges")}
    return PackedComplex(
        n=n,
        offsets=PerElement.build(lambda kind: (0, n[kind])),
        patterns=PerElement.build(lambda kind: rows_of(FIXTURE[f"rows.{kind}"])),
        positions=torch.zeros(n.v, 3),
        face_signs=torch.from_numpy(FIXTURE["face_signs"]),
        **sides,
    )


def rows_of(padded: np.ndarray) -> SparsityPattern[torch.Tensor]:
    """Rows that are filled up with -1."""
    offsets = np.concatenate([[0], (padded >= 0).sum(axis=1).cumsum()])
    return SparsityPattern.from_csr(torch.from_numpy(offsets), torch.from_numpy(padded[padded >= 0]))


@pytest.mark.parametrize("mode", ["evaluation", "training"])
@pytest.mark.parametrize(("task", "answer"), [("segmentation", "faces"), ("classification", "mesh")])
def test_the_switches_give_the_layers_of_the_authors_code(task: str, answer: str, mode: str) -> None:
    training = mode == "training"
    model, complex_ = model_of(task, dropout=0.0 if training else 0.1).train(training), surface()
    x = PerElement(*(torch.from_numpy(FIXTURE[f"x.{kind}"].astype(np.float64)) for kind in KINDS))
    with torch.no_grad():
        found = model.head(model.encoder(x, complex_), complex_)
    np.testing.assert_allclose(found.numpy(), FIXTURE[f"{answer}.{mode}"], rtol=0, atol=1e-6)
