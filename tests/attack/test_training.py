"""Random kills inside training: nothing is lost, and what is resumed ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from attack.kills import told_by
from attack.mutate import tally

PARTS = 2  # so that several processes can share the work
pytestmark = [pytest.mark.attack(minutes=1.5), pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")]


@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_kills_change_nothing(part: int, tmp_path: Path) -> None:
    kills = int(os.environ.get("HODGEFORMER_ATTACK_KILLS", "200")) // PARTS
    told = told_by("kill_training.py", kills, tmp_path, part)
    print(json.dumps(told))  # noqa: T201 - the table of the attack
    tally("kills of trainings", told["kills"], f"{told['runs']} runs, {told['different']} ended otherwise")
    assert told["different"] == 0 and told["after_first_state"] > told["kills"] // 2
