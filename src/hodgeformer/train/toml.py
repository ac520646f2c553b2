"""Settings as TOML text and back. TOML has no null: "none" stands for it where a setting may be empty."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from hodgeformer.errors import ConfigError

Table = dict[str, Any]
NONE = "none"


def read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such configuration file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file ({error})") from None


def to_toml(tables: Table) -> str:
    """Tables of scalars, lists and small dictionaries, in the order given."""
    top = [f"{key} = {_value(value)}" for key, value in tables.items() if not isinstance(value, dict)]
    parts = ["\n".join(top)] if top else []
    for name, table in tables.items():
        if isinstance(table, dict):
            parts.append("\n".join([f"[{name}]", *(f"{_key(k)} = {_value(v)}" for k, v in table.items())]))
    return "\n\n".join(parts) + "\n"


def parse_override(text: str) -> tuple[str, str, Any]:
    """`train.lr=3e-4` as table, key and typed value; what is not a TOML value is a string."""
    name, sign, value = text.partition("=")
    table, dot, key = name.strip().partition(".")
    if not (sign and dot and key):
        raise ConfigError(f"a setting is written table.key=value, such as train.lr=3e-4; got {text!r}")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return table, key, value.strip()


def with_nulls(cls: type[BaseModel], table: Table) -> Table:
    """The table with "none" read as None for the settings of cls that may be None."""
    optional = {name for name, field in cls.model_fields.items() if type(None) in get_args(field.annotation)}
    return {key: None if value == NONE and key in optional else value for key, value in table.items()}


def _value(value: Any) -> str:
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    # A JSON string is a TOML basic string, apart from DEL and surrogate pairs, which ensure_ascii would write.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)
