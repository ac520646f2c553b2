"""What a person reads first: the lists of commands."""

from __future__ import annotations

import pytest

from command import run


@pytest.mark.parametrize("group", [(), ("study",)], ids=["hodgeformer", "study"])
def test_no_line_in_a_list_of_commands_is_cut(group: tuple[str, ...]) -> None:
    listed = run(*group, "--help").stdout.partition("Commands:")[2]

    assert listed.count("\n") > 5
    assert "..." not in listed
