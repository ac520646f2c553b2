"""All settings of a run: [data], [prepare], [augment], [model], [train], from TOML and from the command line."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tomli_w
import torch
from pydantic import ConfigDict, Field, field_validator, model_validator

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.settings import NONE, Settings, Table, read_toml
from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.open import DataConfig, data_table
from hodgeformer.mesh.io import MESH_SUFFIXES
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import find_device

Source = Path | str | Mapping[str, Table]
"""What to train on: a TOML file, a data-set folder, the name of a data set, or the tables themselves."""

Overrides = Sequence[str] | Mapping[str, Mapping[str, Any]]
"""Settings that override those of a source: as on the command line, "train.lr=3e-4", or tables of them."""

_SHORTEST = 10  # epochs of a run that is worth a trial or a rehearsal
FROM_DATA = ("task", "n_classes", "element", "in_features", "edge_reversal")


class TrainConfig(Settings):
    """How the model is trained. Settings without a value are planned from the data."""

    model_config = ConfigDict(allow_inf_nan=False)
    retired: ClassVar = {
        "temperature": (None,),
        "early_stop": (None,),
        "ema": (None,),
        "batch_faces": (None,),
        "max_faces": (None,),
        "track": ("csv", "tensorboard", "wandb"),
        "tensorboard": (False, True),
    }

    epochs: int | None = Field(
        default=None, ge=1, description="Train for this many passes over the training meshes. Set epochs or minutes."
    )
    minutes: float | None = Field(
        default=None, gt=0, description="Train for this many minutes. The learning rate reaches zero at the end."
    )
    batch_size: int | None = Field(default=None, ge=1, description="The number of meshes in a batch.")
    lr: float | None = Field(
        default=None, gt=0, description="The highest learning rate. It is reached after warmup and falls as a cosine."
    )
    optimizer: Literal["adam", "adamw"] = Field(default="adamw", description="The optimizer.")
    weight_decay: float = Field(default=0.01, ge=0, description="The weight decay of the optimizer.")
    warmup: float = Field(
        default=0.05, ge=0, lt=1, description="The share of the run in which the learning rate rises to lr."
    )
    label_smoothing: float = Field(
        default=0.2, ge=0, lt=1, description="The share of each label that is spread evenly over all classes."
    )
    class_weights: bool | Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Weight classes by inverse frequency (true), or by a power of it such as 0.5. Raise it if rare "
        "classes matter more than overall accuracy.",
    )
    restarts: tuple[float, ...] = Field(
        default=(),
        description="The epochs (or minutes) after which warmup and cosine start again. Extending a finished run adds "
        "its length.",
    )
    clip: float | None = Field(
        default=1.0, gt=0, description="The largest norm of the gradient; larger gradients are scaled down."
    )
    freeze: Literal["embedding", "encoder"] | None = Field(
        default=None,
        description="When fine-tuning, keep the weights of the embedding, or of the whole encoder (the embedding and "
        "all blocks).",
    )
    calibrate: bool = Field(
        default=True,
        description="Leave some training meshes out of shorter runs: before training to choose the pose, if several "
        "may suit the meshes, and after it, without validation meshes, to fit confidence, smoothing and familiarity.",
    )
    eval_every: int | None = Field(default=None, ge=1, description="The number of epochs between two validations.")
    save_every: float = Field(
        default=5.0, gt=0, description="Minutes between two saved states within an epoch, from which a run can resume."
    )
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="The seed for initial weights, the order of meshes and augmentation."
    )
    workers: int | None = Field(
        default=None,
        ge=0,
        le=256,
        description="The number of processes that prepare batches; 0 prepares them in the training process.",
    )
    device: str = Field(
        default="auto", description="Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, and so on."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="auto uses bfloat16 on GPUs that support it. On a CPU, bfloat16 rounds the factors of matrix "
        "products; a step is 1.07 to 1.96 times as fast, most for wide models, if the CPU has avx512_bf16.",
    )
    skip_bad: bool = Field(default=False, description="Skip meshes that cannot be used instead of stopping.")

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        if self.epochs is not None and self.minutes is not None:
            raise ValueError("set `epochs` or `minutes`, not both")
        if self.restarts and not all(a < b for a, b in pairwise((0.0, *self.restarts, self.length or math.inf))):
            raise ValueError("restarts must rise between 0 and the length of the run")
        return self

    @property
    def length(self) -> float | None:
        """Epochs or minutes, whichever is set."""
        return self.minutes if self.epochs is None else self.epochs

    @property
    def unit(self) -> Literal["epochs", "minutes"]:
        return "epochs" if self.minutes is None else "minutes"

    @property
    def is_long(self) -> bool:
        """Whether shorter runs beside it are worth their time."""
        return self.minutes is not None or (self.epochs or 0) >= _SHORTEST

    def torch_device(self) -> torch.device:
        return find_device(self.device)

    def uses_bfloat16(self, device: torch.device) -> bool:
        if self.precision == "auto":
            return device.type == "cuda" and torch.cuda.is_bf16_supported()
        return self.precision == "bfloat16"


class RunConfig(Settings):
    """All settings of a run."""

    data: DataConfig = Field(description="Which data, and how it is split.")
    prepare: PrepareConfig = Field(default=PrepareConfig(), description="How a mesh becomes input.")
    augment: AugmentConfig = Field(default=AugmentConfig(), description="How training meshes are changed at random.")
    model: dict[str, Any] = Field(
        default_factory=dict, description="The settings of the model that the data does not decide."
    )
    train: TrainConfig = Field(default=TrainConfig(), description="How the model is trained.")

    @field_validator("model")
    @classmethod
    def _known_settings(cls, table: Table) -> Table:
        decided = next((key for key in FROM_DATA if key in table), None)
        if decided is not None:
            raise ValueError(f"'{decided}' is determined by the data; remove it")
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
            edge_reversal=self.prepare.edge_reversal if self.model.get("signed_stars") else (),
            **self.model,
        )

    def toml(self) -> str:
        """All settings as text that `read_config` reads back."""
        tables: Table = {}
        for name, table in self.model_dump(mode="json").items():
            fields = TABLES[name].model_fields
            # Settings that are None by default are omitted.
            given = {key: value for key, value in table.items() if value is not None or fields[key].default is not None}
            tables[name] = {key: NONE if value is None else value for key, value in given.items()}
        return tomli_w.dumps(tables)


TABLES: dict[str, type[Settings]] = {
    "data": DataConfig,
    "prepare": PrepareConfig,
    "augment": AugmentConfig,
    "model": ModelConfig,
    "train": TrainConfig,
}


def read_config(source: Source, overrides: Overrides = ()) -> RunConfig:
    """The validated settings of a source and overrides such as train.lr=3e-4. Settings without a value are planned
    later."""
    return RunConfig.parse(given_tables(source, overrides))


def given_tables(source: Source, overrides: Overrides = ()) -> dict[str, Table]:
    """The settings that a source and overrides give, and no others."""
    tables = with_overrides(_tables(source), overrides)
    if isinstance(path := tables.get("data", {}).get("path"), str | Path):
        # A resumed run may be started from another folder.
        tables["data"] = {**tables["data"], "path": Path(path).expanduser().absolute()}
    return tables


def with_overrides(tables: Mapping[str, Table], overrides: Overrides) -> dict[str, Table]:
    """The tables with the overrides applied."""
    changed = {name: dict(table) for name, table in tables.items()}
    given = overrides.items() if isinstance(overrides, Mapping) else parsed(overrides).items()
    for name, table in given:
        _check_known(name, "settings")
        for key, value in table.items():
            _set(changed, name, key, value)
    return changed


def parsed(overrides: Sequence[str]) -> dict[str, Table]:
    """Parse settings such as table.key=value into tables; a value that is not TOML is a string."""
    tables: dict[str, Table] = {}
    for text in overrides:
        name, sign, value = text.partition("=")
        table, dot, key = name.strip().partition(".")
        if not (sign and dot and key):
            raise ConfigError(f"expected a setting such as train.lr=3e-4 (table.key=value), got {text!r}")
        _check_known(table, f"--set {text}")
        try:
            typed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            typed = value.strip()
        except RecursionError:
            raise ConfigError(f"--set {text[:40]}...: the value is nested too deeply") from None
        _set(tables, table, key, typed)
    return tables


def by_name(settings: Mapping[str, Any]) -> dict[str, Table]:
    """Put settings given by name into the tables that have them; whole tables may be among them."""
    owners: dict[str, list[str]] = {}
    for table, group in TABLES.items():
        for name in group.model_fields:
            if table != "model" or name not in FROM_DATA:
                owners.setdefault(name, []).append(table)
    tables: dict[str, Table] = {}
    for name, value in settings.items():
        if name in TABLES and isinstance(value, Settings):
            tables.setdefault(name, {}).update({key: getattr(value, key) for key in value.model_fields_set})
        elif name in TABLES and isinstance(value, Mapping):
            tables.setdefault(name, {}).update(value)
        elif len(tables_of := owners.get(name, [])) == 1:
            tables.setdefault(tables_of[0], {})[name] = value
        elif tables_of:
            several = " and ".join(f"[{table}]" for table in tables_of)
            raise ConfigError(
                f"'{name}' is a setting of {several}; choose one, such as {tables_of[-1]}={{'{name}': {value!r}}}"
            )
        else:
            close = difflib.get_close_matches(name, owners, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "docs/reference/settings lists all settings"
            raise ConfigError(f"unknown setting '{name}'; {hint}")
    return tables


def _set(tables: dict[str, Table], table: str, key: str, value: Any) -> None:
    tables.setdefault(table, {})[key] = value
    if table == "train" and key in ("epochs", "minutes"):
        tables[table].pop("minutes" if key == "epochs" else "epochs", None)


def _tables(source: Source) -> Mapping[str, Table]:
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if path.suffix != ".toml" and not path.is_file():
        return {"data": data_table(source)}
    if path.suffix.lower() in MESH_SUFFIXES:
        raise ConfigError(f"{path}: a single mesh; give the folder of the meshes and their labels, or a configuration")
    tables = read_toml(path)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{name}' is outside of a table; known tables: {', '.join(TABLES)}")
        _check_known(name, str(path))
    return tables


def _check_known(table: str, where: str) -> None:
    if table not in TABLES:
        close = difflib.get_close_matches(table, list(TABLES), n=1)
        hint = f"did you mean [{close[0]}]?" if close else f"known tables: {', '.join(TABLES)}"
        raise ConfigError(f"{where}: unknown table [{table[:80]}]; {hint}")
