"""Each Laplacian is the dense product of the paper's equation, built here with explicit matrices in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hodgeformer.base.containers import KINDS, PerElement
from hodgeformer.mesh.prepare import prepare
from hodgeformer.nn.blocks import HodgeFormerBlock
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.hodge_star import HodgeStar
from hodgeformer.nn.laplacians import LAPLACIANS
from hodgeformer.nn.pack import pack
from meshes import all_kinds

CONFIG = ModelConfig(task="segmentation", n_classes=2, d_model=12, d_hidden=8, n_heads=3, updates="vef")


def dense_star(star: HodgeStar, x: Tensor, topology: PackedComplex) -> Tensor:
    """(h, n, n): softmax of q k^T / sqrt(d_head) over S_i, zero elsewhere."""
    n, h = len(x), star.n_heads
    pattern = topology.patterns[star.kind]
    allowed = torch.zeros(n, n, dtype=torch.bool)
    allowed[torch.repeat_interleave(torch.arange(n), pattern.offsets.diff()), pattern.indices.long()] = True

    def heads(weight: Tensor) -> Tensor:
        split = (x @ weight.T).view(n, h, -1).transpose(0, 1)
        centered = split - split.mean(-1, keepdim=True)
        return centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    q, k = heads(star.query.weight), heads(star.key.weight)
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1)


def equation(kind: str, laplacian, x: PerElement[Tensor], topology: PackedComplex) -> Tensor:
    """L_v = *0^-1 d0^T *1 d0,  L_e = d0 *0^-1 d0^T *1 + *1^-1 d1^T *2 d1,  L_f = d1 *1^-1 d1^T *2, per head."""
    d0 = topology.d0(torch.eye(topology.n.v, dtype=torch.float64))
    d1 = topology.d1(torch.eye(topology.n.e, dtype=torch.float64))
    star = {
        name: dense_star(module, x[module.kind], topology)
        for name, module in laplacian.named_children()
        if isinstance(module, HodgeStar)
    }
    operator = {
        "v": lambda: star["star0_inv"] @ d0.T @ star["star1"] @ d0,
        "e": lambda: d0 @ star["star0_inv"] @ d0.T @ star["star1"] + star["star1_inv"] @ d1.T @ star["star2"] @ d1,
        "f": lambda: d1 @ star["star1_inv"] @ d1.T @ star["star2"],
    }[kind]()
    value = (x[kind] @ laplacian.value.weight.T).view(len(x[kind]), CONFIG.n_heads, -1).transpose(0, 1)
    return (operator @ value).transpose(0, 1).flatten(1) @ laplacian.out.weight.T


def features(topology: PackedComplex, d: int = 12) -> PerElement[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return topology.n.map(lambda n: torch.randn(n, d, dtype=torch.float64, generator=generator))


@pytest.mark.parametrize("backend", ["numba", "reference"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", all_kinds(), ids=lambda mesh: mesh.name)
def test_each_laplacian_is_the_product_of_its_matrices(mesh, kind, backend):
    torch.manual_seed(0)
    topology = pack([prepare(mesh)]).to(dtype=torch.float64).topology
    x = features(topology)
    laplacian = LAPLACIANS[kind](CONFIG.replace(backend=backend)).double().eval()
    expected = equation(kind, laplacian, x, topology)
    assert expected.abs().max() > 1e-2 or mesh.name == "triangle"
    torch.testing.assert_close(laplacian(x, topology), expected, rtol=0, atol=1e-10)


def test_in_a_packed_batch_too():
    torch.manual_seed(0)
    topology = pack([prepare(mesh) for mesh in all_kinds()]).to(dtype=torch.float64).topology
    x = features(topology)
    for kind in KINDS:
        laplacian = LAPLACIANS[kind](CONFIG).double().eval()
        torch.testing.assert_close(laplacian(x, topology), equation(kind, laplacian, x, topology), rtol=0, atol=1e-10)


def test_gradients_of_a_block_against_differences():
    torch.manual_seed(0)
    config = ModelConfig(task="segmentation", n_classes=2, d_model=4, d_hidden=5, n_heads=2, updates="vef", dropout=0.3)
    topology = pack([prepare(mesh) for mesh in all_kinds()[3:4]]).to(dtype=torch.float64).topology
    block = HodgeFormerBlock(config).double().train()
    x = features(topology, d=4)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        torch.manual_seed(7)  # the same elements are dropped at every point
        return tuple(block(PerElement(*tensors), topology))

    assert torch.autograd.gradcheck(run, tuple(x.map(lambda t: t.requires_grad_())), atol=1e-6)


def test_weights_start_as_xavier_and_each_star_has_its_own():
    torch.manual_seed(0)
    config = ModelConfig(task="segmentation", n_classes=2, d_model=128)
    laplacian = LAPLACIANS["e"](config)
    stars = [module for module in laplacian.children() if isinstance(module, HodgeStar)]
    weights = [weight for star in stars for weight in (star.query.weight, star.key.weight)]
    assert len({weight.data_ptr() for weight in weights}) == 8
    for weight in weights:
        assert float(weight.detach().std()) == pytest.approx((2 / (128 + 128)) ** 0.5, rel=0.03)
