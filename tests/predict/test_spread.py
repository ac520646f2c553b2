"""What is read out of a D block is what the block applies: its weights, and its diagonal stars."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.mesh.prepare import PreparedMesh, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.operators import log_factors, spread_from, textbook_stars
from meshes import icosphere, open_grid
from soups import renumbered

GROUP = 2


def small_model(star_bound: float = 3.0) -> HodgeFormer:
    torch.manual_seed(0)
    sizes = {"d_model": GROUP * N_TIMES, "d_hidden": 8, "n_heads": 2, "star_bound": star_bound}
    model = HodgeFormer(ModelConfig(task="segmentation", n_classes=3, blocks="DTD", **sizes))  # type: ignore[arg-type]
    for block in model.encoder.blocks:
        if hasattr(block.attention, "stars"):
            torch.nn.init.normal_(block.attention.stars.weight, std=0.5)
    return model.eval()


@pytest.fixture(scope="module")
def sphere() -> PreparedMesh:
    mesh = icosphere(2)
    return prepare(mesh.with_vertices(mesh.vertices * (1, 1.5, 2)))


@pytest.mark.parametrize("star_bound", [0.0, 3.0])
@pytest.mark.parametrize("number", [1, 3])
def test_what_a_vertex_reads_is_what_the_block_gives_it(sphere: PreparedMesh, number: int, star_bound: float) -> None:
    model, batch, picked = small_model(star_bound), pack([sphere]), 17
    block, seen = model.encoder.blocks[number - 1].attention, {}
    hooks = [
        block.value.register_forward_hook(lambda _, __, out: seen.update(value=out)),
        block.out.register_forward_pre_hook(lambda _, given: seen.update(spread=given[0])),
    ]
    with torch.no_grad():
        model(batch)
    for hook in hooks:
        hook.remove()

    def of_time(values: Tensor, i: int) -> np.ndarray:
        return values[:, i * GROUP : (i + 1) * GROUP].double().numpy()

    found = spread_from(model, sphere, picked)[number]
    areas = sphere.to_file_order(textbook_stars(batch)["star0"], "v")
    weights = found.heat * (areas / areas.sum())[:, None]
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-4)
    here = int(np.flatnonzero(sphere.order.v == picked)[0])
    for i in range(N_TIMES):
        given = sphere.to_file_order(of_time(seen["value"], i), "v")
        np.testing.assert_allclose(weights[:, i] @ given, of_time(seen["spread"], i)[here], atol=1e-4)
    assert list(spread_from(model, sphere, picked, number)) == [number]


def test_factors_lie_within_the_bound_and_follow_the_numbers_of_the_file() -> None:
    mesh, model = icosphere(2), small_model(star_bound=0.7)
    mesh = mesh.with_vertices(mesh.vertices * (1, 1.5, 2))
    other, new_vertex, _ = renumbered(mesh, seed=3)
    one, two = (log_factors(model, prepare(each)) for each in (mesh, other))
    assert list(one) == [1, 3]
    for number, stars in one.items():
        assert stars["star1"].shape == (480, N_TIMES)
        assert np.nanmax(np.abs(stars["star1"])) <= 0.7 + 1e-6
        assert np.nanmin(np.ptp(stars["star0"], axis=0)) > 0.05
        np.testing.assert_allclose(two[number]["star0"][new_vertex], stars["star0"], atol=1e-5)
        np.testing.assert_allclose(np.sort(two[number]["star1"], axis=0), np.sort(stars["star1"], axis=0), atol=1e-5)


def test_fixed_stars_have_the_factor_one_and_obtuse_edges_none() -> None:
    flat = open_grid()
    flat = flat.with_vertices(flat.vertices * (1, 6, 1) + flat.vertices[:, [1]] * (2, 0, 0))
    prepared = prepare(flat)
    cotangents = prepared.to_file_order(textbook_stars(pack([prepared]))["star1"], "e")
    assert 0 < (cotangents == 0).mean() < 1
    for bound in (0.0, 3.0):
        found = log_factors(small_model(bound), prepared, 3)[3]
        np.testing.assert_array_equal(np.isnan(found["star1"]), np.repeat(cotangents[:, None] == 0, N_TIMES, axis=1))
        assert (np.abs(np.nan_to_num(found["star1"])).max() > 1e-3) == (bound > 0)


def test_blocks_that_are_not_there(sphere: PreparedMesh) -> None:
    with pytest.raises(ConfigError, match="'DTD' these are D blocks: 1, 3"):
        log_factors(small_model(), sphere, 2)
    with pytest.raises(ConfigError, match="vertices 0 to 161, got 162"):
        spread_from(small_model(), sphere, 162)
