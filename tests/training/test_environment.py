"""The record of what a run ran on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hodgeformer.training.run_folder import commit, environment


@pytest.mark.parametrize("program", ["/somewhere/bin/hodgeformer", "/somewhere/hodgeformer/__main__.py"])
def test_a_record_names_program_and_commit_but_no_place(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [program, "train", "data"])
    record = environment()
    assert record["command"] == ["hodgeformer", "train", "data"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    found = commit()
    assert found is None or head.startswith(found.rstrip("+"))


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="this system names its processor elsewhere")
def test_a_record_names_the_model_of_the_processor() -> None:
    named = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    if named:
        assert environment()["processor"] in named[0]
