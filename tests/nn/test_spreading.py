"""What D blocks promise: the same as the others, alone and in one stack with them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from hodgeformer.base.errors import ConfigError
from hodgeformer.mesh.prepare import prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from meshes import all_kinds, icosphere
from soups import renumbered, soups

STACKS = ["DD", "DHTD"]


BOUNDS = [0.0, 3.0]


def small(blocks: str, **changes) -> HodgeFormer:
    """With learned stars, these differ from the textbook's, as they do not before training."""
    torch.manual_seed(0)
    sizes = {"n_classes": 5, "d_model": 16, "d_hidden": 24, "n_heads": 2}
    model = HodgeFormer(ModelConfig(task="segmentation", blocks=blocks, **{**sizes, **changes}))
    for name, weight in model.named_parameters():
        if ".attention.stars." in name:
            torch.nn.init.normal_(weight)
    return model


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("blocks", STACKS)
def test_a_mesh_alone_and_in_company_gets_the_same_logits(blocks, bound):
    model, meshes = small(blocks, star_bound=bound).eval(), [prepare(mesh) for mesh in all_kinds()]
    with torch.inference_mode():
        together, alone = model(pack(meshes)), torch.cat([model(pack([mesh])) for mesh in meshes])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("mesh", all_kinds()[:6], ids=lambda mesh: mesh.name)
def test_renumbering_a_file_changes_no_logit(mesh, bound):
    model = small("DHTD", star_bound=bound).eval()
    other, _, new_face = renumbered(mesh, seed=3)
    with torch.inference_mode():
        answers = [p.to_file_order(model(pack([p])).numpy(), "f") for p in map(prepare, (mesh, other))]
    assert (answers[1][new_face] == answers[0]).all()


def test_evaluation_repeats_to_the_bit():
    model, batch = small("DDT", star_bound=3.0).eval(), pack([prepare(icosphere(2))])
    with torch.inference_mode():
        assert torch.equal(model(batch), model(batch))


@pytest.mark.parametrize("updates", ["v", "vef"])
@pytest.mark.parametrize("blocks", STACKS)
def test_every_parameter_gets_a_gradient(blocks, updates):
    model = small(blocks, updates=updates, star_bound=3.0).train()
    batch = pack([prepare(mesh) for mesh in all_kinds()])
    model(batch).square().mean().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not idle


@pytest.mark.parametrize("name", ["log_scale", "stars.bias"])
def test_gradients_of_the_whole_block(name):
    model = small("D", dropout=0.0, star_bound=3.0).double()
    batch = pack([prepare(icosphere(0))]).to(dtype=torch.float64)
    weight = model.encoder.blocks[0].attention.get_parameter(name)

    def loss(shift: torch.Tensor) -> torch.Tensor:
        changed = {f"encoder.blocks.0.attention.{name}": weight + shift}
        return torch.func.functional_call(model, changed, (batch,)).square().mean()

    assert torch.autograd.gradcheck(loss, (torch.zeros(16, dtype=torch.float64, requires_grad=True),))


def test_learned_stars_begin_as_those_of_the_textbook():
    torch.manual_seed(0)
    config = ModelConfig(task="segmentation", n_classes=5, blocks="DD", d_model=16, d_hidden=24, star_bound=3.0)
    learned, fixed = HodgeFormer(config).eval(), small("DD", n_heads=4).eval()
    fixed.load_state_dict(learned.state_dict(), strict=False)
    batch = pack([prepare(mesh) for mesh in all_kinds()])
    with torch.inference_mode():
        torch.testing.assert_close(learned(batch), fixed(batch), rtol=1e-4, atol=1e-5)


def test_learned_stars_stay_within_their_bound():
    model, batch = small("D", star_bound=0.5), pack([prepare(icosphere(2))])
    stars = model.encoder.blocks[0].attention.diagonal_stars(100 * torch.randn(batch.n.v, 16), batch.topology)
    surface = batch.topology.surface
    for star, textbook in ((stars.star0, surface.star0), (stars.star1, surface.star1)):
        assert ((star / textbook[:, None]).log().abs() <= 0.5 + 1e-5).all()


@settings(max_examples=30, deadline=None)
@given(soups())
def test_any_soup_gets_an_answer(mesh):
    model = small("DD", star_bound=3.0).eval()
    with torch.inference_mode():
        assert model(pack([prepare(mesh)])).isfinite().all()


def test_widths_that_do_not_divide_and_stacks_without_vertices_are_refused():
    with pytest.raises(ConfigError, match="divisible"):
        small("D", d_model=18)
    with pytest.raises(ConfigError, match="updates"):
        small("D", updates="f")
