"""Settings describe themselves."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hodgeformer
from hodgeformer.base.errors import ConfigError
from hodgeformer.base.settings import Settings, read_toml
from hodgeformer.training.config import read_config


def _groups() -> Iterator[type[Settings]]:
    for module in pkgutil.walk_packages(hodgeformer.__path__, "hodgeformer."):
        if module.name.split(".")[1] in ("base", "mesh", "nn", "data", "predict", "training", "lab"):
            found = vars(importlib.import_module(module.name)).values()
            yield from (kind for kind in found if isinstance(kind, type) and issubclass(kind, Settings))


def test_every_field_of_every_settings_class_has_a_description_that_is_a_sentence() -> None:
    groups = {group for group in _groups() if group is not Settings}
    assert {"DataConfig", "TrainConfig", "FolderSpec", "StudyRow", "ModelInfo"} <= {group.__name__ for group in groups}
    for group in groups:
        for name, field in group.model_fields.items():
            text = field.description or ""
            assert text.endswith(".") and text == " ".join(text.split()) and len(text.split()) > 1, (group, name)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 10**5 + "a = 0",
        "1." * 10**5 + "1 = 0",
        " [a" + '."\u2028"' * 10**5 + "]",
        "\n".join(f"[t{i}]" for i in range(200_001)),
    ],
    ids=["dots", "digits", "header", "tables"],
)
def test_keys_with_more_dots_than_memory_are_refused(text: str, tmp_path: Path) -> None:
    """A parser needs gigabytes for 200 kB of them."""
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="too many tables, or a key with too many dots"):
        read_toml(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text(f"[table.of]\nmany = {[0.5] * 1000}\nx.y.z = '{'.' * 1000}'")
    assert len(read_toml(tmp_path / "a.toml")["table"]["of"]["many"]) == 1000


def test_a_mistake_is_told_by_the_name_that_the_user_wrote() -> None:
    for given, said in (
        ({"train": {"lr": "fast"}}, r"train\.lr: must be a valid number \(got 'fast'\)"),
        ({"prepare": {"faces": -2}}, r"prepare\.faces: must be [^():]+, or must be 'auto' or 'original' \(got -2\)"),
        ({"model": {"blocks": "XYZ"}}, r"model\.blocks: [^(]+ \(got 'XYZ'\)"),
        ({"train": {"lrr": 3}}, r"unknown setting train\.lrr; did you mean 'lr'\?"),
    ):
        with pytest.raises(ConfigError, match=f"^{said}$"):
            read_config({"data": {"name": "figures"}, **given})
