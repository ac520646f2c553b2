"""Absurd values for every setting: a run or an error of ours, soon."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from attack.mutate import tally
from clock import TooLongError, at_most
from hodgeformer.base.errors import HodgeFormerError
from hodgeformer.data.folder import write_folder
from hodgeformer.training.config import TABLES, read_config
from hodgeformer.training.run import train
from tiny_sets import TINY, parts

VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 3, 10**6, 10**20, -1.0, 0.0, 1e-300, 0.5, 1e300, float("inf"), float("nan")),
    *("", "none", "auto", "x" * 1000, "\0", True, False, [], [1], [[[]]], {}, {"v": 1}, {"v": 10**20}),
)
SECONDS = 10

Case = tuple[str, str, Any]


def accepted() -> list[Case]:
    """Every value that a setting takes; what it does not take must be refused in one line."""
    cases = []
    for table, settings in TABLES.items():
        for key in settings.model_fields:
            if (table, key) in (("data", "name"), ("data", "path"), ("train", "track")):
                continue
            for value in VALUES:
                tables: dict[str, dict[str, Any]] = {"data": {"name": "figures"}}
                tables.setdefault(table, {})[key] = value
                try:
                    read_config(tables)
                except HodgeFormerError as error:
                    assert len(str(error)) < 1500, (table, key, value)
                else:
                    cases.append((table, key, value))
    return cases


def survives(case: Case, folder: Path, out: Path) -> str | None:
    """Train one epoch of one step with the value; what happened, if it is not a run and not an error of ours."""
    table, key, value = case
    tables: dict[str, dict[str, Any]] = read_config({"data": {"path": folder}}, TINY).model_dump(exclude_unset=True)
    tables["train"] |= {"epochs": 1}
    if table == "train" and key in ("epochs", "minutes"):
        del tables["train"]["epochs"]
        if isinstance(value, int | float) and value > 0.1:
            return None  # is only long
    if (key, value) in (("d_hidden", 10**6), ("least_faces", 10**6)):
        return None  # is only large
    tables.setdefault(table, {})[key] = value
    try:
        with at_most(SECONDS):
            train(tables, out)
    except HodgeFormerError as error:
        return f"{case}: {len(str(error))} letters" if len(str(error)) > 1500 else None
    except (Exception, TooLongError) as error:
        return f"{case}: {type(error).__name__}: {str(error)[:200]}"
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parts")
    write_folder(parts(n_train=2, n_test=1), root)
    return root


def attack(number: int | None, folder: Path, tmp_path: Path) -> None:
    cases = [case for case in accepted() if case[0] != "data"]
    random.Random(int(os.environ.get("HODGEFORMER_ATTACK_SEED", "0"))).shuffle(cases)
    found = [survives(case, folder, tmp_path / str(i)) for i, case in enumerate(cases[:number])]
    tally("absurd settings", len(found), f"{found.count(None)} trained or refused")
    assert not any(found), "\n".join(text for text in found if text)


def test_a_few_absurd_settings_train_or_are_refused(folder: Path, tmp_path: Path) -> None:
    attack(12, folder, tmp_path)


@pytest.mark.attack(minutes=1)
def test_every_absurd_setting_trains_or_is_refused(folder: Path, tmp_path: Path) -> None:
    attack(None, folder, tmp_path)
