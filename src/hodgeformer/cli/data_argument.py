"""What DATA on the command line means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hodgeformer.data.dataset import DataSet


def dataset_of(data: str) -> DataSet:
    """The data set of a folder, of a name, or of the table [data] of a configuration."""
    from hodgeformer.data.open import DataConfig, open_dataset
    from hodgeformer.train.toml import read_toml

    path = Path(data)
    if path.suffix == ".toml":
        return open_dataset(DataConfig.parse(read_toml(path).get("data", {})))
    return open_dataset(path if path.exists() else data)
