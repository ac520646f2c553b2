"""Open a data set by name, from a folder or from meshes in memory."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field

from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.base.settings import Settings, Table, read_toml
from hodgeformer.data.benchmarks import (
    HUMAN_PARTS,
    CosegPart,
    coseg_part,
    human_family,
    human_person,
    is_part_labels,
    open_classes,
    open_coseg,
    open_parts,
    open_rna,
)
from hodgeformer.data.dataset import SPLITS, DataSet
from hodgeformer.data.folder import open_folder
from hodgeformer.data.folder_spec import FILE_NAME, SplitRules, read_spec
from hodgeformer.data.memory import Description, Pairs, from_pairs
from hodgeformer.data.proposal import recognized
from hodgeformer.data.splits import Splits, by_fractions, by_number, in_folds, with_validation
from hodgeformer.data.synthetic import synthetic_cubes, synthetic_figures

DataName = Literal["folder", "shrec11", "cubes", "human", "coseg", "rna", "figures", "synthetic_cubes"]

# Folders in HODGEFORMER_DATA that are searched if only a name is given.
_USUAL_FOLDERS: dict[str, tuple[str, ...]] = {
    "shrec11": ("shrec_16", "shrec11", "SHREC11"),
    "cubes": ("cubes", "cubes_2_classes"),
    "human": ("human_seg", "human"),
    "coseg": ("coseg", "."),
    "rna": ("rna", "rna_sample"),
}


_SPLIT_N = 10  # training meshes per class in SHREC11, as is usual
_TEST_SHARES = {"coseg": 0.15, "rna": 0.2}  # used if a distribution has no test meshes


class DataConfig(Settings):
    """Which data, and how it is split. A setting that a data set does not support is an error."""

    retired: ClassVar = {
        "val_per_class": (None,),
        "even_people": (None, False),
        "labels": (None, "face"),
        "element": (None, "face"),
    }

    name: DataName = Field(
        default="folder",
        description="The data set: a benchmark, a synthetic set (figures, synthetic_cubes), or folder for your own "
        "data with a dataset.toml.",
    )
    path: Path | None = Field(
        default=None,
        description="The folder of the data set; by default the usual one for its name below HODGEFORMER_DATA.",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="The seed for random splits and synthetic meshes.")
    train_per_class: int | None = Field(
        default=None,
        ge=0,
        description="SHREC11 only: pool all meshes and train on this many per class (split-n of the literature); 0 "
        "keeps the folders as distributed.",
    )
    val_fraction: float | None = Field(
        default=None, ge=0.0, lt=1.0, description="The share of the training meshes that is used for validation."
    )
    test_fraction: float | None = Field(
        default=None,
        ge=0.0,
        lt=1.0,
        description="Pool all meshes and test on this share of them, regardless of the folders they are in.",
    )
    hold_out: tuple[str, ...] | None = Field(
        default=None,
        description="Human only: validate on these families of meshes, or on names that begin like this, such as one "
        "motion. Frames of one motion are nearly identical, so this gives a more honest estimate than a random split.",
    )
    part: CosegPart | None = Field(default=None, description="Which of the COSEG sets to use.")
    n_classes: int | None = Field(default=None, ge=2, description="The number of classes of a synthetic set.")
    n_train: int | None = Field(
        default=None, ge=1, le=1_000_000, description="The number of training meshes of a synthetic set."
    )
    n_val: int | None = Field(
        default=None, ge=0, le=1_000_000, description="The number of validation meshes of a synthetic set."
    )
    n_test: int | None = Field(
        default=None, ge=0, le=1_000_000, description="The number of test meshes of a synthetic set."
    )
    n_faces: int | tuple[int, int] | None = Field(
        default=None, description="The number of faces of synthetic meshes, or the lowest and highest number."
    )
    allow_remote: bool = Field(
        default=False,
        description="Read shards at the URL that the dataset.toml names; otherwise a data set never chooses one.",
    )
    folds: int | None = Field(
        default=None,
        ge=2,
        le=1000,
        description="Pool all meshes and divide them into this many folds. Meshes of one source stay together (people "
        "of Human, `groups` of a dataset.toml).",
    )
    fold: int | None = Field(
        default=None, ge=0, description="The number of the test fold, counted from 0; the other folds are for training."
    )

    @property
    def options(self) -> dict[str, Any]:
        """The given settings that not every data set supports."""
        common = ("name", "path", "seed", "folds", "fold", "allow_remote")
        values = {key: getattr(self, key) for key in type(self).model_fields if key not in common}
        return {key: value for key, value in values.items() if value is not None}


_TESTING = ("train_per_class", "test_fraction", "hold_out")  # in conflict with folds
_DIVIDING = (*_TESTING, "val_fraction")
_OPENERS: dict[str, tuple[Callable[..., DataSet], tuple[str, ...]]] = {
    "shrec11": (partial(open_classes, name="SHREC11", n_classes=30), ("train_per_class", "val_fraction")),
    "cubes": (partial(open_classes, name="Cube Engraving", n_classes=22), ("val_fraction", "test_fraction")),
    "human": (
        partial(open_parts, name="Human", classes=HUMAN_PARTS, group=human_person),
        ("hold_out", "val_fraction", "test_fraction"),
    ),
    "coseg": (open_coseg, ("part", "val_fraction", "test_fraction")),
    "rna": (open_rna, ("val_fraction", "test_fraction")),
    "figures": (synthetic_figures, ("n_train", "n_val", "n_test", "n_faces")),
    "synthetic_cubes": (synthetic_cubes, ("n_classes", "n_train", "n_val", "n_test", "n_faces")),
}


def open_dataset(
    spec: DataConfig | str | Path | Pairs, *, allow_remote: bool = False, **described: Unpack[Description]
) -> DataSet:
    """Open a data set from settings, a name ("shrec11", "human", ...), a folder, the table [data] of a configuration,
    or pairs (mesh, labels) in memory, which may be `described`.

    A folder is described by its dataset.toml; without one, the layouts of benchmarks are recognized. Meshes are
    everything that `as_mesh` accepts. Labels are an array with a class number or name for each face, one for the whole
    mesh, or real numbers for a regression. Pairs are split by `split`, or given as {"train": [...], "test": [...]}.
    `allow_remote` permits reading shards at the URL that a dataset.toml names.
    """
    if not isinstance(spec, DataConfig | str | Path):
        return from_pairs(spec, **described)
    if described:
        raise ConfigError(
            f"'{next(iter(described))}' is only for pairs of meshes and labels; a folder is described by {FILE_NAME}"
        )
    config = spec if isinstance(spec, DataConfig) else DataConfig.parse(data_table(spec))
    config = config.replace(allow_remote=True) if allow_remote else config
    known = _as_recognized(config)
    dataset = _distributed(known)
    if (config.folds, config.fold) != (None, None):
        dataset = dataset.with_splits(_fold(dataset, known))
    if known.name in _USUAL_FOLDERS:
        dataset = dataset.with_splits(_divided(dataset, known))
    if known is not config and known.path is not None:  # it may be another set of that layout
        dataset = replace(dataset, name=known.path.resolve().name, notes=())
    return dataset


def _distributed(config: DataConfig) -> DataSet:
    """As in the folder or the archive, or generated."""
    if config.name == "folder":
        return _open_path(config)
    opener, known = _OPENERS[config.name]
    options = config.options
    unknown = [key for key in options if key not in known]
    if unknown:
        raise ConfigError(f"data.{unknown[0]} is not supported by '{config.name}'; supported: {', '.join(known)}")
    if config.name not in _USUAL_FOLDERS:
        return opener(**options, seed=config.seed)
    return opener(_folder_of(config), **{key: value for key, value in options.items() if key not in _DIVIDING})


def _fold(dataset: DataSet, config: DataConfig) -> Splits:
    """All meshes pooled, with one fold for testing."""
    n, number = config.folds, config.fold
    if n is None or number is None or number >= n:
        raise ConfigError(f"data.folds = {n} and data.fold = {number}: set both, and count fold from 0")
    other = next((key for key in _TESTING if getattr(config, key)), None)
    if other is not None:
        raise ConfigError(f"set data.folds or data.{other}, not both: each decides which meshes are for testing")
    folds = in_folds(dataset.samples, n, config.seed)
    training = tuple(sample for i, members in enumerate(folds) if i != number for sample in members)
    return with_validation({"train": training, "test": folds[number]}, SplitRules(val=config.val_fraction))


def _divided(dataset: DataSet, config: DataConfig) -> Splits:
    """The splits according to the settings; by default those of the distribution."""
    splits, seed = dict(dataset.splits), config.seed
    per_class = config.train_per_class
    if per_class is None and config.name == "shrec11" and config.folds is None:
        per_class = _SPLIT_N
    if per_class:
        splits = by_number(dataset.samples, per_class, seed)
    elif config.test_fraction is not None:
        test = config.test_fraction
        splits = by_fractions(dataset.samples, {"train": 1 - test, "test": test}, seed)
    elif "test" not in splits and config.name in _TEST_SHARES:
        test = _TEST_SHARES[config.name]
        splits |= by_fractions(splits["train"], {"train": 1 - test, "test": test}, seed)
    if config.hold_out and config.val_fraction:
        raise ConfigError("set data.hold_out or data.val_fraction, not both")
    train = splits.get("train", ())
    if config.hold_out:
        left_out = {sample.name for sample in train if sample.name.startswith(config.hold_out)}
        if not 0 < len(left_out) < len(train):
            found = sorted({human_family(sample.name) for sample in train})
            raise DataError(
                f"hold_out = {list(config.hold_out)} matches {len(left_out)} of {len(train)} meshes; families: {found}"
            )
        splits["train"] = tuple(sample for sample in train if sample.name not in left_out)
        splits["val"] = tuple(sample for sample in train if sample.name in left_out)
    if config.val_fraction and train:
        splits |= by_fractions(train, {"train": 1 - config.val_fraction, "val": config.val_fraction}, seed)
    return splits


def data_table(spec: str | Path) -> Table:
    """The table [data] for what commands call DATA: a TOML file, a folder, or the name of a data set."""
    path = Path(spec)
    if path.suffix == ".toml":
        table: Table = read_toml(path).get("data", {})
        return table
    if path.exists():
        return {"path": path}
    if str(spec) in _OPENERS:
        return {"name": str(spec)}
    close = difflib.get_close_matches(str(spec), _OPENERS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known names: {', '.join(_OPENERS)}"
    raise DataError(f"'{spec}' is neither a folder nor the name of a data set; {hint}")


def _open_path(config: DataConfig) -> DataSet:
    path = config.path
    if path is None or not path.is_dir():
        where = "set data.path" if path is None else f"{path} is not a folder"
        raise DataError(f"a data set is a folder with meshes, labels and a {FILE_NAME}; {where}")
    if config.options and (path / FILE_NAME).is_file():
        raise ConfigError(f"data.{next(iter(config.options))} belongs in {path / FILE_NAME}")
    if (path / FILE_NAME).is_file():
        return open_folder(path, allow_remote=config.allow_remote)
    spec = recognized(path)
    if spec is None or spec.task != "classification" or spec.labels:  # a guess about labels needs a look at it
        spec = read_spec(path)
    note = f"there is no {FILE_NAME}: meshes are read as classes by the names of their folders"
    return replace(open_folder(path, spec=spec), notes=(note,))


def _as_recognized(config: DataConfig) -> DataConfig:
    """For a folder without a dataset.toml, the settings of the benchmark whose layout it has."""
    path = config.path
    if config.name != "folder" or path is None or not path.is_dir() or (path / FILE_NAME).is_file():
        return config
    name = benchmark_layout(path)
    if name is None:
        return config
    options = {"train_per_class": 0} if name == "shrec11" else {}
    return config.replace(name=name, **{**options, **config.options})


def benchmark_layout(path: Path) -> str | None:
    """The benchmark whose layout a folder has. Class folders are read as distributed, for any benchmark."""
    if (path / "off").is_dir() and (path / "labels").is_dir():
        return "rna"
    if is_part_labels(path):
        return "coseg" if coseg_part(path) else "human"
    return "shrec11" if any((child / split).is_dir() for child in path.iterdir() for split in SPLITS) else None


def _folder_of(config: DataConfig) -> Path:
    if config.path is not None:
        return config.path
    root = os.environ.get("HODGEFORMER_DATA")
    if root is not None:
        for usual in _USUAL_FOLDERS[config.name]:
            if (Path(root) / usual).is_dir():
                return Path(root) / usual
    raise DataError(
        f"the data set '{config.name}' was not found; set data.path, or HODGEFORMER_DATA to a folder that contains "
        f"{' or '.join(_USUAL_FOLDERS[config.name])} (it is {root or 'not set'})"
    )
