"""The file `dataset.toml`, which says what the meshes and labels of a folder are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from hodgeformer.containers import Element, Task
from hodgeformer.data.dataset import SPLITS
from hodgeformer.errors import ConfigError, DataError
from hodgeformer.palette import RGB, parse_color
from hodgeformer.settings import Settings, read_toml

FILE_NAME = "dataset.toml"
MINIMAL = """\
task = "segmentation"          # or "classification", "regression"
element = "face"               # what a label belongs to: face, vertex, edge
classes = ["head", "torso"]    # names in label order
meshes = "meshes"              # folder or glob
labels = "labels"              # one file per mesh with the same stem: .txt .npy .seg .eseg
[split]
train = 0.75
test = 0.25"""

Rule = float | list[str] | str
TableValue = str | int | float | list[float]


class SplitRules(Settings):
    """Each split as a fraction (drawn with `seed`), a list of names or patterns, or a folder."""

    train: Rule | None = None
    val: Rule | None = None
    test: Rule | None = None
    seed: int = Field(default=0, ge=0)

    @property
    def given(self) -> dict[str, Rule]:
        return {name: rule for name in SPLITS if (rule := getattr(self, name)) is not None}


class FolderSpec(Settings):
    """The content of `dataset.toml`."""

    task: Task
    name: str | None = None
    element: Element | None = None
    classes: tuple[str, ...] = ()
    colors: tuple[RGB, ...] = ()
    meshes: str = "meshes"
    labels: str | dict[str, TableValue] | None = None
    first_label: int = Field(default=0, ge=0)
    split: SplitRules = SplitRules()

    @field_validator("colors", mode="before")
    @classmethod
    def _from_hex(cls, colors: Any) -> Any:
        if not isinstance(colors, (list, tuple)):
            return colors
        return tuple(parse_color(color) if isinstance(color, str) else color for color in colors)

    @property
    def target_element(self) -> Element:
        if self.element is not None:
            return self.element
        return "face" if self.task == "segmentation" else "mesh"


def read_spec(root: Path) -> FolderSpec:
    path = root / FILE_NAME
    if not path.is_file():
        raise DataError(
            f"{root} has no {FILE_NAME}, so it is not clear what its labels mean. Write one, for example:\n\n{MINIMAL}"
        )
    try:
        return FolderSpec.parse(read_toml(path))
    except ConfigError as error:
        text = str(error)
        raise DataError(text if str(path) in text else f"{path}: {text}") from None
