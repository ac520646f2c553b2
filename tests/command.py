"""The command line, called in the process of the tests."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from hodgeformer.cli import app


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def options(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
