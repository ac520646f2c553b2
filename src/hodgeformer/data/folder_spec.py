"""The file `dataset.toml`, which says what the meshes and labels of a folder are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from hodgeformer.base.containers import Element, Task
from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.base.palette import RGB, hex_color, parse_color
from hodgeformer.base.settings import Settings, Table, read_toml
from hodgeformer.data.dataset import SPLITS, DataSet

FILE_NAME = "dataset.toml"
MINIMAL = """\
task = "segmentation"          # or "classification", "regression"
element = "face"               # what a label belongs to: face, vertex, edge
classes = ["head", "torso"]    # names in label order
meshes = "meshes"              # folder or glob
labels = "labels"              # one file per mesh with the same stem: .txt .csv .npy .json ...
[split]
train = 0.75
test = 0.25"""

Rule = float | list[str] | str
TableValue = str | int | float | list[float]


class SplitRules(Settings):
    """Each split as a fraction (drawn with `seed`), a list of names or patterns, or a folder.

    `train`: the meshes to learn from. `val`: those that choose and calibrate the model; left out, a tenth of thirty or
    more training meshes, and 0 for none. `test`: those that score it.
    """

    train: Rule | None = None
    val: Rule | None = None
    test: Rule | None = None
    seed: int = Field(default=0, ge=0)

    @property
    def given(self) -> dict[str, Rule]:
        return {name: rule for name in SPLITS if (rule := getattr(self, name)) is not None}


class FolderSpec(Settings):
    """The content of `dataset.toml`, the file that says what the meshes and labels of a folder are.

    `task`: what is to be learned. `name`: what the data set is called; by default as its folder. `element`: what a
    label belongs to; by default the face in a segmentation, and otherwise the whole mesh. `classes`: their names, in
    the order of the labels. `colors`: one for each class, such as "#0072b2". `meshes`: the folder of the meshes, or a
    glob. `labels`: the folder of the label files, which have the names of their meshes; "ply:label" where the mesh
    files hold them, "ply:color" where their colors do, those of `colors`; a table such as "labels.csv" (lines:
    name,value), or this table in place, for whole meshes. `first_label`: the number that the first class has in the
    files. `groups`: which meshes are of one source, such as a person, so that cross-validation holds them out together:
    a regular expression whose first bracket in their names is the group, or a table name = group. `split`: who trains,
    validates and tests; by default the folders train, val and test, and without these four fifths train and one tests.
    `shards`: the folder or address of the archives that `hodgeformer shard` wrote, in place of meshes, labels and
    split.
    """

    task: Task
    name: str | None = None
    element: Element | None = None
    classes: tuple[str, ...] = ()
    colors: tuple[RGB, ...] = ()
    meshes: str = "meshes"
    labels: str | dict[str, TableValue] | None = None
    first_label: int = Field(default=0, ge=0)
    groups: str | dict[str, str] = ""
    split: SplitRules = SplitRules()
    shards: str | None = None

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


def described(dataset: DataSet) -> Table:
    """What a `dataset.toml` says of a data set, but for where its meshes and labels are."""
    spec: Table = {"name": dataset.name, "task": dataset.task}
    if dataset.kind is not None:
        spec["element"] = dataset.element
    if dataset.classes:
        spec["classes"] = dataset.classes
        spec["colors"] = [hex_color(color) for color in dataset.colors]
    return spec


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
