"""The reference, written from the code: every verb with its options, every setting, every public name.

The text is in the code: the help of an option, the description of a setting, the docstring of a class or function.
`tests/test_docs.py` fails on a gap.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer.main
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import hodgeformer
from hodgeformer import kernels
from hodgeformer.base.settings import NONE, Settings
from hodgeformer.cli import app
from hodgeformer.data.augment import AugmentConfig
from hodgeformer.data.folder_spec import FolderSpec, SplitRules
from hodgeformer.data.open import DataConfig
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.options import PredictOptions
from hodgeformer.training.config import TrainConfig

GROUPS: tuple[tuple[str, type[Settings]], ...] = (
    ("[data]", DataConfig),
    ("[prepare]", PrepareConfig),
    ("[augment]", AugmentConfig),
    ("[model]", ModelConfig),
    ("[train]", TrainConfig),
    ("dataset.toml", FolderSpec),
    ("dataset.toml [split]", SplitRules),
    ("Predictor.predict", PredictOptions),
)


class Row(NamedTuple):
    """One line of the reference: what it is called, what it may be, and what it means."""

    name: str
    values: str
    meaning: str


def verbs() -> Iterator[tuple[str, str, list[Row]]]:
    """Name, help, and arguments and options of every verb."""
    yield from _verbs(typer.main.get_command(app), "hodgeformer")


def _verbs(command: Any, name: str) -> Iterator[tuple[str, str, list[Row]]]:
    context = command.context_class(command, info_name=name)
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            rows.append(Row(record[0], "", record[1]))
    yield name, inspect.cleandoc(command.help or ""), rows
    for key, below in getattr(command, "commands", {}).items():
        yield from _verbs(below, f"{name} {key}")


def settings(group: type[Settings]) -> list[Row]:
    """The settings of a group with default and allowed values."""
    return [
        Row(name, f"{_allowed(field.annotation, field.metadata)}; default {_default(field)}", field.description or "")
        for name, field in group.model_fields.items()
    ]


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public name of the package and of `hf.kernels`, with what it is."""
    for name in hodgeformer.__all__:
        if name not in ("kernels", "__version__"):
            yield f"hf.{name}", getattr(hodgeformer, name)
    for name in kernels.__all__:
        yield f"hf.kernels.{name}", getattr(kernels, name)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class itself."""
    for name, member in vars(kind).items():
        if name.startswith(("_", "model_")) or name == "forward":  # said by the class
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(function, property) or inspect.isfunction(function) or hasattr(function, "func"):
            yield name, getattr(function, "func", function)


def write(folder: Path) -> None:
    """All pages of the reference, as MyST Markdown."""
    folder.mkdir(exist_ok=True)
    pages = {"commands": _commands_page(), "settings": _settings_page(), "api": _api_page()}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def write_results(file: Path, folder: Path) -> None:
    """The measurements as a page: links into the documentation lead there, those to other files are plain text."""
    text = file.read_text(encoding="utf-8").replace("](docs/", "](/")
    text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!/|#|http)[^)]*\)", r"\1", text)
    text = re.sub(r"(!\[[^\]]*\])\((?!/|http)", r"\1(../../", text)
    (folder / "results.md").write_text(text, encoding="utf-8")


def _commands_page() -> str:
    parts = ["# Commands\n\nThe same text as `hodgeformer VERB --help`.\n"]
    for name, text, rows in verbs():
        parts.append(f"## `{name}`\n\n{text}\n")
        if rows:
            parts.append(_table(("argument or option", "meaning"), [(f"`{row.name}`", row.meaning) for row in rows]))
    return "\n".join(parts)


def _settings_page() -> str:
    parts = [
        "# Settings\n\nA configuration is a TOML file with the tables `[data]`, `[prepare]`, `[augment]`, `[model]` "
        "and `[train]`; on the command line set one with `--set table.key=value`. Settings that are left out are "
        f'planned from the data, or have their default. `"{NONE}"` means no value.\n'
    ]
    for title, group in GROUPS:
        text = inspect.cleandoc(group.__doc__ or "")
        rows = [(f"`{row.name}`", row.values, row.meaning) for row in settings(group)]
        parts.append(f"## `{title}`\n\n{text}\n\n{_table(('setting', 'values', 'meaning'), rows)}")
    return "\n".join(parts)


def _api_page() -> str:
    parts = ["# Public names\n\n`import hodgeformer as hf`; each name is loaded on first use.\n"]
    for name, value in public_names():
        parts.append(f"## `{name}`\n\n{_signature(name, value)}{inspect.getdoc(value) or ''}\n")
        if inspect.isclass(value):
            rows = [(f"`{key}`", _first_sentence(member)) for key, member in members(value)]
            rows = [row for row in rows if row[1]]
            parts.append(_table(("member", "meaning"), rows) if rows else "")
    return "\n".join(parts)


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, Exception | Settings):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return f"```python\n{name}{plain}\n```\n\n"


def _first_sentence(member: Any) -> str:
    return " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "none, required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "none"
    if value is None:
        return "not set"
    if isinstance(value, Settings):
        return "as below"
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value)


def _allowed(annotation: Any, metadata: list[Any]) -> str:
    """The values that a type and its limits allow, in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _allowed(arguments[0], [*getattr(arguments[1], "metadata", arguments[1:])])
    if origin is Literal:
        return ", ".join(f'`"{value}"`' if isinstance(value, str) else f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        return " or ".join(_allowed(kind, metadata if kind in (int, float) else []) for kind in kinds)
    if origin is tuple:
        inner = arguments[0]
        many = len(arguments) == 2 and arguments[1] is Ellipsis
        return f"list of {_allowed(inner, [])}" if many else f"{len(arguments)} x {_allowed(inner, [])}"
    if origin is list:
        return f"list of {_allowed(arguments[0], [])}"
    if origin is dict:
        return f"table of {_allowed(arguments[1], [])} by {_allowed(arguments[0], [])}"
    names = {int: "whole number", float: "number", bool: "`true`, `false`", str: "text", Path: "path"}
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return "table"
    return names.get(annotation, "text") + _limits(metadata)


def _limits(metadata: list[Any]) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    found = [
        f"{sign} {getattr(item, key):g}"
        for item in metadata
        for key, sign in signs.items()
        if getattr(item, key, None) is not None
    ]
    return f" {', '.join(found)}" if found else ""
