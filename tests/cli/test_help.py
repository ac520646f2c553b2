"""What a person reads first: the lists of commands."""

from __future__ import annotations

import pytest

from command import run


@pytest.mark.parametrize("group", [(), ("study",)], ids=["hodgeformer", "study"])
def test_no_line_in_a_list_of_commands_is_cut(group: tuple[str, ...]) -> None:
    listed = run(*group, "--help").stdout.partition("Commands:")[2]

    assert listed.count("\n") > 5
    assert "..." not in listed


@pytest.mark.parametrize(
    ("words", "explained"),
    [
        (("predict", "human", "x.obj", "--element", "corner"), "'corner' is not one of 'vertex', 'edge', 'face'"),
        (("predict", "human", "x.obj", "--tta", "two"), "'--tta': must be a valid integer"),
        (("predict", "human", "x.obj", "--memory", "lots"), "memory: must be a size such as 4GB"),
        (("predict", "human", "x.obj", "--face", "800"), "Possible options: --faces"),
        (("serve", "human", "--workers", "0"), "'--workers': must be greater than or equal to 1"),
    ],
)
def test_wrong_values_are_explained_in_plain_words(words: tuple[str, ...], explained: str) -> None:
    answer = run(*words)
    assert answer.exit_code == 2 and explained in answer.stderr
    assert "Value error" not in answer.stderr and "Input should" not in answer.stderr
