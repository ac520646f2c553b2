"""All settings of a run: [data], [prepare], [augment], [model], [train], from TOML and from the command line."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tomli_w
import torch
from pydantic import ConfigDict, Field, field_validator, model_validator

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.settings import NONE, Settings, Table, read_toml
from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import DataConfig, DataName
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.train.listener import Track

Source = Path | str | Mapping[str, Table]
"""What to train on: a TOML file, a data-set folder, the name of a data set, or the tables themselves."""

Overrides = Sequence[str] | Mapping[str, Mapping[str, Any]]
"""Settings that go before those of a source: as on the command line, "train.lr=3e-4", or tables of them."""

FROM_DATA = ("task", "n_classes", "element", "in_features")


class TrainConfig(Settings):
    """How the weights are found. What is None is planned from the data.

    A run ends after `epochs`, or after `minutes` of training; either way with a learning rate of zero. `batch_size`
    meshes make a batch, and at most `batch_faces` faces. `warmup` is the share of the run in which the rate rises to
    `lr`; then it falls as a cosine. `optimizer` takes the steps, with `weight_decay`, and `clip` bounds the norm of
    their gradients. `label_smoothing` is the share of a label that goes to all classes. `class_weights` weighs classes
    by inverse frequency, or by a power of it, such as 0.5. `ema` is the decay of a running average of the weights that
    is evaluated in their place. `freeze` leaves the embedding as it is, or the whole encoder too, or only so many of
    its first blocks. `temperature` divides the outputs before they become probabilities; by default it is fitted to the
    validation split. `early_stop` ends a run after so many epochs without a better validation score. `eval_every`
    counts epochs, `save_every` minutes between saved states within an epoch. `precision` "auto" is bfloat16 autocast
    on graphics cards that are made for it; "bfloat16" on a processor rounds the factors of matrix products, which is
    about 1.6 times as fast where it has instructions for that (avx512_bf16). `seed` draws weights, batches and
    changes of shape. `workers` are processes that prepare batches; 0 prepares them in between. `device` is "auto",
    "cpu", "cuda", "cuda:1". `skip_bad` leaves out meshes that cannot be used. `track` says who keeps the numbers of the
    run beside metrics.csv: with "csv" nobody, with "tensorboard" files in the run folder, with "wandb" a run of Weights
    & Biases.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    epochs: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, ge=1)
    batch_faces: int | None = Field(default=None, ge=1)
    lr: float | None = Field(default=None, gt=0)
    optimizer: Literal["adam", "adamw"] = "adamw"
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: float = Field(default=0.05, ge=0, lt=1)
    label_smoothing: float = Field(default=0.2, ge=0, lt=1)
    class_weights: bool | Annotated[float, Field(ge=0, le=1)] | None = None
    clip: float | None = Field(default=1.0, gt=0)
    ema: float | None = Field(default=None, gt=0, lt=1)
    freeze: Literal["embedding", "encoder"] | Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = Field(default=None, gt=0)
    early_stop: int | None = Field(default=None, ge=1)
    eval_every: int | None = Field(default=None, ge=1)
    save_every: float = Field(default=5.0, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    workers: int | None = Field(default=None, ge=0, le=256)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    skip_bad: bool = False
    track: Track = "csv"

    @model_validator(mode="before")
    @classmethod
    def _former_name(cls, values: Any) -> Any:
        """Runs that were stopped, and configurations that were written, before a setting had a better name."""
        if not isinstance(values, dict):
            return values
        values = {("batch_faces" if key == "max_faces" else key): value for key, value in values.items()}
        if isinstance(values.get("tensorboard"), bool):
            return {"track": "tensorboard" if values.pop("tensorboard") else "csv", **values}
        return values

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        if self.epochs is not None and self.minutes is not None:
            raise ValueError("a run is as long as `epochs` or as `minutes` say, not both")
        return self

    def torch_device(self) -> torch.device:
        there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        name = self.device
        if name == "auto":
            name = "cuda" if there["cuda"] else "cpu"
        try:
            device = torch.device(name)
        except RuntimeError:
            device = None
        if device is None or not there.get(device.type) or (device.index or 0) >= max(1, torch.cuda.device_count()):
            found = ", ".join(f"'{kind}'" for kind, is_there in there.items() if is_there)
            raise ConfigError(f"train.device = '{name}' is no device of this machine; use 'auto' or one of: {found}")
        return device

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
        """All settings as text that `read_config` reads back."""
        tables: Table = {}
        for name, table in self.model_dump(mode="json").items():
            fields = TABLES[name].model_fields
            # What is None by default need not be said.
            said = {key: value for key, value in table.items() if value is not None or fields[key].default is not None}
            tables[name] = {key: NONE if value is None else value for key, value in said.items()}
        return tomli_w.dumps(tables)


TABLES: dict[str, type[Settings]] = {
    "data": DataConfig,
    "prepare": PrepareConfig,
    "augment": AugmentConfig,
    "model": ModelConfig,
    "train": TrainConfig,
}


def read_config(source: Source, overrides: Overrides = ()) -> RunConfig:
    """What a source and overrides such as train.lr=3e-4 say, checked. What they leave open is planned later."""
    return RunConfig.parse(said_tables(source, overrides))


def said_tables(source: Source, overrides: Overrides = ()) -> dict[str, Table]:
    """What a source and overrides say, and nothing else."""
    tables = with_overrides(_tables(source), overrides)
    if isinstance(path := tables.get("data", {}).get("path"), str | Path):
        # A resumed run may be started from another folder.
        tables["data"] = {**tables["data"], "path": Path(path).expanduser().absolute()}
    return tables


def with_overrides(tables: Mapping[str, Table], overrides: Overrides) -> dict[str, Table]:
    """The tables with settings put in."""
    changed = {name: dict(table) for name, table in tables.items()}
    given = overrides.items() if isinstance(overrides, Mapping) else parsed(overrides).items()
    for name, table in given:
        _check_known(name, "settings")
        for key, value in table.items():
            _say(changed, name, key, value)
    return changed


def parsed(overrides: Sequence[str]) -> dict[str, Table]:
    """Settings written table.key=value as tables; what is not a TOML value is a string."""
    tables: dict[str, Table] = {}
    for text in overrides:
        name, sign, value = text.partition("=")
        table, dot, key = name.strip().partition(".")
        if not (sign and dot and key):
            raise ConfigError(f"a setting is written table.key=value, such as train.lr=3e-4; got {text!r}")
        _check_known(table, f"--set {text}")
        try:
            typed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            typed = value.strip()
        except RecursionError:
            raise ConfigError(f"--set {text[:40]}...: the value is nested too deeply") from None
        _say(tables, table, key, typed)
    return tables


def _say(tables: dict[str, Table], table: str, key: str, value: Any) -> None:
    tables.setdefault(table, {})[key] = value
    if table == "train" and key in ("epochs", "minutes"):
        tables[table].pop("minutes" if key == "epochs" else "epochs", None)


def _tables(source: Source) -> Mapping[str, Table]:
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if path.is_dir():
        return {"data": {"path": path}}
    if not path.exists() and str(source) in get_args(DataName):
        return {"data": {"name": str(source)}}
    tables = read_toml(path)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{name}' stands outside of any table; known tables: {', '.join(TABLES)}")
        _check_known(name, str(path))
    return tables


def _check_known(table: str, where: str) -> None:
    if table not in TABLES:
        close = difflib.get_close_matches(table, list(TABLES), n=1)
        hint = f"did you mean [{close[0]}]?" if close else f"known tables: {', '.join(TABLES)}"
        raise ConfigError(f"{where}: unknown table [{table}]; {hint}")
