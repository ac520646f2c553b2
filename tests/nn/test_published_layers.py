"""What the authors' code has and the paper does not say: BatchNorm in feed-forward layers, dropout on what a block adds
to its input, and a mesh head that does not center."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.linear import NormalizedFeedForward
from hodgeformer.kernels.rows import normalized
from hodgeformer.mesh.prepare import prepare
from hodgeformer.nn.blocks import TransformerBlock
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack
from hodgeformer.training.distributed import Processes, share_statistics
from hodgeformer.training.learner import recentered
from meshes import all_kinds, single_triangle

SMALL = {"n_classes": 5, "d_model": 16, "d_hidden": 24, "n_heads": 2, "blocks": "HTD", "updates": "vef"}
PUBLISHED = {"feed_forward_norm": True, "residual_dropout": 0.1, "center_head": False}


@pytest.fixture(scope="module")
def batch() -> Batch:
    return pack([prepare(mesh) for mesh in all_kinds()])


def published(**changes: Any) -> HodgeFormer:
    torch.manual_seed(0)
    return HodgeFormer(ModelConfig(**{"task": "classification", **SMALL, **PUBLISHED, **changes}))


@pytest.mark.parametrize("task", ["classification", "segmentation"])
def test_in_evaluation_company_changes_no_answer(batch: Batch, task: str) -> None:
    model = published(task=task)
    for _ in range(3):
        model(batch)
    with torch.inference_mode():
        together = model.eval()(batch)
        alone = torch.cat([model(pack([prepare(mesh)])) for mesh in all_kinds()])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_the_hidden_layer_is_normalized_over_all_rows_of_a_batch() -> None:
    torch.manual_seed(0)
    layers = NormalizedFeedForward(6, 10, 4).double()
    x = torch.randn(40, 6, dtype=torch.float64)
    hidden = layers.expand(x).relu()
    scaled = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + layers.norm.eps).sqrt()
    torch.testing.assert_close(layers(x), layers.contract(scaled))
    torch.testing.assert_close(layers.norm.running_mean, 0.1 * hidden.mean(0))
    layers.eval()
    torch.testing.assert_close(layers(x)[7:9], layers(x[7:9]))


def test_a_single_row_trains_with_the_statistics_of_before() -> None:
    model = published(updates="vf").train()
    assert model(pack([prepare(single_triangle())])).isfinite().all()


def test_dropout_acts_on_both_branches_and_keeps_their_mean() -> None:
    torch.manual_seed(0)
    config = ModelConfig.parse({"task": "segmentation", **SMALL, "updates": "v", "dropout": 0.0})
    topology = pack([prepare(mesh) for mesh in all_kinds()]).topology
    x = PerElement(*(torch.randn(n, 16) for n in topology.n))
    plain = TransformerBlock(config)
    block = TransformerBlock(config.replace(residual_dropout=0.4))
    block.load_state_dict(plain.state_dict())
    assert torch.equal(block.eval()(x, topology).v, plain.eval()(x, topology).v)

    def first_branch(out: Tensor) -> Tensor:
        return out - x.v

    with torch.no_grad():
        for layer in block.feed_forward.values():  # silence the second branch
            layer.contract.weight.zero_(), layer.contract.bias.zero_()
        whole = block.attention(x.replace(v=normalized(x.v)), topology)["v"]
        seen = first_branch(block.train()(x, topology).v)
    dropped = (seen == 0).float().mean()
    assert 0.35 < dropped < 0.45
    kept = seen != 0
    torch.testing.assert_close(seen[kept], whole[kept] / 0.6, rtol=1e-3, atol=1e-4)


def test_every_parameter_learns(batch: Batch) -> None:
    model = published(updates="v").train()
    torch.nn.functional.cross_entropy(model(batch), torch.arange(len(batch)) % 5).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_a_head_without_centering_has_no_statistics(batch: Batch) -> None:
    model = published()
    assert not [name for name in model.state_dict() if name.startswith("head.center")]
    ready = recentered(model, [batch])
    before = model.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in ready.state_dict().items())


def test_what_would_train_another_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="checkpoint_activations; set one of them to false"):
        published(checkpoint_activations=True)
    with pytest.raises(ConfigError, match="train with one process"):
        share_statistics(published(), Processes(0, 2))
