"""What points up in pictures, as a choice on the command line."""

from __future__ import annotations

from enum import StrEnum


class Axis(StrEnum):
    """What points up in the pictures."""

    x = "x"
    y = "y"
    z = "z"
