"""The file `dataset.toml`, which describes the meshes and labels of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from hodgeformer.base.containers import Element, Task
from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.base.palette import RGB, hex_color, parse_color
from hodgeformer.base.settings import Settings, Table, read_toml
from hodgeformer.data.dataset import SPLITS, DataSet

FILE_NAME = "dataset.toml"
MINIMAL = """\
task = "segmentation"          # or "classification", "regression"
element = "face"               # labels are per face, vertex or edge
classes = ["head", "torso"]    # names in label order
meshes = "meshes"              # folder or glob
labels = "labels"              # one file per mesh with the same stem: .txt .csv .npy .json ...
[split]
train = 0.75
test = 0.25"""

Pattern = Annotated[str, Field(max_length=1000)]
"""A name or glob: Python needs time with the square of the length to compile one full of brackets."""
Rule = float | list[Pattern] | Pattern
TableValue = str | int | float | list[float]


class SplitRules(Settings):
    """How meshes are split; each split is a fraction, a list of names or patterns, or a folder."""

    train: Rule | None = Field(default=None, description="The meshes to train on.")
    val: Rule | None = Field(
        default=None,
        description="The meshes that select and calibrate the model. By default a tenth of the training meshes if "
        "there are 30 or more; 0 for none.",
    )
    test: Rule | None = Field(default=None, description="The meshes that the final model is scored on.")
    seed: int = Field(default=0, ge=0, description="The seed for drawing fractions.")

    @property
    def given(self) -> dict[str, Rule]:
        return {name: rule for name in SPLITS if (rule := getattr(self, name)) is not None}


class FolderSpec(Settings):
    """The content of `dataset.toml`, which describes the meshes and labels of a folder."""

    task: Task = Field(description="What to learn: classification, segmentation or regression.")
    name: str | None = Field(default=None, description="The name of the data set; by default that of its folder.")
    element: Element | None = Field(
        default=None,
        description="What a label belongs to. By default the face in a segmentation, otherwise the whole mesh.",
    )
    classes: tuple[str, ...] = Field(default=(), description="The names of the classes, in the order of the labels.")
    colors: tuple[RGB, ...] = Field(default=(), description='One color per class, such as "#0072b2".')
    meshes: Pattern = Field(default="meshes", description="The folder of the meshes, or a glob pattern.")
    labels: str | dict[str, TableValue] | None = Field(
        default=None,
        description='The folder of the label files, which have the names of their meshes; "ply:label" if the mesh '
        'files contain the labels, "ply:color" if they contain the colors listed in `colors`, or "obj:material", '
        '"obj:group" or "obj:object" if OBJ files name the classes. For whole meshes: a table such as "labels.csv" '
        "(lines: name,value), or the table itself.",
    )
    first_label: int = Field(default=0, ge=0, description="The number of the first class in the label files.")
    numbers: tuple[int, ...] = Field(
        default=(),
        description="The number of every class in the label files, if they are not consecutive, such as the FDI "
        "numbers of teeth.",
    )
    groups: str | dict[str, str] = Field(
        default="",
        description="Which meshes come from one source, such as one person, so that fractions and folds keep them "
        "together: a regular expression whose first group in the name is the source, or a table name = source.",
    )
    split: SplitRules = Field(
        default=SplitRules(),
        description="How to split the meshes. By default the folders train, val and test; without them, four fifths "
        "are for training and one fifth for testing.",
    )
    shards: str | None = Field(
        default=None,
        description="The folder or URL of archives from `hodgeformer shard`, instead of meshes, labels and split.",
    )

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
    """The content of `dataset.toml` for a data set, except the location of its meshes and labels."""
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
            f"{root} has no {FILE_NAME}, which describes its meshes and labels. `hodgeformer check {root}` proposes "
            f"one from what it finds. An example:\n\n{MINIMAL}"
        )
    try:
        return FolderSpec.parse(read_toml(path))
    except ConfigError as error:
        text = str(error)
        raise DataError(text if str(path) in text else f"{path}: {text}") from None
