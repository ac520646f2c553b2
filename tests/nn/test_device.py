"""A training step stays on its device: on `meta`, which has no numbers, any copy to the processor is an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hodgeformer.kernels import spreading
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn import hodge_star
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack
from meshes import icosphere, open_grid

PREPARE = PrepareConfig(n_neighbors=12)


def as_loaded() -> Batch:
    """With what the loader computes ahead."""
    batch = pack([prepare(mesh, PREPARE) for mesh in (icosphere(2), open_grid())], transpose=True)
    for name in ("surface", "gradient", "curl", "face_corners"):
        getattr(batch.topology, name)
    return batch


def step(blocks: str, **settings: Any) -> None:
    config = ModelConfig(
        task="segmentation", n_classes=3, blocks=blocks, d_model=16, d_hidden=16, n_heads=2, **settings
    )
    model, batch = HodgeFormer(config).to("meta"), as_loaded().to("meta")
    optimizer = torch.optim.AdamW(model.parameters())
    target = torch.zeros(batch.n.f, dtype=torch.int64, device="meta")
    torch.nn.functional.cross_entropy(model(batch), target).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    assert all(weight.grad is not None and weight.grad.is_meta for weight in model.parameters())


@pytest.mark.parametrize("bound", [0.0, 3.0])
@pytest.mark.parametrize("blocks", ["DD", "TDT"])
def test_nothing_of_a_step_goes_through_the_host(blocks: str, bound: float) -> None:
    step(blocks, star_bound=bound)


@pytest.mark.parametrize("settings", [{}, {"signed_stars": True, "edge_reversal": PREPARE.edge_reversal}])
def test_nothing_around_star_attention_goes_through_the_host(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Star attention itself is a Triton kernel on a GPU, which `meta` has not; a product of its shape stands in."""
    monkeypatch.setattr(hodge_star, "star_attention", lambda *, q, k, y, **_: y * (q * k).mean(2, keepdim=True))
    step("DHTD", star_bound=3.0, **settings)


def test_the_test_sees_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As larger meshes are solved: by the processor, wherever their numbers lie."""
    monkeypatch.setattr(spreading, "DENSE_UP_TO", 10)
    with pytest.raises(NotImplementedError, match="meta"):
        step("D")


def test_the_dense_way_is_the_answer_of_the_processor() -> None:
    """Half precision stands in for another device: no compiled loop runs on it."""
    batch = as_loaded()
    x = torch.randn(batch.n.v, 16)
    surface = batch.topology.surface
    dense: Tensor = spreading.dense_spread(x, surface.stars)
    torch.testing.assert_close(dense, spreading.spread(x, surface.stars), rtol=1e-4, atol=1e-5)
    rounded = spreading.spread(x.bfloat16(), surface.stars)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), dense, rtol=0.05, atol=0.05)
