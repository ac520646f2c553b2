"""Settings: typed, complete when written, and helpful about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet
from hodgeformer.errors import ConfigError
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.train.config import RunConfig, read_config
from hodgeformer.train.plan import learning_rate, planned
from tiny_sets import parts, shapes

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.toml"))

PAPER = {"shrec11-split10", "shrec11-split1", "cubes", "human", "coseg-vases", "coseg-chairs", "coseg-aliens"}


def plan(dataset: DataSet, **tables: dict[str, object]) -> RunConfig:
    return planned(read_config({"data": {"name": "figures"}, **tables}), take_census(dataset))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_of_the_project_parse_and_build(path: Path) -> None:
    config = read_config(path)
    dataset = parts() if config.data.name in ("human", "coseg") else shapes()
    if path.stem in PAPER:
        assert "The paper's figure: " in path.read_text()
        assert config.model["d_model"] == 256 and config.model["blocks"].count("H") == 6
        assert config.prepare.features == ("coords", "normals", "areas") and config.prepare.size == "sphere"
        assert {"features", "size"} <= config.prepare.model_fields_set, "else they are planned"
    assert HodgeFormer(config.model_for(dataset)).n_parameters > 100_000
    assert (config.train.epochs is None) != (config.train.minutes is None)


def test_every_row_of_the_papers_table_has_a_configuration() -> None:
    assert {path.stem for path in CONFIGS} >= PAPER


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    config = plan(
        parts(), prepare={"max_neighbors": None}, train={"clip": None, "minutes": 1.5}, model={"updates": "ve"}
    )
    (tmp_path / "config.toml").write_text(config.toml())
    assert read_config(tmp_path / "config.toml") == config


def test_overrides_are_typed_and_win(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[data]\nname = "figures"\n[train]\nlr = 1.0\nepochs = 5\n')
    overrides = [
        "train.lr=3e-4",
        "train.ema=0.99",
        "model.blocks=HHT",
        "prepare.max_neighbors=none",
        "train.minutes=2",
        "augment.rotation=none",
    ]
    config = read_config(tmp_path / "c.toml", overrides)
    assert (config.train.lr, config.train.ema, config.model["blocks"]) == (3e-4, 0.99, "HHT")
    assert config.prepare.max_neighbors is None and config.augment.rotation == "none"
    assert (config.train.epochs, config.train.minutes) == (None, 2)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.lrr=1", "did you mean 'lr'"),
        ("trian.lr=1", r"did you mean \[train\]"),
        ("model.blcks=HH", "did you mean 'blocks'"),
        ("model.n_classes=3", "follows from the data"),
        ("train.lr=fast", "lr"),
        ("train.lr=-1", "lr"),
        ("lr=1", r"table\.key=value"),
        ("train.lr", r"table\.key=value"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, override: str, message: str) -> None:
    (tmp_path / "c.toml").write_text('[data]\nname = "figures"\n')
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path / "c.toml", [override])


def test_a_run_has_one_length() -> None:
    with pytest.raises(ConfigError, match="not both"):
        plan(parts(), train={"epochs": 2, "minutes": 1})


def test_the_batch_limit_is_known_by_its_former_name() -> None:
    assert plan(parts(), train={"max_faces": 240}).train.batch_faces == 240


def test_a_plan_fills_what_is_open_and_keeps_what_is_said() -> None:
    open_plan = plan(parts(n_train=40))
    train = open_plan.train
    assert train.batch_size == 10 and train.epochs == 300 and train.class_weights is True
    assert train.lr == learning_rate(open_plan.model["d_model"])
    assert open_plan.prepare.pose == "frame" and open_plan.augment.rotation == "none"
    assert open_plan.prepare.size == "area" and "distances" in open_plan.prepare.features
    assert plan(parts(), prepare={"pose": "file"}).augment.rotation == "so3"
    assert plan(parts(), train={"minutes": 2}).model["d_model"] < open_plan.model["d_model"]
    said = plan(
        shapes(), train={"batch_size": 2, "epochs": 7, "lr": 1e-5}, model={"d_model": 48}, prepare={"pose": "frame"}
    )
    assert (said.train.batch_size, said.train.epochs, said.train.lr) == (2, 7, 1e-5)
    assert (said.model["d_model"], said.model["d_hidden"], said.prepare.pose) == (48, 96, "frame")
    assert said.train.class_weights is False


def test_the_rate_falls_with_the_width() -> None:
    assert learning_rate(64) == 3e-3 and learning_rate(32) == 3e-3
    assert learning_rate(96) == pytest.approx(1.6e-3) and learning_rate(256) == pytest.approx(3.8e-4)
