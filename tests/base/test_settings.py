"""Settings describe themselves."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import hodgeformer
from hodgeformer.base.settings import Settings


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
