"""The public names are those that the documentation lists, and its examples run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import hodgeformer as hf
from pages import ROOT, blocks, run_here

PAGE = (ROOT / "docs" / "library.md").read_text()
LISTED = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `hf.")]


def test_every_public_name_is_listed_and_every_listed_name_is_public() -> None:
    listed = set(re.findall(r"`hf\.([\w.]+)`", "".join(LISTED)))
    assert listed == {*hf.__all__, *(f"kernels.{name}" for name in hf.kernels.__all__)}


def test_the_names_of_kernels_are_functions_and_not_files() -> None:
    assert all(callable(getattr(hf.kernels, name)) for name in hf.kernels.__all__)


def test_the_example_of_kernels_shows_what_it_computes() -> None:
    found = doctest.testmod(hf.kernels)
    assert (found.failed, found.attempted > 5) == (0, True)


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_here("\n".join(blocks("docs/library.md", "python")), tmp_path, monkeypatch)
