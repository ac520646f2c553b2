"""Every deliberate error is noticed by the test that is named for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hodgeformer.lab.mutants import MUTANTS, ROOT, Mutant, copied_source, noticed, passes, place_of

pytestmark = pytest.mark.attack


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_error_can_still_be_made_and_its_test_exists(mutant: Mutant) -> None:
    place_of(mutant)
    file, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_source(tmp_path_factory.mktemp("copy"))


@pytest.mark.attack(minutes=0.6)
def test_without_an_error_the_tests_pass(source: Path) -> None:
    assert passes(sorted({mutant.test for mutant in MUTANTS}), source)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_error_is_noticed(mutant: Mutant, source: Path) -> None:
    assert noticed(mutant, source)
