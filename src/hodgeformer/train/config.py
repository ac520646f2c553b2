"""All settings of a run: [data], [prepare], [augment], [model], [train], from TOML and from the command line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from pydantic import Field, field_validator, model_validator

from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import DataConfig, DataName
from hodgeformer.data.plan import BatchConfig
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.settings import Settings
from hodgeformer.train.toml import Table, parse_override, read_toml, to_toml, with_nulls

FROM_DATA = ("task", "n_classes", "element", "in_features")


class TrainConfig(Settings):
    """How the weights are found. What is None is planned from the data.

    A run ends after `epochs`, or after `minutes` of training; either way with a learning rate of zero. `batch_size`
    meshes make a batch, and at most `max_faces` faces. `warmup` is the share of the run in which the rate rises.
    `class_weights` weighs classes by inverse frequency. `ema` is the decay of a running average of the weights that
    is evaluated in their place. `early_stop` ends a run after so many epochs without a better validation score.
    `eval_every` counts epochs, `save_every` minutes between saved states within an epoch. `precision` "auto" is
    bfloat16 autocast where the device is made for it.
    """

    epochs: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, ge=1)
    max_faces: int | None = Field(default=None, ge=1)
    lr: float | None = Field(default=None, gt=0)
    optimizer: Literal["adam", "adamw"] = "adamw"
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: float = Field(default=0.05, ge=0, lt=1)
    label_smoothing: float = Field(default=0.2, ge=0, lt=1)
    class_weights: bool | None = None
    clip: float | None = Field(default=1.0, gt=0)
    ema: float | None = Field(default=None, gt=0, lt=1)
    early_stop: int | None = Field(default=None, ge=1)
    eval_every: int | None = Field(default=None, ge=1)
    save_every: float = Field(default=5.0, gt=0)
    seed: int = Field(default=0, ge=0)
    workers: int | None = Field(default=None, ge=0)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    skip_bad: bool = False
    tensorboard: bool = False

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        if self.epochs is not None and self.minutes is not None:
            raise ValueError("a run is as long as `epochs` or as `minutes` say, not both")
        return self

    @property
    def batch(self) -> BatchConfig:
        return BatchConfig(size=self.batch_size, max_faces=self.max_faces)

    def torch_device(self) -> torch.device:
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            return torch.device(name)
        except RuntimeError:
            raise ConfigError(f"train.device = '{name}' is no device; use 'auto', 'cpu' or 'cuda'") from None

    def uses_bfloat16(self, device: torch.device) -> bool:
        if self.precision == "auto":
            return device.type == "cuda" and torch.cuda.is_bf16_supported()
        return self.precision == "bfloat16"


class RunConfig(Settings):
    """Everything that decides what a run does. `model` holds settings of ModelConfig that the data does not decide."""

    data: DataConfig
    prepare: PrepareConfig = PrepareConfig()
    augment: AugmentConfig = AugmentConfig()
    model: dict[str, Any] = Field(default_factory=dict)
    train: TrainConfig = TrainConfig()

    @field_validator("model")
    @classmethod
    def _known_settings(cls, table: Table) -> Table:
        decided = next((key for key in FROM_DATA if key in table), None)
        if decided is not None:
            raise ValueError(f"'{decided}' follows from the data; leave it out")
        try:
            full = ModelConfig(task="regression", n_classes=1, **table)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return {key: getattr(full, key) for key in table}

    def model_for(self, dataset: DataSet) -> ModelConfig:
        """The model for a data set and these input features."""
        return ModelConfig(
            task=dataset.task,
            element=dataset.element,
            n_classes=dataset.n_outputs,
            in_features=dict(self.prepare.widths.items()),
            **self.model,
        )

    def toml(self) -> str:
        """All settings as text that `read_tables` reads back."""
        values = self.model_dump(mode="json")
        for name, cls in TABLES.items():
            fields = cls.model_fields
            # What is None by default need not be said.
            values[name] = {
                key: value
                for key, value in values[name].items()
                if value is not None or fields[key].default is not None
            }
        return to_toml(values)


TABLES: dict[str, type[Settings]] = {
    "data": DataConfig,
    "prepare": PrepareConfig,
    "augment": AugmentConfig,
    "model": ModelConfig,
    "train": TrainConfig,
}


def read_tables(source: Path, overrides: Sequence[str] = ()) -> Table:
    """The tables of a TOML file, or those of a data-set folder with nothing said, with overrides such as train.lr=3e-4.

    What they leave open is planned later, when the data is known; what they say is checked now.
    """
    tables = _tables(source)
    unknown = [name for name in tables if name not in TABLES or not isinstance(tables[name], dict)]
    if unknown:
        raise ConfigError(f"{source}: {_unknown_table(unknown[0])}")
    for text in overrides:
        name, key, value = parse_override(text)
        if name not in TABLES:
            raise ConfigError(f"--set {text}: {_unknown_table(name)}")
        tables[name] = {**tables.get(name, {}), key: value}
        if name == "train" and key in ("epochs", "minutes"):
            tables[name].pop("minutes" if key == "epochs" else "epochs", None)
    tables = {name: with_nulls(TABLES[name], table) for name, table in tables.items()}
    if isinstance(path := tables.get("data", {}).get("path"), str):
        # A resumed run may be started from another folder.
        tables["data"]["path"] = str(Path(path).expanduser().absolute())
    RunConfig.parse(tables)
    return tables


def _tables(source: Path) -> Table:
    if source.is_dir():
        return {"data": {"path": str(source.resolve())}}
    if not source.exists() and str(source) in get_args(DataName):
        return {"data": {"name": str(source)}}
    return read_toml(source)


def _unknown_table(name: str) -> str:
    close = difflib.get_close_matches(name, list(TABLES), n=1)
    hint = f"did you mean [{close[0]}]?" if close else f"known tables: {', '.join(TABLES)}"
    return f"unknown table [{name}]; {hint}"
