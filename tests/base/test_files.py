"""One way to write a file, and one meaning of offline."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from hodgeformer.base.errors import CheckpointError, ConfigError, OutputError
from hodgeformer.base.files import files_below, offline, place, write_atomically


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_full_disk_is_the_error_of_the_caller_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "labels.txt"
    write_atomically(path, b"before")
    monkeypatch.setattr(call, full)
    with pytest.raises(OutputError, match=r"labels\.txt: cannot be written \(No space left on device\).*unchanged"):
        write_atomically(path, b"after")
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_atomically(path, b"after", CheckpointError)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_write_one_file_leave_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins and ends while the first is half way."""
    path, real, inner = tmp_path / "labels.txt", os.fsync, [b"second" * 1000]

    def between(number: int) -> None:
        if inner:
            write_atomically(path, inner.pop())
            assert path.read_bytes() == b"second" * 1000
        real(number)

    monkeypatch.setattr("os.fsync", between)
    write_atomically(path, b"first")
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


def test_a_linked_folder_is_entered_once(tmp_path: Path) -> None:
    scans, elsewhere = tmp_path / "scans", tmp_path / "elsewhere"
    scans.mkdir()
    elsewhere.mkdir()
    (elsewhere / "a.obj").touch()
    (scans / "linked").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(scans)  # a circle
    assert files_below(scans) == [scans / "linked" / "a.obj"]


def test_an_address_is_read_and_written_like_a_path() -> None:
    path = place("memory://places/a/labels.txt")
    write_atomically(path, b"1\n")
    assert path.read_bytes() == b"1\n" and str(path) == "memory://places/a/labels.txt"
    assert place(path) is path


def test_an_address_on_this_machine_is_a_path(tmp_path: Path) -> None:
    assert place(f"file://{tmp_path}/a.ply") == place(str(tmp_path / "a.ply")) == tmp_path / "a.ply"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://bucket/a.ply", "pip install s3fs"),
        ("gs://bucket/a.ply", "pip install gcsfs"),
        ("https://host/a.ply", r"pip install 'fsspec\[http\]'"),
        ("scans://a.ply", "unsupported URL"),
    ],
)
def test_an_address_that_cannot_be_read_here_says_what_to_do(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("s3fs", "gcsfs", "aiohttp", "fsspec.implementations.http"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=said) as raised:
        place(address)
    assert "\n" not in str(raised.value)


def test_addresses_without_their_package_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(ConfigError, match=r"^s3://a/b: .*pip install 'hodgeformer\[remote\]'$"):
        place("s3://a/b")


def test_a_folder_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does its folder exist"):
        write_atomically(tmp_path / "none" / "labels.txt", b"")


@pytest.mark.parametrize(
    ("value", "expected"), [("", False), ("0", False), ("false", False), ("No", False), ("1", True), ("true", True)]
)
def test_offline_is_said_in_words_or_numbers(value: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HODGEFORMER_OFFLINE", value)
    assert offline() is expected


def test_drafts_of_a_process_that_was_killed_are_removed(tmp_path: Path) -> None:
    old, young, other = (tmp_path / name for name in (".a.txt.0123abcd.tmp", ".b.txt.0123abcd.tmp", ".mine.tmp"))
    for path in (old, young, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (0, 0))
    write_atomically(tmp_path / "c.txt", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name, "c.txt"}
