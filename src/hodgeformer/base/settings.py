"""Base class of all configurations: frozen, typed, helpful about mistakes, and read from TOML."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hodgeformer.base.errors import ConfigError

Table = dict[str, Any]
Faces = Annotated[int, Field(ge=4)] | Literal["auto", "original"]
"""The working resolution: meshes with more faces are simplified to this number; "auto" lets the plan decide."""
UpName = Literal["auto", "x", "y", "z", "-x", "-y", "-z"]
NONE = "none"
"""TOML has no null: this word is None for settings that may be empty."""

_LONGEST = 200  # characters of a name or value that an error shows
_DEEPEST, _MOST_TABLES = 100, 200_000
_DECIMAL = re.compile(r"\d\.\d")  # these dots are in values; of keys that are digits, half is left
_MOST = 2  # mistakes that an error reports
_ALTERNATIVE = re.compile(r"[a-z]+(-[a-z]+)+|.*\[.*\]|bool|float|int|none|str")  # pydantic's names of types


class Settings(BaseModel):
    """A frozen, validated group of settings. An unknown key is a `ConfigError` with a suggestion."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    retired: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Settings of earlier versions, with the values that changed nothing: saved files that have these stay readable."""

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        optional = {name for name, field in cls.model_fields.items() if type(None) in get_args(field.annotation)}
        current = {key: value for key, value in values.items() if value not in cls.retired.get(key, ())}
        return {key: None if value == NONE and key in optional else value for key, value in current.items()}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_explain(type(self), error)) from None

    @classmethod
    def parse(cls, values: Any) -> Self:
        """Like the constructor, from a plain dictionary (a TOML table, checkpoint metadata)."""
        if isinstance(values, cls):
            return values
        if not isinstance(values, dict):
            raise ConfigError(f"{cls.__name__} must be a table, got {type(values).__name__}")
        return cls(**values)

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some values changed."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def filled(self, **values: Any) -> Self:
        """A validated copy in which settings that were not given have these values."""
        return type(self)(**{**values, **{name: getattr(self, name) for name in self.model_fields_set}})


def read_toml(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8")
        _check_tables(text, path)
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no configuration, data set or folder has this name; check the spelling") from None
    except RecursionError:
        raise ConfigError(f"{path}: not a TOML file (its values are nested too deeply)") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file ({error})") from None


def _check_tables(text: str, path: Path) -> None:
    """Refuse more tables than a parser has memory for: every dot of a key opens one, and notes all keys before it."""
    deepest, total = 0, 0
    for line in text.split("\n"):
        is_header = line.lstrip().startswith("[")
        keys = line if is_header else line.rpartition("=")[0]
        n_tables = is_header + _DECIMAL.sub("", keys).count(".")
        deepest, total = max(deepest, n_tables), total + n_tables
    if deepest > _DEEPEST or total > _MOST_TABLES:
        raise ConfigError(f"{path}: the file has too many tables, or a key with too many dots")


def _explain(cls: type[BaseModel], error: ValidationError) -> str:
    mistakes: dict[str, list[dict[str, Any]]] = {}
    for item in error.errors():
        own = [str(part) for i, part in enumerate(item["loc"]) if i == 0 or not _ALTERNATIVE.fullmatch(str(part))]
        mistakes.setdefault(_cut(".".join(own)), []).append(dict(item))
    shown = [_explain_one(cls, path, items) for path, items in list(mistakes.items())[:_MOST]]
    return "; ".join(shown) + (f"; and {len(mistakes) - _MOST} more" if len(mistakes) > _MOST else "")


def _explain_one(cls: type[BaseModel], path: str, items: list[dict[str, Any]]) -> str:
    """One mistake; a setting that may have one of several types has one message for each."""
    table = name.lower() if (name := cls.__name__.removesuffix("Config")) not in (cls.__name__, "Run") else ""
    where, item = ".".join(filter(None, (table, path))), items[0]
    if item["type"] == "extra_forbidden":
        known = list(_fields_at(cls, item["loc"][:-1]))
        close = difflib.get_close_matches(str(item["loc"][-1]), known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}"
        return f"unknown setting {where}; {hint}"
    if item["type"] == "missing":
        return f"'{where}' is missing; set it"
    messages = dict.fromkeys(plain(item["msg"]) for item in items)
    if item["type"] == "value_error" and next(iter(messages)).startswith((f"{path}.", f"{path}:")):
        return ", or ".join(messages)  # a group of settings inside this one has explained it
    found = f"{', or '.join(messages)} (got {_cut(repr(item['input']))})" if path else ", or ".join(messages)
    return f"{where}: {found}" if where else found


def plain(message: str) -> str:
    """What pydantic reports, in our words."""
    text = re.sub(r"^[A-Z]\w+ should (be|have) ", r"must \1 ", message.removeprefix("Value error, "))
    return text.partition(", unable to parse")[0][: 2 * _LONGEST]  # it may quote a value


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _fields_at(cls: type[BaseModel], loc: tuple[Any, ...]) -> dict[str, Any]:
    for part in loc:
        field = cls.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return {}
        cls = field.annotation
    return dict(cls.model_fields)
