"""What is read out of a head is what the layer applies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.errors import ConfigError
from hodgeformer.lab.study.operator_report import attention_around, reach_of
from hodgeformer.mesh.prepare import PrepareConfig, PreparedMesh, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.operators import HeadOperators, head_operators
from meshes import icosphere

D_HEAD = 4


def small_model(**changes: object) -> HodgeFormer:
    torch.manual_seed(0)
    settings = {"blocks": "HTHT", "updates": "vef", "d_model": 2 * D_HEAD, "d_hidden": 8, "n_heads": 2} | changes
    return HodgeFormer(ModelConfig(task="segmentation", n_classes=3, **settings)).eval()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sphere() -> PreparedMesh:
    return prepare(icosphere(1))


@pytest.fixture(scope="module")
def operators(sphere: PreparedMesh) -> HeadOperators:
    return head_operators(small_model(), sphere, layer=3, head=2)


@pytest.mark.parametrize(("kind", "signed"), [("v", False), ("e", False), ("f", False), ("v", True), ("f", True)])
@pytest.mark.parametrize("head", [1, 2])
def test_the_operator_is_what_the_layer_applies(
    sphere: PreparedMesh, kind: ElementKind, signed: bool, head: int
) -> None:
    changes = {"updates": "vf", "signed_stars": True, "edge_reversal": PrepareConfig().edge_reversal}
    model = small_model(**(changes if signed else {})).eval()
    module = model.encoder.blocks[2].attention.laplacian[kind]
    seen: dict[str, Tensor] = {}
    module.value.register_forward_hook(lambda _, __, out: seen.update(value=out))
    module.out.register_forward_pre_hook(lambda _, arguments: seen.update(applied=arguments[0]))
    with torch.no_grad():
        model(pack([sphere]))
    operators = head_operators(model, sphere, layer=3, head=head)
    columns = slice((head - 1) * D_HEAD, head * D_HEAD)
    value, applied = (seen[name][:, columns].numpy().astype(np.float64) for name in ("value", "applied"))
    np.testing.assert_allclose(operators.laplacian(kind) @ value, applied, atol=1e-5)


def test_rows_sum_to_one_and_reach_lies_between_one_and_the_pattern(operators: HeadOperators) -> None:
    for kind, star in (("v", "star0_inv"), ("e", "star1"), ("e", "star1_inv"), ("f", "star2")):
        matrix = operators.stars["e"][star]  # type: ignore[index]
        reach = reach_of(matrix, operators.prepared, kind)  # type: ignore[arg-type]
        np.testing.assert_allclose(reach.row_sums, 1, atol=1e-5)
        assert (reach.neighbors >= 1 - 1e-6).all()
        assert (reach.neighbors <= np.diff(matrix.indptr) + 1e-6).all()
        assert (reach.distance < 2).all()


def test_signs_change_nothing_about_how_far_a_star_reads(operators: HeadOperators) -> None:
    star = operators.stars["e"]["star1"]
    signed = star.copy()
    signed.data = star.data * np.random.default_rng(0).choice([-0.5, 0.5], star.nnz)
    one, two = (reach_of(matrix, operators.prepared, "e") for matrix in (star, signed))
    np.testing.assert_allclose(two.neighbors, one.neighbors)
    np.testing.assert_allclose(two.row_sums, one.row_sums / 2)


def test_an_even_star_reads_all_of_its_neighbors(operators: HeadOperators) -> None:
    even = operators.stars["v"]["star1"].copy()
    even.data = 1 / np.repeat(np.diff(even.indptr), np.diff(even.indptr))
    reach = reach_of(even, operators.prepared, "e")
    np.testing.assert_allclose(reach.neighbors, np.diff(even.indptr))
    alone = even.copy()
    alone.data = (even.indices == np.repeat(np.arange(len(reach.neighbors)), np.diff(even.indptr))).astype(float)
    only_itself = reach_of(alone, operators.prepared, "e")
    np.testing.assert_allclose(only_itself.neighbors, 1)
    np.testing.assert_allclose(only_itself.distance, 0)
    assert only_itself.summary()["own_weight_mean"] == 1.0


@pytest.mark.parametrize("kind", ["v", "e", "f"])
def test_attention_is_in_the_numbers_of_the_file(operators: HeadOperators, kind: ElementKind) -> None:
    name = {"v": "star0_inv", "e": "star1", "f": "star2"}[kind]
    matrix = operators.stars["e"][name]  # type: ignore[index]
    picked = 7
    weights = attention_around(operators, matrix, kind, picked)
    np.testing.assert_allclose(np.nansum(weights), 1, atol=1e-5)
    here = int(np.flatnonzero(operators.prepared.order[kind] == picked)[0])
    assert weights[picked] == matrix[here, here]
    with pytest.raises(ConfigError, match="got 999"):
        attention_around(operators, matrix, kind, 999)


def test_layers_and_heads_that_are_not_there(sphere: PreparedMesh) -> None:
    with pytest.raises(ConfigError, match="'HTHT': 1, 3"):
        head_operators(small_model(), sphere, layer=2)
    with pytest.raises(ConfigError, match="heads 1 to 2"):
        head_operators(small_model(), sphere, layer=1, head=3)
    with pytest.raises(ConfigError, match="no L_f"):
        head_operators(small_model(updates="v"), sphere, layer=1).laplacian("f")
    with pytest.raises(ConfigError, match="no learned operators"):
        head_operators(small_model(blocks="TT"), sphere, layer=None)
