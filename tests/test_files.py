"""One way to write a file, and one meaning of offline."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hodgeformer.errors import CheckpointError, OutputError
from hodgeformer.files import offline, write_atomically


def test_a_full_disk_is_the_error_of_the_caller_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "labels.txt"
    write_atomically(path, b"before")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match=r"labels\.txt: cannot be written \(No space left on device\).*unchanged"):
        write_atomically(path, b"after")
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_atomically(path, b"after", CheckpointError)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does its folder exist"):
        write_atomically(tmp_path / "none" / "labels.txt", b"")


@pytest.mark.parametrize(
    ("value", "expected"), [("", False), ("0", False), ("false", False), ("No", False), ("1", True), ("true", True)]
)
def test_offline_is_said_in_words_or_numbers(value: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HODGEFORMER_OFFLINE", value)
    assert offline() is expected
