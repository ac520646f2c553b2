"""A configuration that makes no sense is refused in words; one that does goes through JSON unchanged."""

from __future__ import annotations

import json

import pytest

from hodgeformer.base.errors import ConfigError
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 250}, r"d_model \(250\) must be divisible by n_heads \(4\)"),
        ({"blocks": "HHX"}, "letters H, T and D"),
        ({"blocks": ""}, "letters H, T and D"),
        ({"updates": ""}, "from v, e and f"),
        ({"updates": "vx"}, "from v, e and f"),
        ({"updates": "vv"}, "each updated kind once"),
        ({"dropout": 1.0}, "less than 1"),
        ({"n_classes": 0}, "greater than or equal to 1"),
        ({"task": "sorting"}, "classification"),
        ({"element": "mesh"}, "use task 'classification'"),
        ({"task": "classification", "element": "face"}, "use task 'segmentation'"),
        ({"d_modle": 3}, "did you mean 'd_model'"),
        ({"in_features": {"v": 7, "f": 13}}, "kind e is missing"),
        ({"in_features": {"v": 7, "e": 0, "f": 13}}, "greater than or equal to 1"),
        ({"stars": "learnt"}, "learned"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        ModelConfig(**{"task": "segmentation", "n_classes": 8, **change})


def test_json_and_back():
    config = ModelConfig(
        task="regression", n_classes=3, element="vertex", updates="fv", in_features={"f": 9, "e": 2, "v": 1}
    )
    again = ModelConfig.parse(json.loads(json.dumps(config.model_dump(mode="json"))))
    assert again == config
    assert again.updates == "vf"


def test_the_element_follows_the_task_unless_said():
    assert ModelConfig(task="classification", n_classes=2).target_kind is None
    assert ModelConfig(task="segmentation", n_classes=2).target_kind == "f"
    assert ModelConfig(task="regression", n_classes=2).target_kind is None
    assert ModelConfig(task="regression", n_classes=2, element="edge").target_kind == "e"


def test_default_widths_are_those_of_prepare():
    assert ModelConfig(task="segmentation", n_classes=2).widths == PrepareConfig().widths


@pytest.mark.parametrize(
    ("updates", "blocks", "stars", "embedded"),
    [
        ("v", "HT", "learned", "ve"),
        ("e", "H", "learned", "vef"),
        ("f", "H", "learned", "ef"),
        ("vf", "H", "learned", "vef"),
        ("v", "TT", "learned", "v"),
        ("f", "HT", "galerkin", "f"),
    ],
)
def test_only_what_a_layer_reads_is_embedded(updates, blocks, stars, embedded):
    config = ModelConfig(task="segmentation", n_classes=2, updates=updates, blocks=blocks, stars=stars)
    assert "".join(config.embedded) == embedded


@pytest.mark.parametrize(
    ("blocks", "updates", "kinds"), [("HHHT", "v", "ve"), ("HT", "f", "ef"), ("DDDD", "v", ""), ("TT", "vef", "")]
)
def test_patterns_are_asked_for_where_learned_stars_read_them(blocks: str, updates: str, kinds: str) -> None:
    config = ModelConfig(task="segmentation", n_classes=2, blocks=blocks, updates=updates)
    assert "".join(config.patterned) == kinds
    assert config.replace(stars="galerkin").patterned == ()
